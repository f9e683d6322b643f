// Aftermath: what follows a round: another one or none, with which nodes, and when. Holds the queue of nodes
// that wait for another round, the restarts so far, and the nodes left out. Pure; the Coordinator owns it and
// calls it in the order of what happens.
//
//   the round has ended ──► classify(): a resize or a failure ──► (ask_judge() ──►) settle() ──► pause() ──►
//   next round
//
// A round begins only when no worker of the one before can be left, even of a node that cannot be asked any
// more: from then on that node has its --lost-grace (await_workers).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/control/control_message.hpp"
#include "rendezvous/coordinator/coordinator_options.hpp"
#include "rendezvous/coordinator/job_summary.hpp"
#include "rendezvous/coordinator/restart_policy.hpp"
#include "rendezvous/coordinator/roster.hpp"
#include "rendezvous/coordinator/round.hpp"
#include "rendezvous/membership/exclusion.hpp"

namespace ddprun {
inline namespace job {

// RoundHistory: the rounds that were followed by another one.
struct RoundHistory {
    int restarts = 0;  // of all coordinators of the job
    int resizes = 0;
    std::vector<Restart> restart_list;  // the last ones, kMaxRestartsListed at most
    std::vector<Restart> resize_list;
};

class Aftermath {
  public:
    using ConnectionId = std::uint64_t;
    using TimePoint = std::chrono::steady_clock::time_point;

    // kKillTime: how long workers may take to die once their agent is dead. A lost node's grace is never
    // shorter.
    static constexpr std::chrono::seconds kKillTime{1};
    // kGuardianTime: how long before the end of that grace a guardian kills workers that its agent has not
    // killed.
    static constexpr std::chrono::milliseconds kGuardianTime{500};
    // Returns how long workers may take to end on a node that has lost its coordinator.
    static std::chrono::milliseconds lost_grace(std::int64_t grace_ms) {
        return std::max<std::chrono::milliseconds>(std::chrono::milliseconds(grace_ms), kKillTime);
    }
    // kSignalsTogether: signals to several agents that are this close together are meant for the job.
    static constexpr std::chrono::seconds kSignalsTogether{1};
    // kJudgementTimeout: how long the host's agent may take to say what its user's program answers.
    static constexpr std::chrono::seconds kJudgementTimeout{15};

    explicit Aftermath(SharedOptions options);

    // Returns the nodes that wait for another round.
    const NodeQueue& queue() const { return queue_; }
    // Returns the queued node of the agent that says this Hello, which has come before on another connection.
    const JobNode* queued(const Hello& hello) const;
    JobNode& enqueue(ConnectionId from, const Hello& hello);
    bool leave_queue(ConnectionId from) { return queue_.erase(from) > 0; }
    std::vector<JobNode> take_from_queue(std::size_t count);

    // Returns how many nodes another round could begin with.
    std::size_t present(const JobNodes& nodes) const;
    // Returns whether another round could begin: the least number of nodes is there, and at least one has
    // workers.
    bool has_enough(const JobNodes& nodes) const;
    // Returns whether the round that runs may be ended to let another node in. Not so once all workers of a
    // node have ended.
    bool can_grow(const JobNodes& nodes) const;

    // Returns why the machine is left out; nullptr where it is not. Null also where another node on that
    // machine takes part: then the machine as a whole is not at fault.
    const std::string* why_left_out(const Hello& hello, const JobNodes& nodes) const;
    // Takes nodes back that were left out, since other nodes were lost and the job needs them now. Returns
    // lines for the user.
    std::vector<std::string> take_back_left_out(Roster& roster);

    // Notes that the user wants the job to end: no restart follows.
    void cancel() { is_cancelled_ = true; }
    bool is_cancelled() const { return is_cancelled_; }

    // Notes that the round has ended, and tells a failure from a change of the nodes.
    void classify(const Failure& cause, const JobNodes& nodes);
    bool wants_judgement(const Failure& cause) const;
    // Returns the question for the user's program.
    JudgeFailure ask_judge(const Failure& cause, int round, TimePoint now);
    TimePoint judgement_deadline() const { return judgement_deadline_; }
    struct Verdict {
        bool goes_on = false;
        std::vector<std::string> remarks;  // for the user
    };
    // Decides whether the job goes on. `judgement`: nothing if the program has not answered in time.
    Verdict settle(const std::optional<Judgement>& judgement, Roster& roster, const Round& round);

    // Announces another round to all: returns the message.
    Restarting pause(const Failure& cause, int round, const JobNodes& nodes, TimePoint now);
    TimePoint pause_end() const { return pause_end_; }
    void pause_until(TimePoint time) { pause_end_ = time; }
    // Keeps the next round from beginning before `until`, since workers of a lost node may live that long.
    void await_workers(TimePoint until) { workers_gone_ = std::max(workers_gone_.value_or(until), until); }
    std::optional<TimePoint> workers_gone() const { return workers_gone_; }
    bool may_have_workers(TimePoint now) const { return workers_gone_ && now < *workers_gone_; }
    // Moves deadlines after a jump of the clock: no node has had this time.
    void postpone(std::chrono::steady_clock::duration jump);
    void round_begins() { workers_gone_.reset(); }

    // Takes over what the job's coordinator before this one has counted.
    void take_over(RoundHistory history);
    // Goes on with the next round, as the coordinator before this one had decided.
    void go_on(bool is_resize, TimePoint now);

    // Notes why no round followed, where one might have.
    void note_obstacle(std::string why) { decision_.message = std::move(why); }
    const std::string& obstacle() const { return decision_.message; }
    RoundHistory history() const;
    // Returns the reason of the last restart, or resize, whichever was later.
    std::string reason_of_round() const;
    // Adds the restarts and resizes to the end of the job.
    void add_history(Finish& finish) const;
    // Returns the messages by which nodes that leave hear how the job has ended for them, though it goes on.
    Messages farewells(const JobNodes& nodes, const std::optional<Failure>& cause) const;

  private:
    bool leave_out(const JobNode& node, std::string why, Roster& roster);
    void take_back(const JobNode& node, Roster& roster);
    std::string why_not_without(int node_rank, Roster& roster);
    const JobNode* blame_culprit(const Failure& cause, Roster& roster);

    SharedOptions options_;
    NodeQueue queue_;
    Exclusion exclusion_;
    RestartPolicy policy_;
    RestartPolicy::Decision decision_;
    std::uint64_t random_;  // the state of a generator, never 0
    bool is_cancelled_ = false;
    bool resizing_ = false;  // what follows is no restart
    int resize_count_ = 0;
    std::vector<Restart> restarts_;
    std::vector<Restart> resizes_;
    TimePoint judgement_deadline_;
    TimePoint pause_end_;
    std::optional<TimePoint> workers_gone_;
};

// Returns whether some node takes part in no other round, because its agent was sent a signal.
bool somebody_leaves(const JobNodes& nodes);

}  // namespace job
}  // namespace ddprun
