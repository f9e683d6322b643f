// EventStory decides which lines of --events become of what happens to an agent. Pure: times are arguments,
// and what comes out is the text that is to be written, whole lines, or nothing. The event log calls it in
// the order in which things happen.
//
// torchrun's two kinds of event have its names and fields to the letter, so that its own classes read them
// back (Event, with the `source` AGENT or WORKER, and RdzvEvent, which has no `source`). Our own events look
// like its Event, with the source DDPRUN; their names and members stand in apps/ddprun/manual/files.md.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "launcher/agent/feature.hpp"
#include "rendezvous/job/failure.hpp"

namespace ddprun {
inline namespace launch {

// kMaxEventText: how many bytes of UTF-8 one text from outside has at most; a longer one is cut.
inline constexpr std::size_t kMaxEventText = 2048;
// kMaxEventLine: the longest line, its newline included, whatever its texts hold. JSON may need six bytes for
// a byte, and twelve for a byte in a text of JSON.
inline constexpr std::size_t kMaxEventLine = 128 * 1024;

// EventOrigin: what all events of one launcher have in common.
struct EventOrigin {
    std::string run_id;
    std::string role;
    std::string host;
    std::string entry_point;
    std::string rdzv_backend;
    std::int64_t pid = 0;  // of the launcher
};

struct EventTime {
    std::int64_t unix_ms = 0;
    std::int64_t elapsed_ms = 0;  // since this launcher began
};

// EndState: how a worker or an agent has ended, in torchrun's words.
enum class EndState { succeeded, failed, terminated };

// StatusEvent: torchrun's record of how one worker of this node, or its agent, has ended.
struct StatusEvent {
    // Worker: what only a worker's record has; torchrun's record of an agent has null there.
    struct Worker {
        int rank = 0;
        std::int64_t pid = 0;
        int local_rank = 0;
        int role_rank = 0;
        int role_world_size = 1;
    };

    EndState state = EndState::succeeded;
    std::optional<Worker> worker;  // nothing: the record is the agent's
    int group_rank = 0;
    int group_world_size = 1;
    int restart_count = 0;
    std::optional<Failure> failure;  // how this worker failed, where that is known
    std::optional<std::int64_t> duration_ms;
};
std::string status_event_line(const EventOrigin& origin, const EventTime& time, const StatusEvent& event);

// RendezvousState: torchrun's words for where a node stands in the rendezvous.
enum class RendezvousState { hosts, runs, closed, failed };  // INIT, RUNNING, SUCCEEDED, FAILED

struct RendezvousEvent {
    RendezvousState state = RendezvousState::runs;
    std::string message;
    std::string endpoint;     // of the store; empty where it is not known
    std::optional<int> rank;  // of the node
    std::string error;        // of a failed one
};
std::string rendezvous_event_line(const EventOrigin& origin, const RendezvousEvent& event);

// Returns the line of an event of our own, `name` without "ddprun."; its metadata are run_id, hostname,
// launcher_pid, elapsed_ms and `metadata`.
std::string own_event_line(const EventOrigin& origin, const EventTime& time, std::string_view name,
                           const boost::json::object& metadata);

// Returns a text from outside as JSON takes it.
boost::json::string event_text(std::string_view text);

class EventStory {
  public:
    explicit EventStory(EventOrigin origin) : origin_(std::move(origin)) {}

    // Makes `pid` the launcher's process from now on.
    void run_by(std::int64_t pid) { origin_.pid = pid; }

    // Returns the event "start.NAME": a part of the start is done.
    std::string did(std::string_view name, const boost::json::object& facts, const EventTime& time) const;
    // Returns the event that says: the agent looks for the coordinator from now on.
    std::string begins(const EventTime& time) const;
    std::string hears(const ControlMessage& message, const EventTime& time);
    std::string learns(const AgentNews& news, const EventTime& time);
    std::string workers_run(const RoundReady& round, std::size_t workers, const EventTime& time) const;
    // Returns torchrun's events of the workers and of the agent, and our last one.
    std::string ends(const JobResult& result, const EventTime& time) const;
    // Returns the same where no job was ever begun, for this reason.
    std::string fails(int exit_code, std::string_view reason, const EventTime& time) const;

  private:
    using Members = std::set<std::pair<std::string, std::int64_t>>;  // host, and pid of the agent

    std::string round_begins(const RoundReady& round, const EventTime& time);
    std::string ended(const JobResult& result, const EventTime& time) const;
    std::string own(std::string_view name, const boost::json::object& metadata, const EventTime& time) const;
    std::string rendezvous(RendezvousState state, std::string message, std::string error = {}) const;
    std::string first_word(const EventTime& time);
    std::string resized(const RoundReady& round, const EventTime& time) const;
    std::string status_of(const RankEnd& end, const JobResult& result, const EventTime& time) const;
    std::string status_of_agent(const JobResult& result, const EventTime& time) const;

    EventOrigin origin_;
    std::string endpoint_;
    bool joined_ = false;
    std::optional<RoundReady> round_;  // the last one
    Members members_;                  // of that round, as far as they are listed; empty where they are not
    Members listed_;                   // of the one that is to come
    std::string cause_;                // of the last round's end
};

}  // namespace launch
}  // namespace ddprun
