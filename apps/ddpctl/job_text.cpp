#include "apps/ddpctl/job_text.hpp"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cstdio>

#include "launcher/harmless_text.hpp"
#include "launcher/jobs/job_control.hpp"
#include "launcher/wall_clock.hpp"

namespace ddprun {
namespace {

namespace json = boost::json;

std::string two_units(std::int64_t large, char large_unit, std::int64_t small, char small_unit) {
    std::array<char, 48> text{};
    std::snprintf(text.data(), text.size(), "%lld%c%02lld%c", static_cast<long long>(large), large_unit,
                  static_cast<long long>(small), small_unit);
    return text.data();
}

std::string row(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
        line += cells[i];
        if (i + 1 < cells.size()) line.append(widths[i] - cells[i].size() + 2, ' ');
    }
    return line + "\n";
}

void fact(std::string& text, std::string_view name, const std::string& value) {
    constexpr std::size_t kColumn = 11;
    text += name;
    text.append(kColumn - std::min(kColumn, name.size()), ' ');
    text += value + "\n";
}

void worker_facts(std::string& text, const std::vector<WorkerStatus>& workers) {
    std::string_view name = "workers";
    for (const WorkerStatus& worker : workers) {
        std::string line = "rank " + std::to_string(worker.rank) + " (local rank " +
                           std::to_string(worker.local_rank) + "), pid " + std::to_string(worker.pid);
        if (worker.exit_code) line += ": exit code " + std::to_string(*worker.exit_code);
        fact(text, name, line);
        name = "";
    }
}

std::string restarts(int count, int most) { return std::to_string(count) + " of " + std::to_string(most); }

std::string command_text(const std::vector<std::string>& command) {
    std::string text;
    for (const std::string& word : command) text += (text.empty() ? "" : " ") + word;
    return harmless_line(text);
}

json::object job_object(const JobFacts& facts) {
    const auto& [job, status, result_file] = facts;
    json::object root;
    root["id"] = valid_utf8(job.id);
    root["state"] = name_of_value(job.state);
    root["exit_code"] = job.end ? json::value(job.end->exit_code) : json::value(nullptr);
    const std::int64_t last_output = job.last_output_unix_ms;
    root["last_output_unix_ms"] = last_output != 0 ? json::value(last_output) : json::value(nullptr);
    root["folder"] = valid_utf8(job.folder.string());
    root["job"] = job.record ? json::parse(to_json(*job.record)) : json::value(nullptr);
    root["status"] = status ? json::parse(to_json(*status)) : json::value(nullptr);
    json::error_code trouble;
    root["result"] = result_file ? json::parse(*result_file, trouble) : json::value(nullptr);
    return root;
}

}  // namespace

std::string state_text(const Job& job) {
    std::string text(name_of_value(job.state));
    if (job.end) text += ", exit code " + std::to_string(job.end->exit_code);
    return text;
}

std::string age_text(std::int64_t milliseconds) {
    const std::int64_t seconds = std::max<std::int64_t>(milliseconds, 0) / 1000;
    if (seconds < 60) return std::to_string(seconds) + "s";
    if (seconds < 3600) return two_units(seconds / 60, 'm', seconds % 60, 's');
    if (seconds < 86'400) return two_units(seconds / 3600, 'h', seconds / 60 % 60, 'm');
    return two_units(seconds / 86'400, 'd', seconds / 3600 % 24, 'h');
}

std::string list_text(const std::vector<Job>& jobs, std::int64_t now_unix_ms) {
    std::vector<std::vector<std::string>> rows{{"ID", "STATE", "NODE", "WORKERS", "AGE", "PROGRAM"}};
    for (const Job& job : jobs) {
        std::vector<std::string> cells{harmless_line(job.id), state_text(job), "?", "?", "?", "?"};
        if (job.record) {
            cells[2] = std::to_string(job.record->node_rank) + "/" + std::to_string(job.record->nnodes);
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

std::string status_text(const Job& job, const std::optional<AgentStatus>& status, std::int64_t now_unix_ms) {
    std::string text;
    fact(text, "id", harmless_line(job.id));
    fact(text, "state", state_text(job));
    if (job.record) {
        const JobRecord& record = *job.record;
        fact(text, "program", harmless_line(record.entry_name));
        fact(text, "command", command_text(record.command));
        fact(text, "directory", harmless_line(record.directory));
        fact(text, "node", std::to_string(record.node_rank) + " of " + std::to_string(record.nnodes));
        fact(text, "launcher", "pid " + std::to_string(record.pid));
        fact(text, "started",
             wall_clock_text(record.start_unix_ms, local_utc_offset(record.start_unix_ms)) + ", " +
                 age_text(now_unix_ms - record.start_unix_ms) + " ago");
    }
    if (job.last_output_unix_ms != 0) {
        fact(text, "lost",
             "after its last output at " +
                 wall_clock_text(job.last_output_unix_ms, local_utc_offset(job.last_output_unix_ms)));
    }
    if (job.end) {
        fact(text, "ended", wall_clock_text(job.end->end_unix_ms, local_utc_offset(job.end->end_unix_ms)));
        fact(text, "outcome", harmless_line(job.end->outcome));
        if (!job.end->message.empty()) fact(text, "message", harmless_line(job.end->message));
        fact(text, "restarts", restarts(job.end->restart_count, job.end->max_restarts));
        worker_facts(text, job.end->workers);
    } else if (status) {
        fact(text, "phase", harmless_line(status->state));
        fact(text, "restarts", restarts(status->restart_count, status->max_restarts));
        worker_facts(text, status->workers);
    }
    fact(text, "folder", harmless_line(job.folder.string()));
    return text;
}

std::string status_json(const JobFacts& facts) { return json::serialize(job_object(facts)) + "\n"; }

std::string list_json(const std::vector<JobFacts>& jobs) {
    json::array array;
    for (const JobFacts& facts : jobs) array.push_back(job_object(facts));
    return json::serialize(array) + "\n";
}

}  // namespace ddprun
