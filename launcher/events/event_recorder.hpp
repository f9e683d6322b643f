// EventRecorder: writes what happens to an agent into the file of --events, as the EventStory tells it.
//
// Made in main once the file is open, before the agent, which it watches; outlives it. Used on the agent's thread.
#pragma once

#include <boost/json/object.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/events/event_file.hpp"
#include "launcher/events/event_story.hpp"
#include "launcher/watch/agent_watcher.hpp"

namespace ddprun::inline launch {

class EventRecorder : public AgentWatcher {
  public:
    // `start`: of this launcher; `on_trouble` is called once if lines are lost, from inside whatever is recorded then.
    EventRecorder(EventOrigin origin, AppendedFile file, std::chrono::steady_clock::time_point start,
                  std::function<void(const std::string&)> on_trouble);
    ~EventRecorder() override;

    // A part of the start was done then.
    void did(std::string_view name, const boost::json::object& facts,
             std::chrono::steady_clock::time_point when);
    // The launcher ends so before there was any job.
    void fails(int exit_code, std::string_view reason);
    // The recorder of a process that was forked off goes on; this one writes nothing any more.
    void forget();

    void began(const boost::asio::any_io_executor& executor, const AgentControls& controls) override;
    void heard(const ControlMessage& message) override;
    void learnt(const AgentNews& news) override;
    void workers_run(const RoundReady& round) override;
    std::optional<std::string> ended(const JobResult& result) override;

  private:
    EventTime at(std::chrono::steady_clock::time_point when) const;
    EventTime now() const { return at(std::chrono::steady_clock::now()); }
    void write(std::string_view lines);

    EventStory story_;
    EventFile file_;
    std::chrono::steady_clock::time_point start_;
    std::function<void(const std::string&)> on_trouble_;
    AgentControls controls_;
    bool has_ended_ = false;
};

}  // namespace ddprun::inline launch
