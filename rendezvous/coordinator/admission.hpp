// reason_to_refuse() says whether an agent may take part in a job, from what the agent says of itself. Pure;
// the Coordinator asks.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

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

}  // namespace job
}  // namespace ddprun
