// An agent in a simulated network: what RendezvousLink and the Agent do, by the same pure parts.
#pragma once

#include <memory>
#include <optional>
#include <set>

#include "rendezvous/link/host_lease.hpp"
#include "rendezvous/link/job_memory.hpp"
#include "rendezvous/membership/quorum.hpp"
#include "tests/rendezvous/link/simulated_register.hpp"
#include "tests/support/simulated_network.hpp"

namespace ddprun {

inline constexpr std::chrono::milliseconds kSimulatedGrace{9'000};
inline constexpr std::chrono::milliseconds kSimulatedLostGrace{3'000};
inline constexpr std::chrono::seconds kSimulatedJoin{60};
inline constexpr std::chrono::milliseconds kSimulatedHeartbeat{600};
inline constexpr HeartbeatTerms kSimulatedTerms{kSimulatedHeartbeat};

struct SimulatedAgent {
    Where where;
    bool alive = false, done = false;
    TimePoint frozen_until{};  // the agent alone
    TimePoint stands_until{};  // its whole machine

    std::unique_ptr<JobMemory> memory;
    std::optional<Succession> succession;
    bool leads = false;
    std::optional<int> called;
    TimePoint next_step{};  // of the search, or the next call of one that joins

    std::optional<std::uint64_t> connection;
    TimePoint join_by{};
    bool is_answered = false;
    TimePoint answer_by{};
    TimePoint hello_time{};
    std::optional<HeartbeatLease> lease;
    std::vector<ControlMessage> waiting;  // until it knows that it takes part
    HostLease host_lease;
    RoundLease told_lease;           // by its coordinator
    std::optional<TimePoint> guard;  // then the guardian stops the workers, …
    bool guard_is_final = false;     // … and kills them, at once or, if they do not go on, later
    std::optional<TimePoint> held_since;

    SimulatedElection election;
    std::unique_ptr<Coordinator> coordinator;
    bool is_gate = false;    // it only says where the job is
    bool is_acting = false;  // that one leads the job, and not at its first place
    TimePoint next_beacon{};
    std::optional<Where> place;  // where it would join; nothing: at the first place
    std::size_t roamed = 0;

    std::optional<RoundReady> round;
    std::string job;  // of the round
    int epoch = 0;    // likewise
    bool workers = false, stopping = false, stubborn = false, killed = false, said_gone = true;
    TimePoint workers_end{};
    std::optional<TimePoint> last_moment;  // the others may go on without it: then the guardian kills them
    bool signalled = false, finished = false, is_ending = false;

    bool hosts() const { return coordinator != nullptr && !is_gate; }
    bool is_frozen(TimePoint now) const { return now < frozen_until || stands_still(now); }
    bool stands_still(TimePoint now) const { return now < stands_until; }
    bool acts(TimePoint now) const { return alive && !done && !is_frozen(now); }
};

// A member's port tells its life.
inline int port_of(Where where) { return 1 + where.machine + 16 * where.life; }
inline Where where_of(const Member& member) { return {(member.port - 1) % 16, (member.port - 1) / 16}; }

}  // namespace ddprun
