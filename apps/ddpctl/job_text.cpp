#include "apps/ddpctl/job_text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <boost/algorithm/string/join.hpp>
#include <boost/json.hpp>

#include "launcher/harmless_text.hpp"
#include "launcher/jobs/job_record.hpp"
#include "launcher/wall_clock.hpp"
#include "rendezvous/codec/json_codec.hpp"
#include "rendezvous/job/exit_status.hpp"

namespace ddprun {
inline namespace app {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxEventDepth = 8;

std::string two_units(std::int64_t large, char large_unit, std::int64_t small, char small_unit) {
    return fmt::format("{}{}{:02}{}", large, large_unit, small, small_unit);
}

std::string row(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
        const bool is_last = i + 1 == cells.size();
        line += cells[i] + (is_last ? "\n" : std::string(widths[i] - cells[i].size() + 2, ' '));
    }
    return line;
}

void fact(std::string& text, std::string_view name, const std::string& value) {
    text += fmt::format("{:<11}{}\n", name, value);
}

std::string host_text(const std::optional<std::string>& host) {
    return host ? fmt::format(" ({})", harmless_line(*host)) : "";
}

// Says how long a stop may take, until what has not ended is killed; empty: there is none.
std::string bound_text(const std::vector<NodeView>& nodes, std::int64_t now_unix_ms) {
    std::int64_t last = 0;
    for (const NodeView& node : nodes) last = std::max(last, node.kill_unix_ms.value_or(0));
    return last > now_unix_ms ? fmt::format(", up to {} s more (--grace)", (last - now_unix_ms + 999) / 1000)
                              : "";
}

// The nodes of a job that has more than one.
void node_facts(std::string& text, const std::vector<NodeView>& nodes) {
    std::string_view name = "nodes";
    for (const NodeView& node : nodes) {
        const std::string launcher = node.pid ? fmt::format(", launcher pid {}", *node.pid) : "";
        const std::string why = node.why ? ": " + harmless_line(*node.why) : "";
        fact(text, std::exchange(name, ""),
             fmt::format("node {}{}: {}{}{}", node.node, host_text(node.host), harmless_line(node.state),
                         launcher, why));
    }
}

void rank_facts(std::string& text, const std::vector<RankView>& ranks, bool with_nodes) {
    std::string_view name = "workers";
    for (const RankView& rank : ranks) {
        const std::string node =
            with_nodes ? fmt::format(" on node {}{}", rank.node, host_text(rank.host)) : "";
        const std::string end = rank.signal      ? ": " + signal_text(*rank.signal)
                                : rank.exit_code ? fmt::format(": exit code {}", *rank.exit_code)
                                                 : "";
        fact(text, std::exchange(name, ""),
             fmt::format("rank {} (local rank {}){}, pid {}{}", rank.rank, rank.local_rank, node, rank.pid,
                         end));
    }
}

std::string of_all(int number, int all) { return fmt::format("{} of {}", number, all); }

std::string local_time(std::int64_t unix_ms) { return wall_clock_text(unix_ms, local_utc_offset(unix_ms)); }

// What a person reads of a member: a failure has a text of its own. Empty: nothing.
std::string words_of(const json::value& value) {
    const json::object* whole = value.if_object();
    const json::value* own = whole != nullptr ? whole->if_contains("text") : nullptr;
    if (own != nullptr && own->is_string()) return std::string(own->get_string());
    if (value.is_null()) return "";
    return value.is_string() ? std::string(value.get_string()) : json::serialize(value);
}

std::string_view state_of(const Job& job) {
    return job.is_suspended ? "suspended" : name_of_value(job.state);
}

// What the files of a job tell of what its launcher does not say (any more).
JobView view_of(const Job& job) {
    JobView view;
    view.id = job.id;
    view.state = state_of(job);
    if (job.record) {
        view.name = job.record->entry_name;
        if (!job.record->job_id.empty()) view.job_id = job.record->job_id;
        view.started_unix_ms = job.record->start_unix_ms;
    }
    if (job.end) {
        view.restarts = job.end->restart_count;
        view.max_restarts = job.end->max_restarts;
        view.ranks = rank_views(job.end->workers, job.record ? job.record->node_rank : 0, {});
    }
    return view;
}

json::object job_object(const JobFacts& facts) {
    const auto& [job, status, result_file] = facts;
    json::object root = json_object(status ? *status : view_of(job));
    root["id"] = valid_utf8(job.id);
    root["exit_code"] = job.end ? json::value(job.end->exit_code) : json::value(nullptr);
    const std::int64_t last_output = job.last_output_unix_ms;
    root["last_output_unix_ms"] = last_output != 0 ? json::value(last_output) : json::value(nullptr);
    root["folder"] = valid_utf8(job.folder.string());
    root["job"] = job.record ? json::parse(to_json(*job.record)) : json::value(nullptr);
    json::error_code trouble;
    root["result"] = result_file ? json::parse(*result_file, trouble) : json::value(nullptr);
    return root;
}

}  // namespace

