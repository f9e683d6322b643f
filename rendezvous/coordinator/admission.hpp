// Admission: whether an agent may take part in a job, from what it says of itself. Pure; the Coordinator
// asks.
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

// JobTerms are what node 0 was told of the job.
struct JobTerms {
    std::string version;
    std::string run_id;
    int nnodes = 1;  // as in Hello, like the next
    int min_nodes = 0;
};

// Company is who is there already, as far as it matters to a newcomer; nullptr stands for nobody.
struct Company {
    const Hello* holder = nullptr;     // of the newcomer's node number
    const Hello* companion = nullptr;  // the lowest node with workers of the newcomer's role
};

// It may come again over another connection.
bool is_same_agent(const Hello& one, const Hello& other);

// `own` is node 0's own agent, which counts before it has come; `holder` the node that has come by the
// newcomer's number, nullptr for none.
Company company_of(const Hello& newcomer, const std::optional<Hello>& own, const JobNode* holder,
                   const JobNodes& nodes);

// Nothing if it may. The sentence goes to the newcomer, and, unless that is a stranger, to node 0's user.
std::optional<Refused> reason_to_refuse(const Hello& newcomer, const JobTerms& terms, const Company& company);

// True if it looks for another job, or does not speak as this one does. Such a one is told its own value of
// what differs, and nothing of the job.
bool is_stranger(const Hello& newcomer, const JobTerms& terms);
// Tells node 0's user, with both values, why the newcomer is a stranger.
std::string what_is_strange(const Hello& newcomer, const JobTerms& terms);
// This says what a port is where somebody of another job is met; in words that go behind "port 29400".
inline constexpr const char* kPortOfAnotherJob = "belongs to another job";

// Nodes that wait while the job runs without them.
inline constexpr std::size_t kMaxQueued = 1024;

// To one that nothing is held against, but the job has begun.
Refused came_too_late();
Refused has_all_nodes(int nodes);
Refused too_many_wait();
// `why` its machine is left out, see Exclusion.
Refused left_out_before(const std::string& host, const std::string& why);
Refused said_hello_before();
Refused said_no_hello();

// This decides what an agent may say of its workers. Pure. Numbers that no job can have are refused before,
// where the bytes arrive (range_of).

// True if the message, which is of the node's current round, speaks of no workers but its own.
bool can_be_true(const ControlMessage& message, const JobNode& from);

// Nodes that take no part in a job: those that are not fit for it, and those whose workers fail again and
// again. Pure.

// UnfitNodes: those that looked at themselves before the job (--check) and said that they are not fit for it.
// They take no part, and nobody waits for them. Pure; the Coordinator asks.
class UnfitNodes {
  public:
    // A node may be fit when it comes again. The one that hosts cannot be left out.
    void learn(const Hello& hello, bool is_host);

    // How many will not come.
    int left_out() const { return static_cast<int>(nodes_.size()); }

    // Why there is no job: too few can come, or the host is one of them.
    std::optional<Refused> fault(int nnodes, int least) const;

    // To an agent that says so, which was told of it by others for the user of node 0.
    static Refused refusal(const Hello& hello);

  private:
    struct UnfitNode {
        std::string name;
        std::string why;
    };
    // The key is its number; for one without it its host and process.
    std::map<std::string, UnfitNode> nodes_;
    std::optional<UnfitNode> host_;
};

// Exclusion: which nodes' workers fail again and again, and which machines take part no longer. Pure; kept by
// the Coordinator, which knows whether the job can do without them.
//
// Counted are the rounds of the job that failed first on a node, whichever they were and however long ago: a
// place in the job's order together with the host that has it (see Seating). So a node keeps its count when
// its agent comes again to its place, and another machine that takes the place begins with none. Nothing else
// begins a count anew. Excluded are machines: who comes again from one is the same trouble.
class Exclusion {
  public:
    // `after` so many rounds that failed first there a node is due to be left out; 0: never.
    explicit Exclusion(int after) : after_(after) {}

    // The workers of this node were the culprit of a round.
    void blame(int place, const std::string& host) { ++rounds_[{place, host}]; }

    bool is_due(int place, const std::string& host) const {
        return after_ > 0 && rounds_of(place, host) >= after_;
    }

    // `its workers failed first in 3 rounds (--exclude-after 3)`; of one that is due.
    std::string reason(int place, const std::string& host) const;

    // This machine is left out, for that reason.
    void exclude(const std::string& host, const std::string& reason) { excluded_[host] = reason; }

    void take_back(const std::string& host) { excluded_.erase(host); }

    // Why this machine is left out; nullptr where it is not.
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

// NodeComparison: in what nodes differ that should be alike. Pure; kept by the Coordinator, which asks once
// all have come, and again for those who come later: they are compared with what most nodes had before.

// Sentences; beyond them the last one counts what is left.
inline constexpr std::size_t kMaxDifferencesTold = kMaxDifferencesInMessage;
// Names of traits that are looked at, in alphabetical order.
inline constexpr std::size_t kMaxTraitsCompared = 512;
// One sentence names so many: values besides the most frequent one, and nodes of each of these.
inline constexpr std::size_t kMaxValuesNamed = 3;
inline constexpr std::size_t kMaxNodesNamed = 4;

// Roles by which nodes that come later are compared; there are rarely more than a few.
inline constexpr std::size_t kMaxRolesCompared = 64;

class NodeComparison {
  public:
    // Compares those that have not been, and forgets their traits. One sentence for each trait that differs
    // between nodes with workers of one role:
    //   nodes differ in NCCL_DEBUG: node 2 (gpu07) has "INFO", the others "WARN"
    // So it does for the arguments of the program, where it names the words that differ. The others are the
    // most; where there are as many of each, those with the lowest node number; and in later calls the same
    // ones, as they were in the first. A trait that a node does not have is "not set" there.
    std::vector<std::string> learn(JobNodes& nodes);

    // The same of one node that would come.
    std::vector<std::string> against(const Hello& newcomer) const;

    // The usual traits are what most nodes of a role have.
    struct Usual {
        std::vector<NodeTrait> traits;
        JobCommand command;  // of the first of them
        bool programs_may_differ = false;
    };

  private:
    std::map<std::string, Usual, std::less<>> by_role_;
};

// The one sentence of a job, or of a node that would come, that is refused for them (--strict-env).
Refused refused_for(const std::vector<std::string>& differences);
Refused newcomer_refused_for(const std::vector<std::string>& differences);

}  // namespace job
}  // namespace ddprun
