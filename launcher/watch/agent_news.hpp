// AgentNews: what happens to an agent besides what its coordinator says. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "launcher/process/process_table.hpp"
#include "rendezvous/job/rank_end.hpp"
#include "rendezvous/net/endpoint.hpp"

namespace ddprun::inline launch {

// Where the coordinator is, and the store; `hosted`: by this agent, which listens there from now on.
struct PlaceKnown {
    Endpoint place;
    bool hosted = false;
};

// Of the AgentMachine, by its names.
struct StateChanged {
    std::string_view before;
    std::string_view event;
    std::string_view after;
};

// One that means something to the job, by a process or by ddpctl.
struct SignalReceived {
    int signal = 0;
};

// The job's end is near, or its workers are told something for another reason of time; `text` is what the user reads.
struct TimeWarning {
    int signal = 0;
    std::string text;
};

// The coordinator, or the way to it, was lost, and the nodes that are left look for another one.
struct CoordinatorLost {
    std::string cause;
};

// This agent leads the job now.
struct TookOver {};

// Another coordinator leads this node, perhaps this agent's own.
struct LedAgain {};

// One worker of this node in this round; `use` holds zeros where the system did not say.
struct WorkerEnded {
    int round = 0;
    RankEnd end;
    ResourceUse use;
};

// A timer that a process of this node has set for itself is over.
struct TimerExpired {
    int round = 0;
    int rank = -1;  // of the worker that the process is, or is below; -1: of none
    int local_rank = -1;
    std::int64_t pid = 0;
    std::string scope;
    std::int64_t length_ms = 0;
    int signal = 0;  // that it was sent; 0: none
};

using AgentNews = std::variant<PlaceKnown, StateChanged, SignalReceived, TimeWarning, CoordinatorLost,
                               TookOver, LedAgain, WorkerEnded, TimerExpired>;

}  // namespace ddprun::inline launch
