// Session: all that a Communicator owns, in the order in which it must end.
//
// Made by bootstrap; used by Communicator's thread, but for executor->abort().
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "collectives/communicator.hpp"
#include "collectives/executor.hpp"
#include "collectives/join.hpp"
#include "collectives/membership.hpp"
#include "collectives/nccl_join.hpp"
#include "rendezvous/store.hpp"

namespace ddprun {

class StoreHost;

// The store the ranks met in, kept until this rank's communicator ends. Members end in reverse order: the
// store this process may host goes last.
struct MeetingRoom {
    std::unique_ptr<StoreHost> host;  // only on rank 0, and only where no launcher hosts
    std::shared_ptr<Store> store;
    std::unique_ptr<Join> join;

    MeetingRoom();
    MeetingRoom(MeetingRoom&&) noexcept;
    MeetingRoom& operator=(MeetingRoom&&) noexcept;
    ~MeetingRoom();
};

// Between the ranks of one host: by shared memory where all of them can have it, or over TCP as between
// hosts.
enum class Transport { automatic, tcp };

struct Communicator::Session {
    int rank = 0;
    int world_size = 1;
    int local_rank = 0;
    int local_world_size = 1;
    // For those that are split off.
    CommunicatorOptions options;
    Transport transport = Transport::automatic;
    std::optional<NcclSettings> nccl;
    Member self;  // where this rank listens, and on which host; unused when alone
    std::uint32_t generation = 0;
    MeetingRoom room;
    std::unique_ptr<Executor> executor;
    Lifeline* lifeline = nullptr;  // the executor's; none when alone
    std::atomic<bool> in_use{false};

    Session();
    // Leaves in order: first the ranks, then the store; waits, options.leave_timeout at most, for those who
    // still need a store that lives here.
    ~Session();
};

}  // namespace ddprun
