// HoldingFeature: a feature that holds the signals of a stop, for tests of who waits for it.
#pragma once

#include <functional>
#include <vector>

#include "launcher/agent/feature.hpp"

namespace ddprun {

class HoldingFeature final : public Feature {
  public:
    bool before_stop(const StopCause& cause, const GoOn& go_on) override {
        causes.push_back(cause);
        go_ons.push_back(go_on);
        if (when_asked) when_asked();
        return holds;
    }
    void go_on() { go_ons.back()(); }

    bool holds = true;
    std::function<void()> when_asked;
    std::vector<StopCause> causes;
    std::vector<GoOn> go_ons;  // for each of them
};

}  // namespace ddprun
