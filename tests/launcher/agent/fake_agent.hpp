// FakeAgent: what a feature sees of its agent, for tests of one feature.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "launcher/agent/feature.hpp"

namespace ddprun {

class FakeAgent final : public AgentControls {
  public:
    explicit FakeAgent(boost::asio::any_io_executor executor) : executor_(std::move(executor)) {}

    boost::asio::any_io_executor executor() override { return executor_; }
    const LaunchOptions& options() const override { return given; }
    ProcessRunner& runner() override { return *starts; }
    OutputPump& pump() override { return *shows; }
    RendezvousLink& link() override { return *leads; }
    RoundWorkers* round() override { return nullptr; }
    AgentStatus status() const override { return now; }
    void say(LogLevel, const std::string& line) override { said.push_back(line); }
    void end_by(int signal, bool impatient) override { ended_by.emplace_back(signal, impatient); }
    void time_is_over(const std::string& why) override { over.push_back(why); }
    void worker_hangs(int local_rank, const std::string& why) override { hung.emplace_back(local_rank, why); }
    void send(const ControlMessage& message) override { sent.push_back(message); }
    void tell(const AgentNews& news) override { told.push_back(news); }

    // What it was told of this kind.
    template <typename News>
    int count() const {
        return static_cast<int>(std::count_if(told.begin(), told.end(), [](const AgentNews& news) {
            return std::holds_alternative<News>(news);
        }));
    }

    LaunchOptions given;
    ProcessRunner* starts = nullptr;
    OutputPump* shows = nullptr;
    RendezvousLink* leads = nullptr;
    AgentStatus now;
    std::vector<std::string> said;
    std::vector<std::pair<int, bool>> ended_by;  // the signal, and whether its user was impatient
    std::vector<std::string> over;
    std::vector<std::pair<int, std::string>> hung;  // by local rank, and why
    std::vector<ControlMessage> sent;
    std::vector<AgentNews> told;

  private:
    boost::asio::any_io_executor executor_;
};

}  // namespace ddprun
