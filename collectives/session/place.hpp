// Place and Meeting: what a rank is told about itself, and where the ranks meet, as URLs and the environment
// say. Throws CollectiveError only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "collectives/nccl/nccl_join.hpp"
#include "collectives/options.hpp"
#include "collectives/session/session.hpp"
#include "collectives/wire/host_settings.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/store/store.hpp"
#include "rendezvous/worker/life_table.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {
inline namespace detail {

struct TcpMeeting {
    Endpoint endpoint;
    bool rank_0_hosts = true;  // else another process does, and rank 0 only connects

    bool operator==(const TcpMeeting&) const = default;
};

struct FileMeeting {
    std::string path;

    bool operator==(const FileMeeting&) const = default;
};

struct StoreMeeting {
    std::shared_ptr<Store> store;
    std::string towards;  // a host towards which the ranks connect; empty: none is known
};

using Meeting = std::variant<TcpMeeting, FileMeeting, StoreMeeting>;

// Reads `tcp://host:port` or `file://path`. Throws invalid_argument for anything else. Pure.
Meeting parse_url(const std::string& url);

// Reads DDPRUN_TRANSPORT: `tcp`, or `auto` as when it is not set. Throws invalid_argument for anything else.
Transport read_transport(const Environment& environment);

// Reads DDPRUN_NOTICE: CommunicatorOptions::notice_after in seconds; 0 where it is not set. Throws
// invalid_argument for anything else.
std::chrono::milliseconds read_notice(const Environment& environment);

// Reads DDPRUN_LIFE; nothing where it is not set, or makes no sense: it only makes news come sooner.
std::optional<LifeSlot> read_life_slot(const Environment& environment);

// Place: what a rank is told about itself.
struct Place {
    int rank = 0;
    int world_size = 1;
    int local_rank = -1;  // -1: not told; found out by comparing hosts
    int local_world_size = -1;
    std::uint32_t round = 0;
    Transport transport = Transport::automatic;
    HostSettings host;
    std::optional<NcclSettings> nccl = std::nullopt;   // where NCCL is to be the backend
    std::optional<LifeSlot> life = std::nullopt;       // where its agent watches over it
    bool own_numbers = false;                          // see Membership
    std::optional<SecretKey> mesh_key = std::nullopt;  // see Membership
    // node_addr and host_addr are what ddprun says: where this node is reached, and the host of its store,
    // which MASTER_ADDR may stand for. Empty: it does not say.
    std::string node_addr;
    std::string host_addr;
};

// Reads what DDPRUN_TRANSPORT, DDPRUN_LIFE, DDPRUN_MESH_KEY, the host's settings and NCCL's say;
// see read_nccl_settings() for `local_rank`. Throws invalid_argument that names the variable.
Place read_place(const Environment& environment, const CommunicatorOptions& options, int local_rank);

}  // namespace detail
}  // namespace ddprun
