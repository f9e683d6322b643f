#include "launcher/report/result_file.hpp"

#include <algorithm>
#include <array>
#include <boost/json.hpp>

#include "launcher/exit_status.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/small_file.hpp"
#include "launcher/wall_clock.hpp"

namespace ddprun {
namespace {

namespace json = boost::json;

// Raised when a member changes its meaning or goes; new members do not count.
constexpr int kResultSchema = 1;

constexpr std::array<std::string_view, 7> kOutcomes = {"succeeded", "failed",      "preempted",   "signalled",
                                                       "node_lost", "not_started", "not_admitted"};
constexpr std::array<std::string_view, 3> kKinds = {"worker_failed", "node_lost", "signalled"};
constexpr std::array<std::string_view, 4> kManners = {"succeeded", "failed", "stopped", "lost"};

json::string text(std::string_view bytes) { return json::string(valid_utf8(bytes)); }

json::array texts(const std::vector<std::string>& lines) {
    json::array array;
    for (const std::string& line : lines) array.push_back(text(line));
    return array;
}

json::value number_or_null(std::int64_t number, std::int64_t none) {
    return number == none ? json::value(nullptr) : json::value(number);
}

void put_time(json::object& object, const std::string& name, std::int64_t unix_time_ms) {
    object[name + "_unix_ms"] = number_or_null(unix_time_ms, 0);
    object[name] = unix_time_ms == 0 ? json::value(nullptr) : json::value(utc_text(unix_time_ms));
}

void put_signal(json::object& object, int signal, bool core_dumped) {
    object["signal"] = number_or_null(signal, 0);
    object["signal_name"] = signal == 0 ? json::value(nullptr) : json::value(signal_text(signal));
    object["core_dumped"] = core_dumped;
}

json::object failure_object(const Failure& failure) {
    json::object object;
    object["kind"] = kKinds.at(static_cast<std::size_t>(failure.kind));
    object["node_rank"] = failure.node_rank;
    object["host"] = text(failure.host);
    object["rank"] = number_or_null(failure.rank, -1);
    object["local_rank"] = number_or_null(failure.local_rank, -1);
    object["pid"] = number_or_null(failure.pid, 0);
    object["exit_code"] = failure.exit_code;
    put_signal(object, failure.signal, failure.core_dumped);
    put_time(object, "time", failure.unix_time_ms);
    object["message"] = text(failure.message);
    object["error_message"] = text(failure.error_message);
    object["traceback"] = text(failure.traceback);
    object["hint"] = text(failure.hint);
    object["last_lines"] = texts(failure.last_lines);
    object["witness"] = number_or_null(failure.witness, -1);
    object["accusation"] = text(failure.accusation);
    object["testimony"] = text(failure.testimony);
    return object;
}

// Of a lost rank nothing is known, and null says so.
json::object rank_object(const RankEnd& end) {
    const bool known = end.manner != RankEnd::Manner::lost;
    json::object object;
    object["rank"] = end.rank;
    object["local_rank"] = end.local_rank;
    object["node_rank"] = end.node_rank;
    object["host"] = text(end.host);
    object["pid"] = number_or_null(end.pid, 0);
    object["manner"] = kManners.at(static_cast<std::size_t>(end.manner));
    object["exit_code"] = known ? json::value(end.exit_code) : json::value(nullptr);
    put_signal(object, end.signal, end.core_dumped);
    object["outlasted_grace"] = end.outlasted_grace;
    object["wall_ms"] = known ? json::value(end.wall_ms) : json::value(nullptr);
    return object;
}

json::object restart_object(const Restart& restart) {
    json::object object;
    object["round"] = restart.round;
    object["reason"] = text(restart.reason);
    put_time(object, "time", restart.unix_time_ms);
    return object;
}

std::string complaint(const std::filesystem::path& path, const boost::system::error_code& error) {
    if (!error) return {};
    return "--result-file '" + path.string() + "' cannot be written: " + error.message();
}

}  // namespace

Outcome outcome_of(int exit_code, const std::optional<Failure>& cause, bool joined) {
    if (exit_code == 0) return Outcome::succeeded;
    if (exit_code == kExitPreempted && (!cause || cause->kind == Failure::Kind::signalled))
        return Outcome::preempted;
    if (cause) {
        switch (cause->kind) {
            case Failure::Kind::worker_failed:
                return cause->pid == 0 && cause->witness < 0 ? Outcome::not_started : Outcome::failed;
            case Failure::Kind::node_lost: return Outcome::node_lost;
            case Failure::Kind::signalled: return Outcome::signalled;
        }
    }
    if (exit_code > kExitSignalBase) return Outcome::signalled;
    return joined ? Outcome::failed : Outcome::not_admitted;
}

std::string_view to_text(Outcome outcome) { return kOutcomes.at(static_cast<std::size_t>(outcome)); }

std::string to_json(const JobResult& result) {
    json::object root;
    root["schema"] = kResultSchema;
    root["version"] = DDPRUN_VERSION;
    root["job_id"] = text(result.job_id);
    root["run_id"] = text(result.run_id);
    root["entry_name"] = text(result.entry_name);
    root["host"] = text(result.host);
    root["node_rank"] = result.node_rank;
    root["nnodes"] = result.nnodes;
    root["outcome"] = to_text(result.outcome);
    root["exit_code"] = result.exit_code;
    root["message"] = text(result.message);
    put_time(root, "start", result.start_unix_ms);
    put_time(root, "end", result.end_unix_ms);
    root["first_failure"] =
        result.first_failure ? json::value(failure_object(*result.first_failure)) : json::value(nullptr);
    auto ends = result.ranks;
    std::sort(ends.begin(), ends.end(), [](const RankEnd& a, const RankEnd& b) { return a.rank < b.rank; });
    json::array ranks;
    for (const RankEnd& end : ends) ranks.push_back(rank_object(end));
    root["ranks"] = std::move(ranks);
    root["restart_count"] = result.restart_count;
    root["max_restarts"] = result.max_restarts;
    json::array restarts;
    for (const Restart& restart : result.restarts) restarts.push_back(restart_object(restart));
    root["restarts"] = std::move(restarts);
    root["survivors"] = texts(result.survivors);
    root["unknown_nodes"] = texts(result.unknown_nodes);
    root["unknown_node_count"] = result.unknown_node_count;
    return json::serialize(root) + "\n";
}

std::string result_file_complaint(const std::filesystem::path& path) {
    return path.empty() ? std::string() : complaint(path, try_replace(path));
}

std::string write_result_file(const std::filesystem::path& path, JobResult& result) {
    if (path.empty()) return {};
    const std::string trouble = complaint(path, replace_file(path, to_json(result)));
    if (trouble.empty() || result.exit_code != 0) return trouble;
    result.exit_code = kExitSystem;
    result.message = trouble;
    return trouble;
}

}  // namespace ddprun
