// reason_to_refuse() says whether an agent may take part in a job, from what the agent says of itself. Pure;
// the Coordinator asks.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/control/control_message.hpp"
#include "rendezvous/coordinator/job_summary.hpp"

namespace ddprun {
inline namespace job {

// JobTerms: what node 0 was told of the job.
struct JobTerms {
    std::string version;
    std::string run_id;
    int nnodes = 1;  // as in Hello, like the next
    int min_nodes = 0;
};

// Company: the nodes there already that matter to a newcomer; nullptr stands for none.
struct Company {
    const Hello* holder = nullptr;     // of the newcomer's node number
    const Hello* companion = nullptr;  // the lowest node with workers of the newcomer's role
};

// Returns whether both are one agent, which may come again over another connection.
bool is_same_agent(const Hello& one, const Hello& other);

// Finds the newcomer's company. `own`: node 0's own agent, which counts before it has come. `holder`: the
// node that has come by the newcomer's number, nullptr for none.
Company company_of(const Hello& newcomer, const std::optional<Hello>& own, const JobNode* holder,
                   const JobNodes& nodes);

// Returns nothing if the newcomer may take part. The sentence goes to the newcomer and, unless that is a
// stranger, to node 0's user.
std::optional<Refused> reason_to_refuse(const Hello& newcomer, const JobTerms& terms, const Company& company);

// Returns true if the newcomer looks for another job, or does not speak as this one does. A stranger is told
// its own value of what differs, and nothing of the job.
bool is_stranger(const Hello& newcomer, const JobTerms& terms);
// Returns the line for node 0's user that says, with both values, why the newcomer is a stranger.
std::string what_is_strange(const Hello& newcomer, const JobTerms& terms);
// kPortOfAnotherJob: what is said of a port at which an agent met another job; goes behind "port 29400".
inline constexpr const char* kPortOfAnotherJob = "belongs to another job";

// kMaxQueued: nodes that wait while the job runs without them.
inline constexpr std::size_t kMaxQueued = 1024;

// Returns the refusal of an agent that comes only after the job has begun.
Refused came_too_late();
Refused has_all_nodes(int nodes);
Refused too_many_wait();
// Returns the refusal of an agent on a machine that is left out; `why`: see Exclusion.
Refused left_out_before(const std::string& host, const std::string& why);
Refused said_hello_before();
Refused said_no_hello();

// Returns true if the message, which is of the node's current round, speaks of no workers but the node's own.
// Pure. Numbers that no job can have are refused before, where the bytes arrive (range_of).
bool can_be_true(const ControlMessage& message, const JobNode& from);

// UnfitNodes: nodes that looked at themselves before the job (--check) and said that they are not fit for it.
// The job does not wait for them. Pure; the Coordinator asks.
class UnfitNodes {
  public:
    // Learns whether a node is fit; one that is unfit may be fit when it comes again. The node that hosts
    // cannot be left out.
    void learn(const Hello& hello, bool is_host);

    // Returns how many nodes will not come.
    int left_out() const { return static_cast<int>(nodes_.size()); }

    // Returns why there is no job: too few nodes can come, or the host is unfit.
    std::optional<Refused> fault(int nnodes, int least) const;

    // Returns the refusal of an agent that says it is unfit, worded for the user of node 0.
    static Refused refusal(const Hello& hello);

  private:
    struct UnfitNode {
        std::string name;
        std::string why;
    };
    // nodes_: the key is the node's number; for a node without one its host and process.
    std::map<std::string, UnfitNode> nodes_;
    std::optional<UnfitNode> host_;
};

// Exclusion: which nodes' workers fail again and again, and which machines take part no longer. Pure; kept by
// the Coordinator, which knows whether the job can do without them.
//
// Exclusion counts, for each node, the rounds of the job that failed first there, in a row or not, however
// long ago. A node here is a place in the job's order together with the host that has it (see Seating). A
// node keeps its count when its agent comes again to its place, and another machine that takes the place
// begins with none. Nothing else begins a count anew. Machines are excluded, not agents: a new agent on the
// same machine would bring the same trouble.
class Exclusion {
  public:
    // Exclusion makes a node due to be left out once `after` rounds failed first there; 0: never.
    explicit Exclusion(int after) : after_(after) {}

    // Notes that the workers of this node were the culprit of a round.
    void blame(int place, const std::string& host) { ++rounds_[{place, host}]; }

    bool is_due(int place, const std::string& host) const {
        return after_ > 0 && rounds_of(place, host) >= after_;
    }

    // Returns `its workers failed first in 3 rounds (--exclude-after 3)`, for a node that is due.
    std::string reason(int place, const std::string& host) const;

    // Leaves this machine out, for that reason.
    void exclude(const std::string& host, const std::string& reason) { excluded_[host] = reason; }

    void take_back(const std::string& host) { excluded_.erase(host); }

    // Returns why this machine is left out; nullptr where it is not.
    const std::string* why(const std::string& host) const {
        const auto entry = excluded_.find(host);
        return entry == excluded_.end() ? nullptr : &entry->second;
    }

  private:
    int rounds_of(int place, const std::string& host) const {
        const auto entry = rounds_.find({place, host});
        return entry == rounds_.end() ? 0 : entry->second;
    }

    int after_;
    std::map<std::pair<int, std::string>, int> rounds_;
    std::map<std::string, std::string> excluded_;
};

// kMaxDifferencesTold: sentences at most; beyond them the last one counts what is left.
inline constexpr std::size_t kMaxDifferencesTold = kMaxDifferencesInMessage;
// kMaxTraitsCompared: names of traits that are looked at, in alphabetical order.
inline constexpr std::size_t kMaxTraitsCompared = 512;
// kMaxValuesNamed, kMaxNodesNamed: how many one sentence names: values besides the most frequent one, and
// nodes of each of these.
inline constexpr std::size_t kMaxValuesNamed = 3;
inline constexpr std::size_t kMaxNodesNamed = 4;

// kMaxRolesCompared: roles by which nodes that come later are compared; there are rarely more than a few.
inline constexpr std::size_t kMaxRolesCompared = 64;

// NodeComparison: in what nodes differ that should be alike. Pure. The Coordinator keeps it and asks once all
// nodes have come, and again for nodes that come later: these are compared with what most nodes had before.
class NodeComparison {
  public:
    // Compares the nodes that have not been, and forgets their traits. Returns one sentence for each trait
    // that differs between nodes with workers of one role:
    //   nodes differ in NCCL_DEBUG: node 2 (gpu07) has "INFO", the others "WARN"
    // The arguments of the program are compared, too, and the words that differ are named. "The others" are
    // the largest group of nodes that are alike; of groups of one size, the one with the lowest node number.
    // Later calls keep the group of the first. A trait that a node does not have is "not set" there.
    std::vector<std::string> learn(JobNodes& nodes);

    // Compares, in the same way, one node that would come.
    std::vector<std::string> against(const Hello& newcomer) const;

    // Usual: the traits that most nodes of a role have.
    struct Usual {
        std::vector<NodeTrait> traits;
        JobCommand command;  // of the first of them
        bool programs_may_differ = false;
    };

  private:
    std::map<std::string, Usual, std::less<>> by_role_;
};

// Returns the refusal, in one sentence, of a job, or of a node that would come, for these differences
// (--strict-env).
Refused refused_for(const std::vector<std::string>& differences);
Refused newcomer_refused_for(const std::vector<std::string>& differences);

}  // namespace job
}  // namespace ddprun