std::string suspended_text(const Job& job) {
    const pid_t pid = job.record ? job.record->pid : 0;
    return fmt::format(
        "job {0} is suspended: 'fg' in its shell or 'kill -CONT {1}' lets it go on, 'ddpctl kill --signal "
        "KILL {0}' ends it",
        harmless_line(job.id), pid);
}

std::string state_text(const Job& job) {
    const std::string_view state = state_of(job);
    return job.end ? fmt::format("{}, exit code {}", state, job.end->exit_code) : std::string(state);
}

std::string age_text(std::int64_t milliseconds) {
    const std::int64_t seconds = std::max<std::int64_t>(milliseconds, 0) / 1000;
    if (seconds < 60) return fmt::format("{}s", seconds);
    if (seconds < 3600) return two_units(seconds / 60, 'm', seconds % 60, 's');
    if (seconds < 86'400) return two_units(seconds / 3600, 'h', seconds / 60 % 60, 'm');
    return two_units(seconds / 86'400, 'd', seconds / 3600 % 24, 'h');
}

std::string list_text(const std::vector<Job>& jobs, std::int64_t now_unix_ms) {
    std::vector<std::vector<std::string>> rows{{"ID", "STATE", "NODE", "WORKERS", "AGE", "PROGRAM"}};
    for (const Job& job : jobs) {
        std::vector<std::string> cells{harmless_line(job.id), state_text(job), "?", "?", "?", "?"};
        if (job.record) {
            cells[2] = fmt::format("{}/{}", job.record->node_rank, job.record->nnodes);
            cells[3] = std::to_string(job.record->workers);
            cells[4] = age_text(now_unix_ms - job.record->start_unix_ms);
            cells[5] = harmless_line(job.record->entry_name);
        }
        rows.push_back(std::move(cells));
    }
    std::vector<std::size_t> widths(rows.front().size());
    for (const auto& cells : rows) {
        for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
    }
    std::string text;
    for (const auto& cells : rows) text += row(cells, widths);
    return text;
}

std::string status_text(const Job& job, const std::optional<JobView>& status, std::int64_t now_unix_ms) {
    std::string text;
    fact(text, "id", harmless_line(job.id));
    fact(text, "state", state_text(job));
    if (job.record) {
        const JobRecord& record = *job.record;
        fact(text, "program", harmless_line(record.entry_name));
        fact(text, "command", harmless_line(boost::algorithm::join(record.command, " ")));
        fact(text, "directory", harmless_line(record.directory));
        fact(text, "node", of_all(record.node_rank, record.nnodes));
        fact(text, "launcher", fmt::format("pid {}", record.pid));
        fact(text, "started",
             fmt::format("{}, {} ago", local_time(record.start_unix_ms),
                         age_text(now_unix_ms - record.start_unix_ms)));
    }
    if (job.is_suspended) fact(text, "hint", suspended_text(job));
    if (job.last_output_unix_ms != 0)
        fact(text, "lost", "after its last output at " + local_time(job.last_output_unix_ms));
    if (job.end) {
        fact(text, "ended", local_time(job.end->end_unix_ms));
        fact(text, "outcome", harmless_line(job.end->outcome));
        if (!job.end->sentence.empty()) fact(text, "because", harmless_line(job.end->sentence));
        if (!job.end->message.empty()) fact(text, "message", harmless_line(job.end->message));
        fact(text, "restarts", of_all(job.end->restart_count, job.end->max_restarts));
        rank_facts(text, view_of(job).ranks, false);
    } else if (status) {
        const bool has_nodes = status->nodes.size() > 1;
        fact(text, "phase", harmless_line(status->state) + bound_text(status->nodes, now_unix_ms));
        if (status->verdict)
            fact(text, "hangs",
                 fmt::format("for {} s: {}", status->verdict->age_s,
                             harmless_line(status->verdict->sentence)));
        if (status->restarts && status->max_restarts)
            fact(text, "restarts", of_all(*status->restarts, *status->max_restarts));
        if (has_nodes) node_facts(text, status->nodes);
        rank_facts(text, status->ranks, has_nodes);
    }
    fact(text, "folder", harmless_line(job.folder.string()));
    return text;
}

void add_events(std::vector<ToldEvent>& events, std::string_view lines, int node) {
    for (const std::string_view line : lines_of(lines)) {
        const auto whole = parse_json_object(line, kMaxEventDepth);
        if (!whole) continue;
        ToldEvent event{.node = node, .unix_ms = 0, .line = json::serialize(*whole)};
        take_member<JsonRules>(*whole, "timestamp", event.unix_ms);
        events.push_back(std::move(event));
    }
}

std::string event_text(const ToldEvent& event, bool names_node) {
    constexpr std::string_view kOwn = "ddprun.";
    constexpr std::string_view kOfAll[] = {"run_id", "hostname", "launcher_pid", "elapsed_ms"};
    const auto whole = parse_json_object(event.line, kMaxEventDepth);
    std::string name;
    if (!whole || !take_member<JsonRules>(*whole, "name", name) || !name.starts_with(kOwn)) return {};
    // torchrun's own have metadata, too, but not as an object.
    const json::value* metadata = whole->if_contains("metadata");
    if (metadata == nullptr || !metadata->is_object()) return {};
    std::string text = fmt::format("{}  {}{}", local_time(event.unix_ms),
                                   names_node ? fmt::format("node {}  ", event.node) : "",
                                   harmless_line(name.substr(kOwn.size())));
    for (const auto& [member, value] : metadata->get_object()) {
        const bool is_of_all =
            std::find(std::begin(kOfAll), std::end(kOfAll), std::string_view(member)) != std::end(kOfAll);
        const std::string shown = is_of_all ? "" : words_of(value);
        if (!shown.empty())
            text += fmt::format("  {}={}", harmless_line(std::string(member)), harmless_line(shown));
    }
    return text + "\n";
}

std::string status_json(const JobFacts& facts) { return json::serialize(job_object(facts)) + "\n"; }

std::string list_json(const std::vector<JobFacts>& jobs, std::int64_t now_unix_ms) {
    json::array array;
    for (const JobFacts& facts : jobs) {
        json::object one = job_object(facts);
        const auto& record = facts.job.record;
        one["launcher_pid"] = record ? json::value(record->pid) : json::value(nullptr);
        one["nodes"] = record ? json::value(record->nnodes) : json::value(nullptr);
        one["age_s"] =
            record ? json::value(std::max<std::int64_t>(now_unix_ms - record->start_unix_ms, 0) / 1000)
                   : json::value(nullptr);
        const json::value* verdict = one.if_contains("verdict");
        one["verdict_kind"] =
            verdict != nullptr && verdict->is_object() ? verdict->at("kind") : json::value(nullptr);
        array.push_back(std::move(one));
    }
    return json::serialize(array) + "\n";
}

}  // namespace app
}  // namespace ddprun
