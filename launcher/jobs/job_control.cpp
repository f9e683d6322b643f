#include "launcher/jobs/job_control.hpp"

#include <boost/json.hpp>

#include "launcher/exit_status.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/jobs/json_object.hpp"

namespace ddprun {
namespace {

namespace json = boost::json;

constexpr std::string_view kStatus = "status";
constexpr std::string_view kSignal = "signal";

json::object message() { return {{"version", kControlVersion}}; }

std::string_view text_of(const json::object& object, std::string_view name) {
    const json::value* value = object.if_contains(name);
    const json::string* text = value != nullptr ? value->if_string() : nullptr;
    return text != nullptr ? std::string_view(*text) : std::string_view();
}

bool same_version(const json::object& object) {
    const json::value* version = object.if_contains("version");
    return version != nullptr && version->is_int64() && version->get_int64() == kControlVersion;
}

json::object status_object(const AgentStatus& status) {
    json::array workers;
    for (const WorkerStatus& worker : status.workers) {
        json::object entry{{"rank", worker.rank}, {"local_rank", worker.local_rank}, {"pid", worker.pid}};
        entry["running"] = worker.running;
        entry["exit_code"] = worker.running ? json::value(nullptr) : json::value(worker.exit_code);
        workers.push_back(std::move(entry));
    }
    json::object object;
    object["state"] = valid_utf8(status.state);
    object["job_id"] = valid_utf8(status.job_id);
    object["round"] = status.round;
    object["restart_count"] = status.restart_count;
    object["max_restarts"] = status.max_restarts;
    object["world_size"] = status.world_size;
    object["workers"] = std::move(workers);
    return object;
}

// Throws boost::system::system_error or std::exception for what has not that form.
AgentStatus read_status(const json::value& value) {
    AgentStatus status;
    status.state = json::value_to<std::string>(value.at("state"));
    status.job_id = json::value_to<std::string>(value.at("job_id"));
    status.round = json::value_to<int>(value.at("round"));
    status.restart_count = json::value_to<int>(value.at("restart_count"));
    status.max_restarts = json::value_to<int>(value.at("max_restarts"));
    status.world_size = json::value_to<int>(value.at("world_size"));
    for (const json::value& entry : value.at("workers").as_array()) {
        WorkerStatus worker{.rank = json::value_to<int>(entry.at("rank")),
                            .local_rank = json::value_to<int>(entry.at("local_rank")),
                            .pid = json::value_to<int>(entry.at("pid"))};
        worker.running = entry.at("running").as_bool();
        if (!worker.running) worker.exit_code = json::value_to<int>(entry.at("exit_code"));
        status.workers.push_back(worker);
    }
    return status;
}

}  // namespace

std::string to_line(const ControlRequest& request) {
    json::object object = message();
    if (const auto* signal = std::get_if<SignalRequest>(&request)) {
        object["request"] = kSignal;
        object["signal"] = signal_name(signal->signal).value_or(std::to_string(signal->signal));
    } else {
        object["request"] = kStatus;
    }
    return json::serialize(object) + "\n";
}

std::string to_line(const ControlReply& reply) {
    json::object object = message();
    object["error"] = reply.error.empty() ? json::value(nullptr) : json::value(valid_utf8(reply.error));
    if (reply.ends_job) object["ends_job"] = true;
    if (reply.status) object["status"] = status_object(*reply.status);
    return json::serialize(object) + "\n";
}

std::variant<ControlRequest, std::string> parse_control_request(std::string_view line) {
    const auto object = parse_json_object(line);
    if (!object) return "the request is no JSON object";
    if (!same_version(*object))
        return "only version " + std::to_string(kControlVersion) + " of the protocol is spoken here";
    const std::string_view request = text_of(*object, "request");
    if (request == kStatus) return ControlRequest(StatusRequest{});
    if (request != kSignal) return "no such request: '" + harmless_line(request) + "'";
    const auto signal = parse_signal(text_of(*object, "signal"));
    if (!signal) return "no such signal: '" + harmless_line(text_of(*object, "signal")) + "'";
    return ControlRequest(SignalRequest{*signal});
}

std::optional<ControlReply> parse_control_reply(std::string_view line) {
    const auto object = parse_json_object(line);
    if (!object || !same_version(*object)) return std::nullopt;
    ControlReply reply{.error = std::string(text_of(*object, "error"))};
    const json::value* ends_job = object->if_contains("ends_job");
    reply.ends_job = ends_job != nullptr && *ends_job == json::value(true);
    try {
        if (const json::value* status = object->if_contains("status")) reply.status = read_status(*status);
    } catch (const std::exception&) {
        return std::nullopt;
    }
    return reply;
}

std::string to_json(const AgentStatus& status) { return json::serialize(status_object(status)); }

}  // namespace ddprun
