#include "launcher/jobs/job_control.hpp"

#include <fmt/core.h>

#include "launcher/harmless_text.hpp"
#include "rendezvous/codec/json_codec.hpp"
#include "rendezvous/job/exit_status.hpp"

namespace ddprun::inline launch {
namespace {

namespace json = boost::json;

constexpr std::string_view kStatus = "status";
constexpr std::string_view kSignal = "signal";
constexpr std::size_t kMaxRequestDepth = 8;

json::object message() { return {{"version", kControlVersion}}; }

std::string text_of(const json::object& object, std::string_view name) {
    std::string text;
    take_member<JsonRules>(object, name, text);
    return text;
}

bool same_version(const json::object& object) {
    int version = 0;
    return take_member<JsonRules>(object, "version", version) && version == kControlVersion;
}

// Whether a worker runs is told by a member of its own.
struct StatusRules : JsonRules {
    static std::string text(const std::string& text, std::size_t) { return valid_utf8(text); }

    template <std::same_as<std::optional<int>> T>
    static void put(json::object& out, std::string_view name, const T& exit_code) {
        out["running"] = !exit_code;
        out[name] = json_of<StatusRules>(exit_code);
    }
};

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
    if (reply.status) object["status"] = json_of<StatusRules>(*reply.status);
    return json::serialize(object) + "\n";
}

std::variant<ControlRequest, std::string> parse_control_request(std::string_view line) {
    const auto object = parse_json_object(line, kMaxRequestDepth);
    if (!object) return "the request is no JSON object";
    if (!same_version(*object))
        return fmt::format("only version {} of the protocol is spoken here", kControlVersion);
    const std::string request = text_of(*object, "request");
    if (request == kStatus) return ControlRequest(StatusRequest{});
    if (request != kSignal) return "no such request: '" + harmless_line(request) + "'";
    const auto signal = parse_signal(text_of(*object, "signal"));
    if (!signal) return "no such signal: '" + harmless_line(text_of(*object, "signal")) + "'";
    return ControlRequest(SignalRequest{*signal});
}

std::optional<ControlReply> parse_control_reply(std::string_view line) {
    const auto object = parse_json_object(line, kMaxRequestDepth);
    if (!object || !same_version(*object)) return std::nullopt;
    ControlReply reply{.error = text_of(*object, "error")};
    take_member<JsonRules>(*object, "ends_job", reply.ends_job);
    if (const json::value* status = object->if_contains("status")) {
        if (!from_json<StatusRules>(*status, reply.status.emplace())) return std::nullopt;
    }
    return reply;
}

std::string to_json(const AgentStatus& status) { return json::serialize(json_of<StatusRules>(status)); }

}  // namespace ddprun::inline launch
