#include "launcher/report/end_summary.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "launcher/harmless_text.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/system/check.hpp"
#include "rendezvous/system/number_text.hpp"

namespace ddprun::inline launch {
namespace {

using Manner = RankEnd::Manner;

// In the order in which they matter to a reader.
constexpr std::array<Manner, 4> kWorstFirst = {Manner::failed, Manner::lost, Manner::stopped,
                                               Manner::succeeded};

std::string manner_text(Manner manner) {
    switch (manner) {
        case Manner::succeeded: return "succeeded";
        case Manner::failed: return "failed too";
        case Manner::stopped: return "stopped by ddprun";
        case Manner::lost: return "lost";
    }
    return {};
}

int stated_count(const Finish& finish, Manner manner) {
    switch (manner) {
        case Manner::failed: return finish.failed_too;
        case Manner::stopped: return finish.stopped;
        case Manner::lost: return finish.lost;
        case Manner::succeeded: return finish.succeeded;
    }
    return 0;
}

// A caller that fills in a Finish on its own may leave the counts out.
int count_of(const Finish& finish, Manner manner) {
    const auto listed = std::count_if(finish.others.begin(), finish.others.end(),
                                      [manner](const RankEnd& end) { return end.manner == manner; });
    return std::max(stated_count(finish, manner), static_cast<int>(listed));
}

std::string end_text(const RankEnd& end) {
    const std::string manner = manner_text(end.manner);
    if (end.manner == Manner::lost || end.manner == Manner::succeeded) return manner;
    const char* when = end.outlasted_grace ? " when --grace had passed" : "";
    if (end.signal != 0) return manner + ", " + to_string(Signaled{end.signal, end.core_dumped}) + when;
    return manner + ", " + to_string(Exited{end.exit_code});
}

template <class Worker>
std::string worker_text(const Worker& worker) {
    return fmt::format("rank {} (local rank {}) on {}{}", worker.rank, worker.local_rank,
                       shown_node(worker.node_rank, worker.host),
                       worker.pid == 0 ? "" : fmt::format(", pid {}", worker.pid));
}

std::string rank_line(const RankEnd& end) { return fmt::format("{}: {}", shown_worker(end), end_text(end)); }

// The ranks that ended alike; in the order in which the first of each was listed.
struct Alike {
    std::string text;
    std::vector<const RankEnd*> ends;
};

std::vector<Alike> alike(const std::vector<RankEnd>& ends) {
    std::vector<Alike> groups;
    for (const RankEnd& end : ends) {
        const std::string text = end_text(end);
        auto group =
            std::find_if(groups.begin(), groups.end(), [&](const Alike& one) { return one.text == text; });
        if (group == groups.end()) group = groups.insert(groups.end(), Alike{text, {}});
        group->ends.push_back(&end);
    }
    return groups;
}

std::string group_line(const Alike& group) {
    if (group.ends.size() == 1) return rank_line(*group.ends.front());
    std::vector<int> ranks;
    for (const RankEnd* end : group.ends) ranks.push_back(end->rank);
    return ranks_text(ranks) + ": " + group.text;
}

// "and 12 more: 2 failed too, 10 stopped by ddprun", of all ranks that are not among `listed`.
std::string rest_line(const Finish& finish, const std::vector<const RankEnd*>& listed) {
    int total = 0;
    std::string parts;
    for (const Manner manner : kWorstFirst) {
        const auto shown = std::count_if(listed.begin(), listed.end(),
                                         [manner](const RankEnd* end) { return end->manner == manner; });
        const int rest = count_of(finish, manner) - static_cast<int>(shown);
        if (rest <= 0) continue;
        total += rest;
        parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", rest, manner_text(manner));
    }
    if (total == 0) return {};
    if (!listed.empty()) return fmt::format("and {} more: {}", total, parts);
    return total == 1 ? "the other rank: " + parts : fmt::format("the other {} ranks: {}", total, parts);
}

}  // namespace

std::vector<std::string> end_lines(const Finish& finish, std::size_t room) {
    check(room >= 1, "no line is left for the other ranks");
    std::vector<Alike> groups;
    for (const RankEnd& end : finish.others) groups.push_back({end_text(end), {&end}});

    std::vector<const RankEnd*> listed;
    for (const Alike& group : groups) listed.push_back(group.ends.front());
    const bool complete = rest_line(finish, listed).empty();
    if (groups.size() + (complete ? 0 : 1) > room) groups = alike(finish.others);
    // A rank of a group that is not shown is counted in the last line.
    if (groups.size() + (complete ? 0 : 1) > room) groups.resize(room - 1);

    std::vector<std::string> lines;
    listed.clear();
    for (const Alike& group : groups) {
        lines.push_back(group_line(group));
        listed.insert(listed.end(), group.ends.begin(), group.ends.end());
    }
    if (auto rest = rest_line(finish, listed); !rest.empty()) lines.push_back(rest);
    return lines;
}

std::string shown_worker(const Failure& worker) { return worker_text(worker); }
std::string shown_worker(const RankEnd& worker) { return worker_text(worker); }

std::string shown_node(int node_rank, const std::string& host) {
    return host.empty() ? fmt::format("node {}", node_rank)
                        : fmt::format("node {} ({})", node_rank, harmless_line(host));
}

std::string ranks_text(std::vector<int> ranks) {
    const char* noun = ranks.size() == 1 ? "rank " : "ranks ";
    return noun + number_set_text(spans_of(std::move(ranks)));
}

}  // namespace ddprun::inline launch
