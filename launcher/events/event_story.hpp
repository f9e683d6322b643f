// EventStory: which lines of --events become of what happens to an agent. Pure: times are arguments, and what comes out is
// the text that is to be written, whole lines, or nothing.
//
// Driven by the EventRecorder in the order in which things happen. The names of our own events, and their members, stand
// in apps/ddprun/manual/files.md.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/events/event_text.hpp"
#include "launcher/watch/agent_watcher.hpp"

namespace ddprun::inline launch {

class EventStory {
  public:
    explicit EventStory(EventOrigin origin) : origin_(std::move(origin)) {}

    // The launcher's process from now on.
    void run_by(std::int64_t pid) { origin_.pid = pid; }

    // A part of the start is done: "start.NAME".
    std::string did(std::string_view name, const boost::json::object& facts, const EventTime& time) const;
    // The agent looks for the coordinator from now on.
    std::string begins(const EventTime& time) const;
    std::string hears(const ControlMessage& message, const EventTime& time);
    std::string learns(const AgentNews& news, const EventTime& time);
    std::string workers_run(const RoundReady& round, std::size_t workers, const EventTime& time) const;
    // torchrun's events of the workers and of the agent, and our last one.
    std::string ends(const JobResult& result, const EventTime& time) const;
    // Likewise, where no job was ever begun, for this reason.
    std::string fails(int exit_code, std::string_view reason, const EventTime& time) const;

  private:
    using Members = std::set<std::pair<std::string, std::int64_t>>;  // host, and pid of the agent

    template <typename Other>
    std::string hear(const Other&, const EventTime&) {
        return {};
    }
    std::string hear(const Waiting& waiting, const EventTime& time);
    std::string hear(const Parked& parked, const EventTime& time);
    std::string hear(const MemberList& list, const EventTime& time);
    std::string hear(const RoundReady& round, const EventTime& time);
    std::string hear(const NoticeSignal& notice, const EventTime& time);
    std::string hear(const Stop& stop, const EventTime& time);
    std::string hear(const Restarting& restarting, const EventTime& time);

    std::string learn(const PlaceKnown& known, const EventTime& time);
    std::string learn(const StateChanged& change, const EventTime& time);
    std::string learn(const SignalReceived& received, const EventTime& time);
    std::string learn(const TimeWarning& warning, const EventTime& time);
    std::string learn(const CoordinatorLost& lost, const EventTime& time);
    std::string learn(const TookOver& news, const EventTime& time);
    std::string learn(const LedAgain& news, const EventTime& time);
    std::string learn(const WorkerEnded& ended, const EventTime& time);
    std::string learn(const TimerExpired& expired, const EventTime& time);

    std::string own(std::string_view name, const boost::json::object& metadata, const EventTime& time) const;
    std::string rendezvous(RendezvousState state, std::string message, std::string error = {}) const;
    std::string joined(const EventTime& time);
    std::string resized(const RoundReady& round, const EventTime& time) const;
    std::string status_of(const RankEnd& end, const JobResult& result, const EventTime& time) const;
    std::string status_of_agent(const JobResult& result, const EventTime& time) const;

    EventOrigin origin_;
    std::string endpoint_;
    bool joined_ = false;
    std::optional<RoundReady> round_;  // the last one
    Members members_;                  // of that round, as far as they are listed; empty where nobody says
    Members listed_;                   // of the one that is to come
    std::string cause_;                // of the last round's end
};

}  // namespace ddprun::inline launch
