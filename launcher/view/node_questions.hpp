// NodeQuestions: asks all other nodes of the job, or one of them, through the coordinator, and gathers what
// they say.
//
// Owned by a feature, on the agent's thread. Nothing waits longer than kLimit, or than that behind the time
// for which the node asked may wait; a job that is not asked has neither timers nor messages for it.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "launcher/view/gathered_answers.hpp"

namespace ddprun {
inline namespace launch {

// kNoSecret: why a job's other nodes are not asked for more than their status.
inline constexpr const char* kNoSecret =
    "without a secret of the job the other nodes tell their status only; ddprun --make-secret makes one for "
    "DDPRUN_SECRET_FILE";

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

    // kMostOfNode: Questions that one node is asked alone at one time; further ones wait for their turn.
    // kMostKept: how many of them the node may keep until it has something to say, so that those which it
    // answers at once never stand behind. Twice kMostOfNode is less than Questions::kMaxOwed, since a rank's
    // node is not known before it has answered once. kMostSaid: the longest answer to one of them.
    static constexpr int kMostOfNode = 3;
    static constexpr int kMostKept = 2;
    static constexpr std::size_t kMostSaid = std::size_t{4} << 20;
    using DoneOne = std::function<void(NodeAnswer)>;

    void ask(std::string kind, std::string text, Done done);
    // Asks the node that the Question names, by its number or by a rank. `done` is called as that of ask()
    // is; where there is no such node with the trouble. `may_wait`: for how long the node may keep the
    // Question.
    void ask_one(Question question, std::chrono::milliseconds may_wait, DoneOne done);

    // Takes what the coordinator says.
    void hear(const ControlMessage& message);

  private:
    struct Open {
        GatheredAnswers answers;
        boost::asio::steady_timer timer;
        Done done;
    };
    struct ForOne {
        Question question;
        std::chrono::milliseconds may_wait;
        DoneOne done;
    };
    // OfNode: what one node is asked alone.
    struct OfNode {
        int open = 0;
        int kept = 0;  // of those, by the node
        std::deque<ForOne> waiting;
    };

    void ask_by(Question question, std::size_t most, std::chrono::milliseconds limit, Done done);
    void open_next(int node);
    void open_one(int node, ForOne one);
    void settle(int node, std::chrono::milliseconds may_wait);
    void finish(std::uint64_t id, const std::string& why_unfinished);

    boost::asio::any_io_executor executor_;
    Send send_;
    std::chrono::milliseconds limit_;
    std::map<std::uint64_t, Open> open_;
    std::map<int, OfNode> of_nodes_;     // Question::kAny: of ranks with a node not known yet
    std::map<int, int> nodes_of_ranks_;  // as the last answer told
    std::uint64_t last_id_ = 0;
};

}  // namespace launch
}  // namespace ddprun
