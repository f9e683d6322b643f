// run_starter starts a job's agents on its hosts and brings all that they say to this terminal, until the
// last one has ended.
//
// The starter is the root of the tree of relays, on main's thread. Signals that end the job go to all agents,
// as from a scheduler; others to node 0's, which passes them on to every worker.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "launcher/start/start_tree.hpp"

namespace ddprun {
inline namespace launch {

struct StartTerms {
    int nodes = 1;
    int least = 1;               // of --nnodes MIN:MAX; else all
    bool may_outlive_0 = false;  // the job may go on without node 0
};

// StartLedger holds what the starter of a job knows of its nodes, and what follows from that. Pure.
class StartLedger {
  public:
    explicit StartLedger(const StartTerms& terms)
        : terms_(terms), nodes_(static_cast<std::size_t>(terms.nodes), Node::awaited) {}

    // Returns a line for the user, where there is one.
    std::optional<std::string> learn(const HostFailed& failed);
    void learn(const AgentRuns& runs);
    void learn(const AgentEnded& ended);

    // Says whether all of the first round's workers were started.
    bool has_begun() const { return begun_; }
    // Says whether the job cannot begin any more: too few nodes are left, or node 0 is not.
    bool is_hopeless() const;
    // Says whether the job is over, and agents only have to end: node 0 has ended, and the job cannot go on
    // without it.
    bool awaits_stragglers() const { return begun_ && is_gone(0) && !terms_.may_outlive_0; }

    // Returns the exit code of the whole start. If the job never began: kExitSystem where too few hosts were
    // started, else the code of the agent that ended first, if not 0. Otherwise node 0's code or, if that was
    // not heard, that of the agent that ended last. A 0 from another node than node 0 becomes kExitSystem,
    // unless the job could go on without node 0.
    int exit_code() const;
    // Makes a summary for a job that never began; nothing where node 0's own report says it.
    std::optional<std::string> why_not_begun() const;

  private:
    enum class Node { awaited, ended, failed };

    bool is_gone(int rank) const;
    int gone() const;

    StartTerms terms_;
    std::vector<Node> nodes_;
    bool begun_ = false;
    int unstarted_ = 0;              // hosts that failed before the job began
    std::optional<int> first_code_;  // of an agent that ended before the job began
    std::optional<int> code_of_0_;
    std::optional<int> last_code_;
};

// kMaxEchoes: how many lines of launchers are remembered; at one more, all are forgotten.
inline constexpr std::size_t kMaxEchoes = 4096;

// EchoFilter lets a line through once: every agent of a job says why it ended, in the same words. Pure.
class EchoFilter {
  public:
    // Takes whole lines that a node's agent has said on stderr, and returns them without the launcher's own
    // lines that another node has said before, word by word. What workers say stays. `host`, unless empty, is
    // put behind the mark of each of the launcher's lines that are left.
    std::string fresh(int node, std::string_view text, std::string_view host = {});

  private:
    std::unordered_map<std::string, int> first_;  // line -> the node that said it
};

struct StarterOptions {
    StartPlan plan;  // all nodes, in their order
    StartTerms terms;
    std::vector<int> ending_signals;
    std::vector<int> forwarded_signals;
    std::chrono::milliseconds grace_period{0};
};

// Returns the exit code of the job; kExitSystem where a host could not be started, after a line for each.
int run_starter(const StarterOptions& options);

}  // namespace launch
}  // namespace ddprun
