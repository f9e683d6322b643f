#include "rendezvous/coordinator/job_summary.hpp"

#include <algorithm>

#include "rendezvous/control/control_text.hpp"

namespace ddprun {
inline namespace job {

namespace {

int exit_code_of(const JobNodes& nodes, const std::optional<Failure>& cause, bool requeue) {
    if (!cause) return requeue ? kExitPreempted : 0;
    const bool all_zero =
        std::all_of(nodes.begin(), nodes.end(), [](const auto& entry) { return entry.second.run.all_zero; });
    return cause->kind == Failure::Kind::signalled && all_zero ? kExitPreempted : exit_code_of(*cause);
}

void add_ends(Finish& finish, const std::vector<RankEnd>& ends, const std::optional<Failure>& cause) {
    const bool by_worker = cause && cause->kind == Failure::Kind::worker_failed;
    for (const RankEnd& end : ends) {
        if (by_worker && end.rank == cause->rank) continue;
        switch (end.manner) {
            case RankEnd::Manner::succeeded: ++finish.succeeded; continue;
            case RankEnd::Manner::failed: ++finish.failed_too; break;
            case RankEnd::Manner::stopped: ++finish.stopped; break;
            case RankEnd::Manner::lost: ++finish.lost; break;
        }
        finish.others.push_back(end);
    }
    // Those that failed by themselves are the better evidence.
    std::stable_partition(finish.others.begin(), finish.others.end(),
                          [](const RankEnd& end) { return end.manner == RankEnd::Manner::failed; });
    if (finish.others.size() > kMaxOthersListed) finish.others.resize(kMaxOthersListed);
}

}  // namespace

std::optional<RankEnd> end_of_rank(const JobNodes& nodes, int rank) {
    for (const auto& [node_rank, node] : nodes) {
        if (!node.has_rank(rank)) continue;
        for (const RankEnd& end : node.run.ends) {
            if (end.rank == rank) return end;
        }
        return RankEnd{.rank = rank,
                       .local_rank = rank - node.run.base_rank,
                       .node_rank = node_rank,
                       .host = node.hello.host,
                       .manner = RankEnd::Manner::lost};
    }
    return std::nullopt;
}

std::vector<std::string> hosts_of(const JobNodes& nodes) {
    std::vector<std::string> hosts;
    for (const auto& [rank, node] : nodes) hosts.push_back(node.hello.host);
    return hosts;
}

std::vector<RankEnd> all_ends(const JobNodes& nodes) {
    std::vector<RankEnd> ends;
    for (const auto& [rank, node] : nodes)
        ends.insert(ends.end(), node.run.ends.begin(), node.run.ends.end());
    return ends;
}

Finish summary_of(const JobNodes& nodes, const std::optional<Failure>& cause, bool requeue) {
    Finish finish{.exit_code = exit_code_of(nodes, cause, requeue), .cause = cause};
    for (const auto& [rank, node] : nodes) {
        if (node.connected) continue;
        if (!node.run.is_gone && ++finish.unknown_node_count <= static_cast<int>(kMaxUnknownListed))
            finish.unknown_nodes.push_back(node_text(rank, node.hello.host));
        if (!node.run.ended || node.run.ends.empty()) finish.lost += node.hello.local_world_size;
    }
    add_ends(finish, all_ends(nodes), cause);
    return finish;
}

StillRunning still_running_of(int round, const std::vector<WorkerStatus>& workers) {
    StillRunning answer{.round = round, .count = 0, .ranks = {}, .pid = 0};
    std::vector<int> ranks;
    int lowest = 0;
    for (const WorkerStatus& worker : workers) {
        if (worker.exit_code) continue;
        if (ranks.empty() || worker.rank < lowest) {
            lowest = worker.rank;
            answer.pid = worker.pid;
        }
        ranks.push_back(worker.rank);
    }
    answer.count = static_cast<int>(ranks.size());
    answer.ranks = ranges_of(std::move(ranks));
    if (answer.ranks.size() > kMaxRangesInMessage) answer.ranks.resize(kMaxRangesInMessage);
    return answer;
}

std::vector<RankEnds> as_messages(int round, std::span<const RankEnd> ends) {
    std::vector<RankEnds> messages;
    for (std::size_t at = 0; at < ends.size(); at += kMaxEndsInMessage) {
        const auto some = ends.subspan(at, std::min(kMaxEndsInMessage, ends.size() - at));
        messages.push_back({round, {some.begin(), some.end()}});
    }
    return messages;
}

}  // namespace job
}  // namespace ddprun
