// open_session and open_session_from: from an environment or a URL to the store in which the ranks meet, and
// to a communicator's session.
//
// The layers below know neither environment nor URLs; the layers above know no stores. Blocking; called by
// the thread that makes the communicator. Throws CollectiveError only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "collectives/key_value_store.hpp"
#include "collectives/nccl/nccl_join.hpp"
#include "collectives/options.hpp"
#include "collectives/session/session.hpp"
#include "collectives/shm/shm_segment.hpp"
#include "collectives/tcp/peer_mesh.hpp"
#include "collectives/wire/host_settings.hpp"
#include "collectives/wire/membership.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/store/store.hpp"
#include "rendezvous/worker/life_table.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {
inline namespace detail {

// join_through: the ranks that a launcher, or the user, has numbered make a communicator through a Store.
//
// Keys, under `ddprun/communicators/<round>/`:
//   owner/<rank>     which process this rank is (claim.hpp); a second one that claims it is refused while the
//                    first one lives
//   instance/<rank>  how many communicators this rank has begun; the n-th of every rank belong together
//   <n>/…            how these find each other, see Gathering in session.hpp

// kDepartureTimeout: how long rank 0, having given up, waits for the others to read why, since the store may
// end with it.
inline constexpr std::chrono::milliseconds kDepartureTimeout{2000};

// Joining: which rank joins. `owner` tells processes apart.
struct Joining {
    int rank = 0;
    int world_size = 1;
    std::uint32_t round = 0;
    std::string owner;
};

struct Joined {
    Membership membership;
    Departure departure;
};

// Publishes `self`, waits for all others until `deadline`. Throws as Gathering::run() does, and
// CollectiveError system for a rank that another process has.
Joined join_through(Store& store, const Joining& joining, const Member& self, Deadline deadline);

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

// Returns the program's store as a Store. The compare_set() is decided by the program's add(), and atomic
// only if that is.
std::shared_ptr<Store> store_over(std::shared_ptr<KeyValueStore> given);

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

// Makes a session over a store that the caller has made; the listening address is given (numeric). The
// session keeps the store. For two ranks or more.
std::unique_ptr<Session> open_session(std::shared_ptr<Store> store, const std::string& listen_address,
                                      const Place& place, const CommunicatorOptions& options);

// Throws invalid_argument that names the timeout which is out of range.
void require_valid(const CommunicatorOptions& options);

// Meets the others at `meeting`; hosts the store if this rank has to. A rank alone needs no meeting.
std::unique_ptr<Session> open_session(const Meeting& meeting, const Place& place,
                                      const CommunicatorOptions& options);

// Connects the ranks of `membership`, two at least, which have found each other already. `listener` is the
// one that the membership names for this rank; none where the communicator they come from, in `origin`, has
// it. `gather`: by which the ranks of a host agree on their memory before they connect; empty: they agree
// afterwards, over their connections.
std::unique_ptr<Session> open_session(Membership membership, std::optional<TcpListener> listener,
                                      Transport transport, const std::optional<NcclSettings>& nccl,
                                      const CommunicatorOptions& options, Deadline deadline,
                                      const Origin& origin = {}, const ShmGather& gather = {});

// Makes the session of one rank without peers.
std::unique_ptr<Session> open_session_alone(const std::optional<NcclSettings>& nccl,
                                            const CommunicatorOptions& options);

std::unique_ptr<Session> open_session_from(const Environment& environment,
                                           const CommunicatorOptions& options);

}  // namespace detail
}  // namespace ddprun
