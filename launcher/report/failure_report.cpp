#include "launcher/report/failure_report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>
#include <string_view>

#include "launcher/harmless_text.hpp"
#include "launcher/wall_clock.hpp"
#include "rendezvous/base/check.hpp"
#include "rendezvous/coordinator/first_failure.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/job/failure_reason.hpp"
#include "rendezvous/job/time_out.hpp"
#include "rendezvous/text/number_text.hpp"

namespace ddprun {
inline namespace launch {
namespace {

using Manner = RankEnd::Manner;

// They come in the order in which they matter to a reader.
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

// Returns "node 1 (gpu07)".
std::string shown_node(int node_rank, const std::string& host) {
    return host.empty() ? fmt::format("node {}", node_rank)
                        : fmt::format("node {} ({})", node_rank, harmless_line(host));
}

// Returns "rank 5 (local rank 1) on node 1 (gpu07), pid 4242", of a Failure or a RankEnd; without a pid that
// is 0.
std::string shown_worker(const auto& worker) {
    return fmt::format("rank {} (local rank {}) on {}{}", worker.rank, worker.local_rank,
                       shown_node(worker.node_rank, worker.host),
                       worker.pid == 0 ? "" : fmt::format(", pid {}", worker.pid));
}

std::string rank_line(const RankEnd& end) { return fmt::format("{}: {}", shown_worker(end), end_text(end)); }

// These ranks ended alike; they stand in the order in which the first of each was listed.
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

// Returns "and 12 more: 2 failed too, 10 stopped by ddprun", of all ranks that are not among `listed`.
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

using Lines = std::vector<std::string>;

constexpr std::size_t kMaxEvidenceLines = 21;  // a heading and kMaxLastLines
// The evidence leaves so many lines to the other ranks, if there are so many.
constexpr std::size_t kLinesOfOthers = 4;
constexpr std::size_t kMaxMessageLines = 3;
constexpr std::size_t kMaxSurvivorsNamed = 5;
// A path is of use only as a whole.
constexpr std::size_t kMaxLogsLine = PATH_MAX + kMaxShownLine;
// As much as fits a line with what stands before it.
constexpr std::size_t kMaxDoingsLine = kMaxShownLine - 40;
constexpr const char* kIndent = "  ";
constexpr const char* kEvidence = "    | ";

ExitStatus status_of(const Failure& failure) {
    if (failure.signal != 0) return Signaled{failure.signal, failure.core_dumped};
    return Exited{failure.exit_code};
}

std::string failure_text(const Failure& failure) {
    const std::string node = shown_node(failure.node_rank, failure.host);
    switch (failure.kind) {
        case Failure::Kind::worker_failed:
            if (failure.witness >= 0) {
                return fmt::format("{}: {} (rank {} says: {})", shown_worker(failure),
                                   harmless_line(failure.accusation), failure.witness,
                                   harmless_line(failure.testimony));
            }
            if (failure.pid == 0) return shown_worker(failure) + " could not be started";
            return fmt::format("{}: {}", shown_worker(failure), to_string(status_of(failure)));
        case Failure::Kind::node_lost: return node + " was lost";
        case Failure::Kind::overdue:
            return fmt::format("{}, was {}", shown_worker(failure), harmless_line(failure.message));
        case Failure::Kind::hang: return "it hangs: " + harmless_line(failure.message);
        case Failure::Kind::signalled:
            if (!failure.message.empty()) return harmless_line(failure.message);
            return fmt::format("{} sent to ddprun on {}", signal_text(failure.signal), node);
        case Failure::Kind::resized: break;  // no job ends by that
    }
    return {};
}

// True if the message says what has happened, and not something more about it.
bool is_told_by_message(const Failure& failure) {
    using enum Failure::Kind;
    return failure.kind == overdue || failure.kind == hang || failure.kind == signalled;
}

const char* what_happened(const Failure& failure) {
    switch (failure.kind) {
        case Failure::Kind::worker_failed: return "failed; first failure:";
        case Failure::Kind::node_lost:
        case Failure::Kind::overdue:
        case Failure::Kind::hang: return "was stopped, because";
        case Failure::Kind::signalled:
            return failure.message.empty() ? "was stopped by" : "was stopped, because";
        case Failure::Kind::resized: break;
    }
    return {};
}

std::string circumstances(const ReportFacts& facts) {
    std::string text;
    const std::int64_t time = facts.finish.cause->unix_time_ms;
    if (time != 0) text = "at " + wall_clock_text(time, facts.utc_offset);
    if (facts.resizes > 0)
        text += fmt::format("{}resizes so far: {}", text.empty() ? "" : "; ", facts.resizes);
    if (facts.max_restarts == 0 && facts.restarts == 0) return text;
    text += fmt::format("{}restarts so far: {} of {}", text.empty() ? "" : "; ", facts.restarts,
                        facts.max_restarts);
    if (!facts.finish.restarts.empty())
        text += ", the last one because of: " + harmless_line(facts.finish.restarts.back().reason);
    return text;
}

// Returns nothing for an empty text; else its first lines, indented.
Lines message_lines(const std::string& text) {
    Lines lines;
    for (const std::string_view line : lines_of(text)) {
        if (lines.size() == kMaxMessageLines) break;
        lines.push_back(kIndent + harmless_line(line));
    }
    return lines;
}

// Returns at most `room` lines of an error file: the head (what it says, where it began) and the tail (where
// it ended).
Lines without_middle(const Lines& words, std::size_t room) {
    if (words.size() <= room) return words;
    const std::size_t head = (room - 1) / 3;
    const std::size_t tail = room - head - 1;
    Lines lines(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(head));
    lines.push_back(fmt::format("... {} lines left out ...", words.size() - head - tail));
    lines.insert(lines.end(), words.end() - static_cast<std::ptrdiff_t>(tail), words.end());
    return lines;
}

// Returns at most `room` lines: a heading and the failing worker's own words. An error file does not replace
// last lines that say something else.
Lines evidence_of(const Failure& failure, std::size_t room) {
    Lines file;
    for (const std::string* text : {&failure.error_message, &failure.traceback}) {
        for (const std::string_view line : lines_of(*text)) file.emplace_back(line);
    }
    const auto has_same = [&](const std::string& line) {
        return !file.empty() && line.find(file.front()) != std::string::npos;
    };
    const auto& last = failure.last_lines;
    const bool shows_last = !last.empty() && std::none_of(last.begin(), last.end(), has_same);
    const std::string whose = failure.witness < 0 ? "its" : fmt::format("rank {}'s", failure.witness);
    Lines lines;
    const auto add = [&](const char* heading, const Lines& words) {
        lines.push_back(fmt::format("  {} {}:", whose, heading));
        for (const std::string& word : words) lines.push_back(kEvidence + harmless_output_line(word));
    };
    if (!file.empty())
        add("error file says",
            without_middle(file, (shows_last ? room - std::min(last.size(), room / 2) - 1 : room) - 1));
    if (shows_last) add("last lines on stderr", last_words({}, last, room - lines.size() - 1));
    return lines;
}

// Returns ", unknown on node 1 (gpu07) and 2 more"; empty if all were asked.
std::string unknown_text(const ReportFacts& facts) {
    const int count = facts.unknown_node_count;
    if (count == 0) return {};
    std::string text = ", unknown on ";
    for (std::size_t i = 0; i < facts.unknown_nodes.size(); ++i)
        text += (i == 0 ? "" : ", ") + harmless_line(facts.unknown_nodes[i]);
    const int unnamed = count - static_cast<int>(facts.unknown_nodes.size());
    if (unnamed == 0) return text;
    if (unnamed < count) return fmt::format("{} and {} more", text, unnamed);
    return text + (count == 1 ? "the other node" : fmt::format("the other {} nodes", count));
}

std::string survivor_line(const std::vector<std::string>& survivors) {
    std::string line = fmt::format("survivors: {}", survivors.size());
    const std::size_t named = std::min(survivors.size(), kMaxSurvivorsNamed);
    for (std::size_t i = 0; i < named; ++i)
        line += (i == 0 ? ": " : ", ") + harmless_line(survivors[i], kMaxShownLine / (2 * named));
    if (survivors.size() > named) line += fmt::format(" and {} more", survivors.size() - named);
    return line;
}

void append(Lines& lines, const Lines& more) { lines.insert(lines.end(), more.begin(), more.end()); }

std::string when_text(const Failure& failure) {
    switch (failure.kind) {
        case Failure::Kind::worker_failed: break;
        case Failure::Kind::node_lost: return "ranks when it was lost";
        case Failure::Kind::signalled:
        case Failure::Kind::overdue:
        case Failure::Kind::hang:
        case Failure::Kind::resized: return "ranks at that time";
    }
    return failure.witness < 0 ? "others when it failed"
                               : fmt::format("ranks when rank {} failed", failure.witness);
}

// Returns the rank that has failed since it did not want to wait any longer; -1: none has.
int gave_up(const Failure& failure) {
    const bool is_by_itself = failure.kind == Failure::Kind::worker_failed && failure.witness < 0;
    return is_by_itself && is_time_out(raised_by(failure)) ? failure.rank : -1;
}

}  // namespace

std::vector<std::string> doing_lines(const Failure& failure) {
    Lines lines;
    if (!failure.others.empty())
        lines.push_back(when_text(failure) + ": " +
                        harmless_line(doings_text(failure.others, gave_up(failure)), kMaxDoingsLine));
    if (!failure.left.empty())
        lines.push_back("left at half of the grace: " +
                        harmless_line(doings_text(failure.left), kMaxDoingsLine));
    return lines;
}

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

std::string ranks_text(std::vector<int> ranks) {
    const char* noun = ranks.size() == 1 ? "rank " : "ranks ";
    return noun + number_set_text(spans_of(std::move(ranks)));
}

std::string failure_sentence(const std::string& entry_name, const Failure& cause) {
    return harmless_line(
        fmt::format("{} {} {}", harmless_line(entry_name), what_happened(cause), failure_text(cause)));
}

std::string failure_report(const ReportFacts& facts) {
    const Failure& cause = facts.finish.cause.value();
    Lines lines{failure_sentence(facts.entry_name, cause)};
    if (auto text = circumstances(facts); !text.empty()) lines.push_back(kIndent + text);
    if (!is_told_by_message(cause)) append(lines, message_lines(cause.message));
    for (const std::string& line : doing_lines(cause)) lines.push_back(kIndent + line);
    if (!cause.hint.empty()) lines.push_back("  hint: " + harmless_line(cause.hint));

    Lines last = message_lines(facts.finish.message);
    last.push_back(fmt::format("  exiting with code {}", facts.finish.exit_code));
    last.push_back(kIndent + survivor_line(facts.survivors) + unknown_text(facts));

    const std::size_t most = facts.logs.empty() ? kMaxReportLines : kMaxReportLines - 1;
    const std::size_t room = most - lines.size() - last.size();
    const std::size_t for_others = std::min(end_lines(facts.finish, kMaxReportLines).size(), kLinesOfOthers);
    append(lines, evidence_of(cause, std::min(room - for_others, kMaxEvidenceLines)));
    if (for_others > 0) {
        for (const std::string& line : end_lines(facts.finish, most - lines.size() - last.size()))
            lines.push_back(kIndent + line);
    }
    append(lines, last);

    std::string report;
    for (const std::string& line : lines) report += (report.empty() ? "" : "\n") + harmless_line(line);
    if (!facts.logs.empty()) report += "\n  logs: " + harmless_line(facts.logs, kMaxLogsLine);
    return report;
}

}  // namespace launch
}  // namespace ddprun
