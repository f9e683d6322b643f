// NodeQuestions: asks all other nodes of the job through the coordinator, and gathers what they say.
//
// Owned by a feature, on the agent's thread. Nothing waits longer than kLimit; a job that is not asked has
// neither timers nor messages for it.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "launcher/view/gathered_answers.hpp"

namespace ddprun {
inline namespace launch {

class NodeQuestions {
  public:
    using Send = std::function<void(const ControlMessage&)>;
    // Done: called once, never from inside ask(). `why_none`: what kept a node from answering that is not
    // among the answers.
    using Done = std::function<void(std::vector<NodeAnswer> answers, const std::string& why_none)>;

    // kLimit: how long other nodes have to answer; one that is busy or stands still does not keep a person
    // waiting for more.
    static constexpr std::chrono::milliseconds kLimit{2'000};

    NodeQuestions(boost::asio::any_io_executor executor, Send send, std::chrono::milliseconds limit = kLimit)
        : executor_(std::move(executor)), send_(std::move(send)), limit_(limit) {}

    void ask(std::string kind, std::string text, Done done);

    // Takes what the coordinator says.
    void hear(const ControlMessage& message);

  private:
    struct Open {
        GatheredAnswers answers;
        boost::asio::steady_timer timer;
        Done done;
    };
    void finish(std::uint64_t id, const std::string& why_unfinished);

    boost::asio::any_io_executor executor_;
    Send send_;
    std::chrono::milliseconds limit_;
    std::map<std::uint64_t, Open> open_;
    std::uint64_t last_id_ = 0;
};

}  // namespace launch
}  // namespace ddprun
