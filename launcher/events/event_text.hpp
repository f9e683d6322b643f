// The lines of --events as JSON: torchrun's two kinds of event, and our own. Pure.
//
// torchrun's have its names and fields to the letter, so that its own classes read them back (Event, whose `source` is
// AGENT or WORKER, and RdzvEvent, which has no `source`). Ours look like its Event, with the source DDPRUN.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/job/failure.hpp"

namespace ddprun::inline launch {

// Of one text from outside, as bytes of UTF-8; a longer one is cut.
inline constexpr std::size_t kMaxEventText = 2048;
// No line is longer, its newline included, whatever its texts hold: JSON may need six bytes for one, and twelve for one in
// a text of JSON.
inline constexpr std::size_t kMaxEventLine = 128 * 1024;

// What all events of one launcher have in common.
struct EventOrigin {
    std::string run_id;
    std::string role;
    std::string host;
    std::string entry_point;
    std::string rdzv_backend;
    std::int64_t pid = 0;  // of the launcher
};

// A time as events have it.
struct EventTime {
    std::int64_t unix_ms = 0;
    std::int64_t elapsed_ms = 0;  // since this launcher began
};

// How a worker or an agent has ended, in torchrun's words.
enum class EndState { succeeded, failed, terminated };

// torchrun's record of how one worker of this node, or its agent, has ended.
struct StatusEvent {
    // Of a worker only; torchrun's record of an agent has null there.
    struct Worker {
        int rank = 0;
        std::int64_t pid = 0;
        int local_rank = 0;
        int role_rank = 0;
        int role_world_size = 1;
    };

    EndState state = EndState::succeeded;
    std::optional<Worker> worker;  // nothing: of the agent
    int group_rank = 0;
    int group_world_size = 1;
    int restart_count = 0;
    std::optional<Failure> failure;  // how this worker failed, where that is known
    std::optional<std::int64_t> duration_ms;
};
std::string status_event_line(const EventOrigin& origin, const EventTime& time, const StatusEvent& event);

// torchrun's words for where a node stands in the rendezvous.
enum class RendezvousState { hosts, runs, closed, failed };  // INIT, RUNNING, SUCCEEDED, FAILED

struct RendezvousEvent {
    RendezvousState state = RendezvousState::runs;
    std::string message;
    std::string endpoint;     // of the store; empty where it is not known
    std::optional<int> rank;  // of the node
    std::string error;        // of a failed one
};
std::string rendezvous_event_line(const EventOrigin& origin, const RendezvousEvent& event);

// One of ours, `name` without "ddprun."; run_id, hostname, launcher_pid, elapsed_ms and these are its metadata.
std::string own_event_line(const EventOrigin& origin, const EventTime& time, std::string_view name,
                           const boost::json::object& metadata);

// A text from outside as JSON takes it.
boost::json::string event_text(std::string_view text);

}  // namespace ddprun::inline launch
