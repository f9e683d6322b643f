#include "launcher/features/event_story.hpp"

#include <fmt/core.h>

#include <array>
#include <boost/json.hpp>
#include <concepts>
#include <map>

#include "launcher/harmless_text.hpp"
#include "launcher/secret_text.hpp"
#include "rendezvous/codec/json_codec.hpp"
#include "rendezvous/control/control_text.hpp"
#include "rendezvous/job/exit_status.hpp"

namespace ddprun {
inline namespace launch {
namespace {

namespace json = boost::json;

// torchrun would have made the record there: its readers tell records apart by file, class and method.
constexpr const char* kHostsName = "c10d_rendezvous_backend.py:_create_tcp_store";
constexpr const char* kJoinsName = "dynamic_rendezvous.py:DynamicRendezvousHandler.next_rendezvous";
constexpr const char* kClosesName = "dynamic_rendezvous.py:DynamicRendezvousHandler._close";

constexpr const char* kOwnPrefix = "ddprun.";

// torchrun has these words for EndState and RendezvousState, in their order.
constexpr const char* kEndWords[] = {"SUCCEEDED", "FAILED", "TERMINATED"};
constexpr struct RendezvousWords {
    const char* name;
    const char* state;
} kRendezvousWords[] = {
    {kHostsName, "INIT"}, {kJoinsName, "RUNNING"}, {kClosesName, "SUCCEEDED"}, {kJoinsName, "FAILED"}};

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

// Has the form of the file that torchrun's @record writes, or of what torchrun puts in its place if a worker
// has left none.
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

json::value name_or_null(int signal) {
    return signal == 0 ? json::value(nullptr) : json::value(event_text(signal_text(signal)));
}

struct EventRules : JsonRules {
    static std::string text(const std::string& text, std::size_t) { return std::string(event_text(text)); }

    // A rank that there is not, and a signal, which has a name.
    template <std::same_as<int> T>
    static void put(json::object& out, std::string_view name, const T& number) {
        if (name == "signal") {
            out[name] = name_or_null(number);
        } else {
            out[name] = name.ends_with("rank") && number == -1 ? json::value(nullptr) : json::value(number);
        }
    }
};

// An event that a message or a piece of news becomes, and those members of it that the event has: "member",
// or "name=member" where the event has another name for it.
struct EventRow {
    std::string_view name;
    std::array<std::string_view, 10> members;
};
constexpr EventRow row_of(const void*) { return {}; }  // what has no row is no event
constexpr EventRow row_of(const Waiting*) { return {"round.waiting", {"joined", "expected"}}; }
constexpr EventRow row_of(const Parked*) { return {"round.parked", {"text=reason"}}; }
constexpr EventRow row_of(const RoundReady*) {
    return {"round.ready",
            {"round", "job_id", "world_size", "nodes=group_world_size", "node_rank=group_rank",
             "first_rank=base_rank", "restart_count", "max_restarts", "resize_count=resizes",
             "reason=restart_reason"}};
}
constexpr EventRow row_of(const NoticeSignal*) { return {"signal.forwarded", {"signal", "round"}}; }
constexpr EventRow row_of(const Stop*) { return {"round.stopping", {"round"}}; }
constexpr EventRow row_of(const StateChanged*) { return {"state", {"from=before", "to=after", "by=event"}}; }
constexpr EventRow row_of(const SignalReceived*) { return {"signal.received", {"signal"}}; }
constexpr EventRow row_of(const TimeWarning*) { return {"time.warning", {"signal", "text"}}; }
constexpr EventRow row_of(const CoordinatorLost*) { return {"coordinator.lost", {"cause"}}; }
constexpr EventRow row_of(const HangOver*) { return {"hang.over", {"quiet_ms", "sign"}}; }
constexpr EventRow row_of(const TookOver*) { return {"coordinator.taken_over", {}}; }
constexpr EventRow row_of(const LedAgain*) { return {"coordinator.found", {}}; }
constexpr EventRow row_of(const RefusedCaller*) {
    return {"caller.refused", {"address", "user", "reason", "calls"}};
}
constexpr EventRow row_of(const TimerExpired*) {
    return {"timer.expired", {"round", "rank", "local_rank", "pid", "scope", "length_ms", "signal"}};
}

constexpr EventRow row_of(const RanksSeen*) {
    return {"stacks", {"round", "half_of_grace=is_half_over", "groups=ranks"}};
}

json::object members_of(const auto& whole, const auto& names) {
    json::object all;
    put_members<EventRules>(all, whole);
    json::object chosen;
    for (const std::string_view name : names) {
        if (name.empty()) break;
        const std::size_t end = name.find('=');
        chosen[name.substr(0, end)] = all.at(end == name.npos ? name : name.substr(end + 1));
    }
    return chosen;
}

json::object joined(json::object one, const json::object& other) {
    for (const auto& [name, value] : other) one[name] = value;
    return one;
}

std::int64_t whole_ms(std::int64_t microseconds) { return (microseconds + 500) / 1000; }

constexpr std::array<std::string_view, 6> kFailureMembers = {"kind", "node_rank", "host",
                                                             "rank", "exit_code", "signal"};

json::object facts_of(const Failure& failure) {
    return joined(members_of(failure, kFailureMembers), {{"text", event_text(to_text(failure))}});
}

// The first of them; the sentence tells of all.
json::array first_ranks(const std::vector<int>& ranks) {
    constexpr std::size_t kMost = 64;
    json::array first;
    for (std::size_t i = 0; i < std::min(ranks.size(), kMost); ++i) first.emplace_back(ranks[i]);
    return first;
}

json::object facts_of(const HangFound& found) {
    return {
        {"kind", name_of_value(found.verdict.kind)},     {"suspects", first_ranks(found.verdict.suspects)},
        {"waiting", first_ranks(found.verdict.waiting)}, {"text", event_text(found.verdict.sentence)},
        {"since_unix_ms", found.since_unix_ms},          {"quiet_ms", found.quiet_ms}};
}

template <class Set>
json::array names_of_others(const Set& all, const Set& known) {
    json::array names;
    for (const auto& [host, pid] : all) {
        if (!known.contains({host, pid})) names.push_back(event_text(fmt::format("{} ({})", host, pid)));
    }
    return names;
}

// The event of the row, if there is one, with `more` behind its own members.
template <class News>
std::string row_line(const EventOrigin& origin, const EventTime& time, const News& news,
                     const json::object& more = {}) {
    constexpr EventRow kRow = row_of(static_cast<const News*>(nullptr));
    if constexpr (kRow.name.empty()) {
        return {};
    } else {
        return own_event_line(origin, time, kRow.name, joined(members_of(news, kRow.members), more));
    }
}

}  // namespace

json::string event_text(std::string_view text) {
    // Cut before it is made valid, too, so that no work is done for what is left out.
    return json::string(cut_text(valid_utf8(masked_text(text.substr(0, 2 * kMaxEventText))), kMaxEventText));
}

std::string status_event_line(const EventOrigin& origin, const EventTime& time, const StatusEvent& event) {
    const char* state = kEndWords[static_cast<std::size_t>(event.state)];
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
    const RendezvousWords& words = kRendezvousWords[static_cast<std::size_t>(event.state)];
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

std::string EventStory::own(std::string_view name, const json::object& metadata,
                            const EventTime& time) const {
    return own_event_line(origin_, time, name, metadata);
}

std::string EventStory::rendezvous(RendezvousState state, std::string message, std::string error) const {
    RendezvousEvent event{.state = state, .message = std::move(message), .endpoint = endpoint_};
    event.error = std::move(error);
    if (round_) event.rank = round_->group_rank;
    return rendezvous_event_line(origin_, event);
}

std::string EventStory::did(std::string_view name, const json::object& facts, const EventTime& time) const {
    return own("start." + std::string(name), facts, time);
}

std::string EventStory::begins(const EventTime&) const {
    return rendezvous(RendezvousState::runs,
                      fmt::format("The node '{}_{}' attempts to join the next round of the rendezvous '{}'.",
                                  origin_.host, origin_.pid, origin_.run_id));
}

std::string EventStory::hears(const ControlMessage& message, const EventTime& time) {
    if (const auto* list = std::get_if<MemberList>(&message)) {
        listed_.clear();
        for (const Member& member : list->members) listed_.emplace(member.host, member.pid);
        return {};
    }
    if (const auto* waiting = std::get_if<Waiting>(&message))
        return first_word(time) +
               row_line(origin_, time, *waiting, {{"text", event_text(to_text(*waiting))}});
    if (const auto* parked = std::get_if<Parked>(&message))
        return first_word(time) + row_line(origin_, time, *parked);
    if (const auto* round = std::get_if<RoundReady>(&message)) return round_begins(*round, time);
    if (const auto* stop = std::get_if<Stop>(&message))
        return row_line(origin_, time, *stop, {{"cause", facts_of(stop->cause)}});
    if (const auto* restarting = std::get_if<Restarting>(&message)) {
        constexpr std::array<std::string_view, 3> kResize = {"delay_ms", "resize", "nodes"};
        constexpr std::array<std::string_view, 3> kRestart = {"delay_ms", "restart", "max_restarts"};
        cause_ = to_text(restarting->cause);
        const bool resizes = restarting->resize > 0;
        return own(resizes ? "resizing" : "restart",
                   joined({{"cause", facts_of(restarting->cause)}},
                          members_of(*restarting, resizes ? kResize : kRestart)),
                   time);
    }
    return std::visit([&](const auto& one) { return row_line(origin_, time, one); }, message);
}

std::string EventStory::learns(const AgentNews& news, const EventTime& time) {
    if (const auto* change = std::get_if<StateChanged>(&news); change && change->before == change->after)
        return {};
    if (const auto* known = std::get_if<PlaceKnown>(&news)) {
        const std::string endpoint = fmt::format("{}:{}", known->place.host, known->place.port);
        if (known->place.port == 0 || std::exchange(endpoint_, endpoint) == endpoint) return {};
        const std::string line =
            did(known->hosted ? "store_up" : "store_known", {{"endpoint", event_text(endpoint)}}, time);
        if (!known->hosted) return line;
        return line +
               rendezvous(RendezvousState::hosts,
                          fmt::format("Process {} hosts the TCP store for the C10d rendezvous backend.",
                                      origin_.pid));
    }
    if (const auto* ended = std::get_if<WorkerEnded>(&news)) {
        constexpr std::array<std::string_view, 8> kEnd = {
            "rank", "local_rank", "pid", "manner", "exit_code", "signal", "core_dumped", "wall_ms"};
        return own("worker.ended",
                   joined(joined({{"round", ended->round}}, members_of(ended->end, kEnd)),
                          {{"user_cpu_ms", whole_ms(ended->use.user_us)},
                           {"system_cpu_ms", whole_ms(ended->use.system_us)},
                           {"max_rss_bytes", ended->use.max_rss_bytes},
                           {"major_page_faults", ended->use.page_faults}}),
                   time);
    }
    if (const auto* found = std::get_if<HangFound>(&news)) return own("hang", facts_of(*found), time);
    return std::visit([&](const auto& one) { return row_line(origin_, time, one); }, news);
}

// The coordinator has answered for the first time.
std::string EventStory::first_word(const EventTime& time) {
    return std::exchange(joined_, true) ? std::string() : did("joined", {}, time);
}

std::string EventStory::round_begins(const RoundReady& round, const EventTime& time) {
    std::string lines = first_word(time);
    if (round_ && round_->resizes != round.resizes) lines += resized(round, time);
    round_ = round;
    members_ = std::exchange(listed_, {});
    lines += row_line(origin_, time, round);
    return lines + rendezvous(RendezvousState::runs,
                              fmt::format("The node '{}_{}' has joined round {} of the rendezvous '{}' as "
                                          "rank {} in a world of size {}.",
                                          origin_.host, origin_.pid, round.round, origin_.run_id,
                                          round.group_rank, round.group_world_size));
}

std::string EventStory::resized(const RoundReady& round, const EventTime& time) const {
    // A member that is in one list only has left or come. Without lists nobody knows, and the cause has to
    // do.
    const bool known = !members_.empty() && !listed_.empty();
    return own("resize",
               {{"round", round.round},
                {"resize", round.resizes},
                {"from_world_size", round_->world_size},
                {"to_world_size", round.world_size},
                {"from_nodes", round_->group_world_size},
                {"to_nodes", round.group_world_size},
                {"left", known ? json::value(names_of_others(members_, listed_)) : json::value(nullptr)},
                {"came", known ? json::value(names_of_others(listed_, members_)) : json::value(nullptr)},
                {"cause", event_text(cause_)}},
               time);
}

std::string EventStory::workers_run(const RoundReady& round, std::size_t workers,
                                    const EventTime& time) const {
    return own("round.started", {{"round", round.round}, {"workers", workers}}, time);
}

std::string EventStory::status_of(const RankEnd& end, const JobResult& result, const EventTime& time) const {
    StatusEvent event{.group_rank = result.node_rank, .restart_count = result.restart_count};
    switch (end.manner) {
        case RankEnd::Manner::succeeded: event.state = EndState::succeeded; break;
        case RankEnd::Manner::failed: event.state = EndState::failed; break;
        case RankEnd::Manner::stopped:
        case RankEnd::Manner::lost: event.state = EndState::terminated; break;
    }
    StatusEvent::Worker worker{.rank = end.rank, .pid = end.pid, .local_rank = end.local_rank};
    worker.role_rank = end.local_rank;
    if (round_) {
        event.group_world_size = round_->group_world_size;
        worker.role_rank = round_->role_base_rank + end.local_rank;
        worker.role_world_size = round_->role_world_size;
    }
    event.worker = worker;
    event.duration_ms = end.wall_ms;
    if (event.state == EndState::failed) {
        const auto& first = result.first_failure;
        const bool is_told = first && first->rank == end.rank && first->witness < 0;
        event.failure = is_told ? *first : Failure{};
    }
    return status_event_line(origin_, time, event);
}

// torchrun counts so: an agent has failed that was sent a signal or never came to its end, and succeeded
// else, whatever became of its workers.
std::string EventStory::status_of_agent(const JobResult& result, const EventTime& time) const {
    const bool failed = result.outcome == Outcome::signalled || result.outcome == Outcome::preempted ||
                        result.outcome == Outcome::not_admitted || result.outcome == Outcome::node_lost;
    return status_event_line(origin_, time,
                             {.state = failed ? EndState::failed : EndState::succeeded,
                              .worker = {},
                              .group_rank = result.node_rank,
                              .group_world_size = round_ ? round_->group_world_size : 1,
                              .restart_count = result.restart_count,
                              .failure = {},
                              .duration_ms = time.elapsed_ms});
}

std::string EventStory::ends(const JobResult& result, const EventTime& time) const {
    // They stand by rank, as torchrun has them.
    std::map<int, std::string> workers;
    for (const RankEnd& end : result.ranks) {
        if (end.node_rank == result.node_rank) workers[end.rank] = status_of(end, result, time);
    }
    std::string lines;
    for (const auto& [rank, line] : workers) lines += line;
    lines += status_of_agent(result, time);
    if (round_) {
        lines += rendezvous(RendezvousState::closed,
                            fmt::format("The node '{}_{}' has closed the rendezvous '{}'.", origin_.host,
                                        origin_.pid, origin_.run_id));
    } else {
        lines += rendezvous(RendezvousState::failed, result.message, result.message);
    }
    return lines + ended(result, time);
}

std::string EventStory::ended(const JobResult& result, const EventTime& time) const {
    const auto& first = result.first_failure;
    return own("ended",
               {{"exit_code", result.exit_code},
                {"outcome", to_text(result.outcome)},
                {"text", event_text(result.message)},
                {"restart_count", result.restart_count},
                {"resize_count", result.resize_count},
                {"first_failure", first ? json::value(facts_of(*first)) : json::value(nullptr)}},
               time);
}

std::string EventStory::fails(int exit_code, std::string_view reason, const EventTime& time) const {
    const StatusEvent agent{
        .state = EndState::failed, .worker = {}, .failure = {}, .duration_ms = time.elapsed_ms};
    JobResult result{.outcome = Outcome::not_started, .exit_code = exit_code};
    result.message = reason;
    return status_event_line(origin_, time, agent) + ended(result, time);
}

}  // namespace launch
}  // namespace ddprun
