// What becomes of a round in which some ranks have ended with 0 and others go on, see exit_wait.hpp.
#include "rendezvous/coordinator/coordinator.hpp"

namespace ddprun::inline job {

void Coordinator::exit_wait_due(TimePoint now) {
    if (exit_wait_.is_asking()) return exit_wait_over(now);
    std::map<int, StillRunning> asked;
    for (const auto& [node_rank, node] : nodes_) {
        if (!node.connected || node.ended) continue;
        const int workers = node.hello.local_world_size;
        asked[node_rank] = {.round = round_,
                            .count = workers,
                            .ranks = {{node.base_rank, node.base_rank + workers - 1}},
                            .pid = 0};
        send(node.connection, WhoRuns{round_});
    }
    exit_wait_.ask(std::move(asked), now);
}

void Coordinator::note_running(const JobNode& node, const StillRunning& running, TimePoint now) {
    if (exit_wait_.answer(node.hello.node_rank, running)) exit_wait_over(now);
}

void Coordinator::exit_wait_over(TimePoint now) {
    for (const auto& [node_rank, node] : nodes_) {
        if (node.ended) exit_wait_.answer(node_rank, {});
    }
    const auto line = exit_wait_.conclude();
    if (!line) return;
    remark(*line);
    if (exit_wait_.kills()) handle(CoordinatorEvent::overdue, {now, &nodes_.at(exit_wait_.first_node())});
}

void Coordinator::stop_overdue(const Occasion& occasion) {
    Failure failure = exit_wait_.failure();
    failure.node_rank = occasion.node->hello.node_rank;
    failure.host = occasion.node->hello.host;
    failure.local_rank = failure.rank - occasion.node->base_rank;
    const int teller = failure.node_rank;
    stop_for(failures_.tell(teller, std::move(failure)), occasion.now);
}

}  // namespace ddprun::inline job
