// Watchers: those who watch one agent, as one; each is told in the order in which they are here.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "launcher/watch/agent_watcher.hpp"

namespace ddprun::inline launch {

class Watchers {
  public:
    Watchers() = default;
    // They outlive it.
    Watchers(std::vector<AgentWatcher*> all) : all_(std::move(all)) {}

    bool empty() const { return all_.empty(); }
    bool want_all_ranks() const {
        bool wanted = false;
        for (const AgentWatcher* one : all_) wanted = wanted || one->wants_all_ranks();
        return wanted;
    }

    void began(const boost::asio::any_io_executor& executor, const AgentControls& controls) const {
        for (AgentWatcher* one : all_) one->began(executor, controls);
    }
    void heard(const ControlMessage& message) const {
        for (AgentWatcher* one : all_) one->heard(message);
    }
    void learnt(const AgentNews& news) const {
        for (AgentWatcher* one : all_) one->learnt(news);
    }
    void workers_run(const RoundReady& place) const {
        for (AgentWatcher* one : all_) one->workers_run(place);
    }
    // The lines that are to be shown.
    std::vector<std::string> ended(const JobResult& result) const {
        std::vector<std::string> lines;
        for (AgentWatcher* one : all_) {
            if (auto line = one->ended(result)) lines.push_back(std::move(*line));
        }
        return lines;
    }

  private:
    std::vector<AgentWatcher*> all_;
};

}  // namespace ddprun::inline launch
