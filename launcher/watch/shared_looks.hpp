// SharedLooks: the questions to other nodes and the looks at ranks of one launcher, which its features share.
#pragma once

#include <memory>
#include <optional>

#include "launcher/agent/feature.hpp"
#include "launcher/view/node_questions.hpp"
#include "launcher/watch/job_looks.hpp"

namespace ddprun {
inline namespace launch {

// SharedLooks: the first of the features makes both when the agent begins, and ends both when it leaves.
struct SharedLooks {
    std::optional<NodeQuestions> questions;
    std::optional<JobLooks> looks;

    void begin(AgentControls& agent) {
        questions.emplace(agent.executor(), [&agent](const ControlMessage& message) { agent.send(message); });
        looks.emplace(agent, *questions);
    }
    void end() {
        looks.reset();
        questions.reset();
    }
};

// SharedLooksOptions: all copies of the options share the same.
struct SharedLooksOptions {
    std::shared_ptr<SharedLooks> shared;
};

}  // namespace launch
}  // namespace ddprun
