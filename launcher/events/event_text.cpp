#include "launcher/events/event_text.hpp"

#include <fmt/core.h>

#include <boost/json.hpp>

#include "launcher/harmless_text.hpp"
#include "rendezvous/codec/json_codec.hpp"

namespace ddprun::inline launch {
namespace {

namespace json = boost::json;

// Where torchrun would have made the record: file, class and method, by which its readers tell them apart.
constexpr const char* kHostsName = "c10d_rendezvous_backend.py:_create_tcp_store";
constexpr const char* kJoinsName = "dynamic_rendezvous.py:DynamicRendezvousHandler.next_rendezvous";
constexpr const char* kClosesName = "dynamic_rendezvous.py:DynamicRendezvousHandler._close";

constexpr const char* kOwnPrefix = "ddprun.";

const char* text_of(EndState state) {
    switch (state) {
        case EndState::succeeded: return "SUCCEEDED";
        case EndState::failed: return "FAILED";
        case EndState::terminated: return "TERMINATED";
    }
    return "UNKNOWN";
}

struct RendezvousWords {
    const char* name;
    const char* state;
};

RendezvousWords words_of(RendezvousState state) {
    switch (state) {
        case RendezvousState::hosts: return {kHostsName, "INIT"};
        case RendezvousState::runs: return {kJoinsName, "RUNNING"};
        case RendezvousState::closed: return {kClosesName, "SUCCEEDED"};
        case RendezvousState::failed: break;
    }
    return {kJoinsName, "FAILED"};
}

template <class T>
json::value or_null(const std::optional<T>& value) {
    return value ? json::value(*value) : json::value(nullptr);
}

// torchrun has its further facts as a text of JSON in the JSON, each number of a worker as a list of one.
json::string facts_text(const EventOrigin& origin, const StatusEvent& event) {
    json::object facts{{"group_world_size", event.group_world_size},
                       {"entry_point", event_text(origin.entry_point)}};
    if (event.worker) {
        facts["local_rank"] = json::array{event.worker->local_rank};
        facts["role_rank"] = json::array{event.worker->role_rank};
        facts["role_world_size"] = json::array{event.worker->role_world_size};
    }
    return json::string(json::serialize(facts));
}

// As in the file that torchrun's @record writes; what it puts in its place where a worker has left none.
json::string error_text(const Failure& failure) {
    json::object error{{"message", "<NONE>"}};
    if (!failure.error_message.empty() || !failure.traceback.empty())
        error["message"] = json::object{
            {"message", event_text(failure.error_message)},
            {"extraInfo", json::object{{"py_callstack", event_text(failure.traceback)},
                                       {"timestamp", std::to_string(failure.unix_time_ms / 1000)}}}};
    return json::string(json::serialize(error));
}

std::string line_of(const json::object& event) { return json::serialize(event) + "\n"; }

json::object event_of(std::string_view name, std::string_view source, const EventTime& time,
                      json::object metadata) {
    return {
        {"name", name}, {"source", source}, {"timestamp", time.unix_ms}, {"metadata", std::move(metadata)}};
}

}  // namespace

json::string event_text(std::string_view text) {
    // Cut before it is made valid, too, so that no work is done for what is left out.
    return json::string(cut_text(valid_utf8(text.substr(0, kMaxEventText)), kMaxEventText));
}

std::string status_event_line(const EventOrigin& origin, const EventTime& time, const StatusEvent& event) {
    const char* state = text_of(event.state);
    const auto& worker = event.worker;
    json::object metadata{
        {"run_id", event_text(origin.run_id)},
        {"global_rank", worker ? json::value(worker->rank) : json::value(nullptr)},
        {"group_rank", event.group_rank},
        {"worker_id", worker ? json::value(std::to_string(worker->pid)) : json::value(nullptr)},
        {"role", event_text(origin.role)},
        {"hostname", event_text(origin.host)},
        {"state", state},
        {"total_run_time", time.elapsed_ms / 1000},
        {"rdzv_backend", origin.rdzv_backend},
        {"raw_error", event.failure ? json::value(error_text(*event.failure)) : json::value(nullptr)},
        {"metadata", facts_text(origin, event)},
        {"agent_restarts", event.restart_count},
        {"duration_ms", or_null(event.duration_ms)}};
    return line_of(event_of(fmt::format("torchelastic.worker.status.{}", state), worker ? "WORKER" : "AGENT",
                            time, std::move(metadata)));
}

std::string rendezvous_event_line(const EventOrigin& origin, const RendezvousEvent& event) {
    const RendezvousWords words = words_of(event.state);
    return line_of({{"name", words.name},
                    {"run_id", event_text(origin.run_id)},
                    {"message", event_text(event.message)},
                    {"hostname", event_text(origin.host)},
                    {"pid", origin.pid},
                    {"node_state", words.state},
                    {"master_endpoint", event_text(event.endpoint)},
                    {"rank", or_null(event.rank)},
                    {"local_id", nullptr},
                    {"error_trace", event_text(event.error)}});
}

std::string own_event_line(const EventOrigin& origin, const EventTime& time, std::string_view name,
                           const json::object& metadata) {
    json::object all{{"run_id", event_text(origin.run_id)},
                     {"hostname", event_text(origin.host)},
                     {"launcher_pid", origin.pid},
                     {"elapsed_ms", time.elapsed_ms}};
    for (const auto& [member, value] : metadata) all[member] = value;
    return line_of(event_of(kOwnPrefix + std::string(name), "DDPRUN", time, std::move(all)));
}

}  // namespace ddprun::inline launch
