// HealthWatch: an agent's answer to those who ask whether it is alive, from before it joins to its end.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "launcher/watch/agent_watcher.hpp"

namespace ddprun::inline launch {

class HealthWatch : public AgentWatcher {
  public:
    // `on_trouble` is told, in one line, if the port cannot be had; the job goes on then.
    HealthWatch(std::uint16_t port, std::function<void(const std::string&)> on_trouble)
        : port_(port), on_trouble_(std::move(on_trouble)) {}

    void began(const boost::asio::any_io_executor& executor, const AgentControls& controls) override;

  private:
    std::uint16_t port_;
    std::function<void(const std::string&)> on_trouble_;
};

}  // namespace ddprun::inline launch
