// JobLooks: what the ranks of the job do, for clients of this launcher (GET /stacks), and for other nodes.
//
// Owned by a feature, on the agent's thread; the reading is done on a thread of its own. A job that is not
// asked has no thread. There is one look at a time; others wait for their turn.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "launcher/agent/feature.hpp"
#include "launcher/view/node_questions.hpp"
#include "launcher/view/routes.hpp"
#include "launcher/watch/rank_looks.hpp"
#include "rendezvous/base/alive.hpp"

namespace ddprun {
inline namespace launch {

// KnownOfJob: what the watch of the job knows beside a look (--hang-timeout).
struct KnownOfJob {
    std::map<int, OwnProgress> own;  // of this node's ranks
    // quiet_since_unix_ms: when a job that hangs had got on last; nothing: it does not, or nothing watches.
    std::optional<std::int64_t> quiet_since_unix_ms;
};

class JobLooks {
  public:
    using Seen = std::function<void(std::vector<Observation>)>;

    // kMostWaiting: looks that wait for their turn; a further one sees nothing.
    static constexpr std::size_t kMostWaiting = 64;

    JobLooks(AgentControls& agent, NodeQuestions& questions) : agent_(agent), questions_(questions) {}
    JobLooks(const JobLooks&) = delete;
    JobLooks& operator=(const JobLooks&) = delete;
    // Ends a look that is under way, which takes as long as one rank's, at most.
    ~JobLooks();

    // Looks at all ranks that are asked for, and calls `done` once with the answer. `job_id`: what ddpctl
    // calls the job.
    void take(const StacksTerms& terms, const std::string& job_id, std::function<void(StacksAnswer)> done);

    // Looks at all ranks that are asked for, of all nodes, and calls `done` once with what was seen.
    void observe(const StacksTerms& terms, Seen done);

    // Returns what is put into further looks and answers.
    KnownOfJob& known() { return known_; }

    // Answers another node's Question, later; false: it is of another kind.
    bool answer(const Question& question, const SayAnswer& say);

    // Takes what the agent's features are told.
    void learn(const AgentNews& news);

  private:
    struct Waiting {
        StacksTerms terms;
        Seen seen;
    };

    // Looks at the node's own ranks.
    void look(const StacksTerms& terms, Seen seen);
    void start_next();
    void finish_first(std::vector<Observation> found);
    // Asks the nodes that have the other ranks that are asked for.
    void ask_others(const StacksTerms& terms, const Seen& seen);
    std::string refusal_of(const StacksTerms& terms) const;

    AgentControls& agent_;
    NodeQuestions& questions_;
    std::deque<Waiting> waiting_;  // the first one is under way while looker_ runs
    std::thread looker_;
    std::atomic<bool> is_cancelled_{false};
    KnownOfJob known_;
    int led_ = 0;  // how often another coordinator has taken over
    Alive alive_;
};

}  // namespace launch
}  // namespace ddprun
