// What the coordinator's tests share: jobs, hellos and messages in one line each.
#pragma once

#include "rendezvous/coordinator/coordinator.hpp"

namespace ddprun {

using TimePoint = Coordinator::TimePoint;

inline const TimePoint kStart{};

inline Coordinator make_restarting(int nnodes, RestartOptions restarts) {
    return Coordinator({.version = "1",
                        .run_id = "none",
                        .job_id = "job",
                        .start_unix_s = 1234,
                        .nnodes = nnodes,
                        .restarts = restarts},
                       kStart);
}

inline Coordinator make(int nnodes, std::chrono::milliseconds join_timeout = std::chrono::seconds(900)) {
    return Coordinator(
        {.version = "1", .run_id = "none", .job_id = "job", .nnodes = nnodes, .join_timeout = join_timeout},
        kStart);
}

// Node 0's own agent is this one.
inline Coordinator make_with_own_agent(const Hello& own) {
    CoordinatorOptions options;
    options.version = own.version;
    options.job_id = "job";
    options.nnodes = own.nnodes;
    options.own_agent = own;
    return Coordinator(std::move(options), kStart);
}

inline Hello hello(int node_rank, int nnodes, int workers = 1) {
    return {.version = "1",
            .run_id = "none",
            .node_rank = node_rank,
            .nnodes = nnodes,
            .local_world_size = workers,
            .host = "gpu" + std::to_string(node_rank),
            .pid = 100 + node_rank};
}

template <class Message>
std::vector<Message> of_type(const Coordinator::Outbox& outbox) {
    std::vector<Message> found;
    for (const auto& outgoing : outbox) {
        if (const auto* message = std::get_if<Message>(&outgoing.message)) found.push_back(*message);
    }
    return found;
}

// Joins node r over connection r + 1 for each node of `workers`.
inline Coordinator::Outbox join_all(Coordinator& coordinator, const std::vector<int>& workers) {
    Coordinator::Outbox last;
    const int nnodes = static_cast<int>(workers.size());
    for (int rank = 0; rank < nnodes; ++rank) {
        last = coordinator.receive(static_cast<std::uint64_t>(rank) + 1,
                                   hello(rank, nnodes, workers[static_cast<std::size_t>(rank)]), kStart);
    }
    return last;
}

inline WorkersGone gone(int round, bool all_zero) { return {.round = round, .all_zero = all_zero}; }

inline WorkerFailed failed_with(int exit_code, int rank) {
    Failure failure{.kind = Failure::Kind::worker_failed};
    failure.rank = rank;
    failure.exit_code = exit_code;
    return {0, failure};
}

}  // namespace ddprun
