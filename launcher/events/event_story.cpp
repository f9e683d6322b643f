#include "launcher/events/event_story.hpp"

#include <fmt/core.h>

#include <boost/json.hpp>
#include <map>
#include <utility>

#include "rendezvous/control/control_text.hpp"
#include "rendezvous/job/exit_status.hpp"

namespace ddprun::inline launch {
namespace {

namespace json = boost::json;

json::value name_or_null(int signal) {
    return signal == 0 ? json::value(nullptr) : json::value(event_text(signal_text(signal)));
}

json::value number_or_null(std::int64_t number, std::int64_t nothing) {
    return number == nothing ? json::value(nullptr) : json::value(number);
}

std::int64_t whole_ms(std::int64_t microseconds) { return (microseconds + 500) / 1000; }

json::object facts_of(const Failure& failure) {
    return {{"kind", name_of_value(failure.kind)}, {"node_rank", number_or_null(failure.node_rank, -1)},
            {"host", event_text(failure.host)},    {"rank", number_or_null(failure.rank, -1)},
            {"exit_code", failure.exit_code},      {"signal", name_or_null(failure.signal)},
            {"text", event_text(to_text(failure))}};
}

template <class Set>
json::array names_of_others(const Set& all, const Set& known) {
    json::array names;
    for (const auto& [host, pid] : all) {
        if (!known.contains({host, pid})) names.push_back(event_text(fmt::format("{} ({})", host, pid)));
    }
    return names;
}

}  // namespace

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
    return std::visit([&](const auto& one) { return hear(one, time); }, message);
}

std::string EventStory::learns(const AgentNews& news, const EventTime& time) {
    return std::visit([&](const auto& one) { return learn(one, time); }, news);
}

// The coordinator has answered for the first time.
std::string EventStory::joined(const EventTime& time) {
    return std::exchange(joined_, true) ? std::string() : did("joined", {}, time);
}

std::string EventStory::hear(const Waiting& waiting, const EventTime& time) {
    return joined(time) + own("round.waiting",
                              {{"joined", waiting.joined},
                               {"expected", waiting.expected},
                               {"text", event_text(to_text(waiting))}},
                              time);
}

std::string EventStory::hear(const Parked& parked, const EventTime& time) {
    return joined(time) + own("round.parked", {{"text", event_text(parked.reason)}}, time);
}

std::string EventStory::hear(const MemberList& list, const EventTime&) {
    listed_.clear();
    for (const Member& member : list.members) listed_.emplace(member.host, member.pid);
    return {};
}

std::string EventStory::hear(const RoundReady& round, const EventTime& time) {
    std::string lines = joined(time);
    if (round_ && round_->resizes != round.resizes) lines += resized(round, time);
    round_ = round;
    members_ = std::exchange(listed_, {});
    lines += own("round.ready",
                 {{"round", round.round},
                  {"job_id", event_text(round.job_id)},
                  {"world_size", round.world_size},
                  {"nodes", round.group_world_size},
                  {"node_rank", round.group_rank},
                  {"first_rank", round.base_rank},
                  {"restart_count", round.restart_count},
                  {"max_restarts", round.max_restarts},
                  {"resize_count", round.resizes},
                  {"reason", event_text(round.restart_reason)}},
                 time);
    return lines + rendezvous(RendezvousState::runs,
                              fmt::format("The node '{}_{}' has joined round {} of the rendezvous '{}' as "
                                          "rank {} in a world of size {}.",
                                          origin_.host, origin_.pid, round.round, origin_.run_id,
                                          round.group_rank, round.group_world_size));
}

