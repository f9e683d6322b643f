// AgentNews: what happens to an agent besides what its coordinator says. Plain values.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "launcher/process/resource_use.hpp"
#include "rendezvous/job/rank_end.hpp"
#include "rendezvous/net/endpoint.hpp"

namespace ddprun {

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

using AgentNews = std::variant<PlaceKnown, StateChanged, SignalReceived, TimeWarning, CoordinatorLost,
                               TookOver, LedAgain, WorkerEnded>;

}  // namespace ddprun
