// StartLedger: what the starter of a job knows of its nodes, and what follows from that. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/start/start_message.hpp"

namespace ddprun::inline launch {

struct StartTerms {
    int nodes = 1;
    int least = 1;               // of --nnodes MIN:MAX; else all
    bool may_outlive_0 = false;  // the job may go on without node 0
};

class StartLedger {
  public:
    explicit StartLedger(const StartTerms& terms)
        : terms_(terms), nodes_(static_cast<std::size_t>(terms.nodes), Node::awaited) {}

    // Returns a line for the user, where there is one.
    std::optional<std::string> learn(const HostFailed& failed);
    void learn(const AgentRuns& runs);
    void learn(const AgentEnded& ended);

    // All of the first round's workers were started.
    bool has_begun() const { return begun_; }
    // The job cannot begin any more: too few nodes are left, or node 0 is not.
    bool is_hopeless() const;
    // Node 0 has ended and nobody can go on without it.
    bool awaits_stragglers() const { return begun_ && is_gone(0) && !terms_.may_outlive_0; }

    // Of the whole start: node 0's; where that was not heard, that of the agent that ended last.
    int exit_code() const;
    // A summary for a job that never began; nothing where node 0's own report says it.
    std::optional<std::string> why_not_begun() const;

  private:
    enum class Node { awaited, ended, failed };

    bool is_gone(int rank) const;
    int gone() const;

    StartTerms terms_;
    std::vector<Node> nodes_;
    bool begun_ = false;
    int unstarted_ = 0;              // hosts that failed before the job began
    std::optional<int> first_code_;  // of an agent that ended before that
    std::optional<int> code_of_0_;
    std::optional<int> last_code_;
};

}  // namespace ddprun::inline launch