std::string EventStory::resized(const RoundReady& round, const EventTime& time) const {
    // Whoever is in one list only; without lists the cause has to do.
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

std::string EventStory::hear(const NoticeSignal& notice, const EventTime& time) {
    return own("signal.forwarded", {{"signal", name_or_null(notice.signal)}, {"round", notice.round}}, time);
}

std::string EventStory::hear(const Stop& stop, const EventTime& time) {
    return own("round.stopping", {{"round", stop.round}, {"cause", facts_of(stop.cause)}}, time);
}

std::string EventStory::hear(const Restarting& restarting, const EventTime& time) {
    cause_ = to_text(restarting.cause);
    json::object facts{{"cause", facts_of(restarting.cause)}, {"delay_ms", restarting.delay_ms}};
    if (restarting.resize > 0) {
        facts["resize"] = restarting.resize;
        facts["nodes"] = restarting.nodes;
        return own("resizing", facts, time);
    }
    facts["restart"] = restarting.restart;
    facts["max_restarts"] = restarting.max_restarts;
    return own("restart", facts, time);
}

std::string EventStory::learn(const PlaceKnown& known, const EventTime& time) {
    const std::string endpoint = fmt::format("{}:{}", known.place.host, known.place.port);
    if (known.place.port == 0 || std::exchange(endpoint_, endpoint) == endpoint) return {};
    std::string lines =
        did(known.hosted ? "store_up" : "store_known", {{"endpoint", event_text(endpoint)}}, time);
    if (known.hosted)
        lines += rendezvous(
            RendezvousState::hosts,
            fmt::format("Process {} hosts the TCP store for the C10d rendezvous backend.", origin_.pid));
    return lines;
}

std::string EventStory::learn(const StateChanged& change, const EventTime& time) {
    if (change.before == change.after) return {};
    return own("state", {{"from", change.before}, {"to", change.after}, {"by", change.event}}, time);
}

std::string EventStory::learn(const SignalReceived& received, const EventTime& time) {
    return own("signal.received", {{"signal", name_or_null(received.signal)}}, time);
}

std::string EventStory::learn(const TimeWarning& warning, const EventTime& time) {
    return own("time.warning", {{"signal", name_or_null(warning.signal)}, {"text", event_text(warning.text)}},
               time);
}

std::string EventStory::learn(const CoordinatorLost& lost, const EventTime& time) {
    return own("coordinator.lost", {{"cause", event_text(lost.cause)}}, time);
}

std::string EventStory::learn(const TookOver&, const EventTime& time) {
    return own("coordinator.taken_over", {}, time);
}

std::string EventStory::learn(const LedAgain&, const EventTime& time) {
    return own("coordinator.found", {}, time);
}

std::string EventStory::learn(const WorkerEnded& ended, const EventTime& time) {
    const RankEnd& end = ended.end;
    return own("worker.ended",
               {{"round", ended.round},
                {"rank", end.rank},
                {"local_rank", end.local_rank},
                {"pid", end.pid},
                {"manner", name_of_value(end.manner)},
                {"exit_code", end.exit_code},
                {"signal", name_or_null(end.signal)},
                {"core_dumped", end.core_dumped},
                {"wall_ms", end.wall_ms},
                {"user_cpu_ms", whole_ms(ended.use.user_us)},
                {"system_cpu_ms", whole_ms(ended.use.system_us)},
                {"max_rss_bytes", ended.use.max_rss_bytes},
                {"major_page_faults", ended.use.page_faults}},
               time);
}

std::string EventStory::learn(const TimerExpired& expired, const EventTime& time) {
    return own("timer.expired",
               {{"round", expired.round},
                {"rank", number_or_null(expired.rank, -1)},
                {"local_rank", number_or_null(expired.local_rank, -1)},
                {"pid", expired.pid},
                {"scope", event_text(expired.scope)},
                {"length_ms", expired.length_ms},
                {"signal", name_or_null(expired.signal)}},
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

// As torchrun has it: an agent has failed that was sent a signal or never came to its end, and succeeded else, whatever
// became of its workers.
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
    // By rank, as torchrun has them.
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
    const auto& first = result.first_failure;
    return lines + own("ended",
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
    return status_event_line(origin_, time, agent) + own("ended",
                                                         {{"exit_code", exit_code},
                                                          {"outcome", "not_started"},
                                                          {"text", event_text(reason)},
                                                          {"restart_count", 0},
                                                          {"resize_count", 0},
                                                          {"first_failure", nullptr}},
                                                         time);
}

}  // namespace ddprun::inline launch
