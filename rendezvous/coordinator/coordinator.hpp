// Coordinator: the one decision-maker of a job. Pure: messages and times come in, messages go out.
//
// It decides who takes part, assigns ranks, names the first failure, and says when the job is over.
//
// A node whose workers fail first again and again is left out of further rounds, and so is its machine, where the job
// can do without (see Exclusion); never the one that hosts this coordinator, which goes with it.
//
// What it does in which state stands in coordinator_table.cpp; this carries the actions out. The decisions are
// parts of their own: admission.hpp, seating.hpp, rank_mapping.hpp, node_differences.hpp, first_failure.hpp,
// restart_policy.hpp, job_summary.hpp.
//
// Nodes that come while workers run wait in a queue until a round ends, which it may do for them (elasticity.hpp). A
// round begins only when no worker of the one before can be left, also of a node that nobody can ask any more: one
// that was lost has its grace period from then on.
//
// Where a job may go on without a node, all agents are told who takes part (MemberList). So when the coordinator is
// lost, one of them can begin another one that takes the job over, if a quorum of them follows it (quorum.hpp); and a
// coordinator that has lost the quorum ends the job, because the others may go on.
//
// It is driven by one caller on one thread (RendezvousServer, or a simulated network in tests),
// which hands it each message with the connection it came from, tells it of closed connections, and calls
// tick() at next_deadline(). It never blocks, reads no clock, and knows nothing of sockets, workers or grace
// periods.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "rendezvous/control/control_message.hpp"
#include "rendezvous/control/control_wire.hpp"
#include "rendezvous/control/heartbeat.hpp"
#include "rendezvous/coordinator/admission.hpp"
#include "rendezvous/coordinator/coordinator_table.hpp"
#include "rendezvous/coordinator/exit_wait.hpp"
#include "rendezvous/coordinator/first_failure.hpp"
#include "rendezvous/coordinator/job_summary.hpp"
#include "rendezvous/coordinator/node_differences.hpp"
#include "rendezvous/coordinator/restart_policy.hpp"
#include "rendezvous/coordinator/signal_notices.hpp"
#include "rendezvous/coordinator/unfit_nodes.hpp"
#include "rendezvous/membership/elasticity.hpp"
#include "rendezvous/membership/exclusion.hpp"
#include "rendezvous/membership/member_list.hpp"
#include "rendezvous/membership/quorum.hpp"
#include "rendezvous/membership/round_record.hpp"
#include "rendezvous/membership/seating.hpp"

namespace ddprun::inline job {

struct CoordinatorOptions {
    std::string version;
    std::string run_id = "none";
    std::string job_id;
    std::int64_t start_unix_s = 0;  // of the job
    int nnodes = 1;
    Elasticity elasticity;
    std::chrono::milliseconds join_timeout{900'000};
    std::chrono::milliseconds heartbeat{0};  // the limit of silence; 0: silence is no sign of a loss
    RestartOptions restarts;
    unsigned jitter_seed = 0;  // of the pauses between rounds
    std::optional<ExitWaitOptions> exit_wait;
    bool asks_about_failures = false;  // a program of the user's, by way of the host's own agent
    // What node 0's own agent will say. Others may come before it, but none may take its place or decide what
    // the job runs.
    std::optional<Hello> own_agent;
    // Of the job, in the list that its own agent knows; where nodes are numbered, in that order. Empty: of none.
    std::vector<std::string> hosts;
    bool strict_env = false;  // no job of nodes that differ, and nobody who does joins later
    // Another coordinator may take over from this one, and this one is told so if it is one of those.
    bool failover = false;
    // Workers reach the store by way of their own agents.
    bool through_doors = false;
    std::optional<MemberList> predecessor;
    // A register outside the job decides who leads it next, and wish() is carried there: then no quorum is needed, and
    // no round begins without a member of the last one that may live before that is recorded (round_record.hpp).
    bool records_rounds = false;
};

// Until when the workers of the host's own node may run, of which round. Without an end it is of no round.
struct RoundLease {
    int round = 0;
    std::optional<LeaseEnd> end;

    bool operator==(const RoundLease& other) const {
        return end == other.end && (!end || round == other.round);
    }
};

class Coordinator {
  public:
    using ConnectionId = std::uint64_t;
    using TimePoint = std::chrono::steady_clock::time_point;

    // How all ranks have ended: one for all agents that are told, since those of a large job are many bytes.
    struct Outgoing {
        ConnectionId to = 0;
        ControlMessage message;
        bool close_after = false;   // the conversation is over once this is written
        SharedEnds ends = nullptr;  // go before the message
    };
    using Outbox = std::vector<Outgoing>;

    // A waiting agent is first told who is missing after this time, …
    static constexpr std::chrono::milliseconds kFirstStatusDelay{3'000};
    // … and on changes no more often than this.
    static constexpr std::chrono::milliseconds kStatusPeriod{1'000};
    // Messages in a round by which agents hear of single deaths elsewhere; of more their workers hear when
    // connections close.
    static constexpr std::size_t kMaxDeathsTold = 100'000;
    // So long an agent may take to start its workers, or to fail to do so.
    static constexpr std::chrono::seconds kStartTimeout{90};
    // How long those may take to die whose agent is dead, or who are killed at the end of their grace period.
    static constexpr std::chrono::seconds kKillTime{1};
    // Signals to several agents that are this close together are meant for the job.
    static constexpr std::chrono::seconds kSignalsTogether{1};
    // So long the host's agent may take to say what its user's program answers.
    static constexpr std::chrono::seconds kJudgementTimeout{15};
    // How much longer than all take to notice the loss of a coordinator its members may take to find another one.
    static constexpr std::chrono::seconds kElectionTime{5};
    // Different refusals that node 0's agent hears of.
    static constexpr std::size_t kMaxRefusalsTold = 32;
    // Once it is known that there can be no job, so long the nodes that have yet to come are awaited, to be told why.
    static constexpr std::chrono::seconds kUnfitTime{10};

    Coordinator(CoordinatorOptions options, TimePoint now);

    Outbox receive(ConnectionId from, const ControlMessage& message, TimePoint now);
    // `closed_there`: by the agent's own machine.
    Outbox closed(ConnectionId connection, TimePoint now, bool closed_there = true);
    // To be called at next_deadline(), with what has arrived until then received before.
    Outbox tick(TimePoint now);
    std::optional<TimePoint> next_deadline() const;

    // Until then workers on this coordinator's own node may run if it stands still from now on; nothing: for ever,
    // since nobody would go on without it.
    std::optional<TimePoint> lease_end() const;

    // This one leads the job: a round has begun, or it has taken the job over.
    bool is_elected() const { return has_run_; }

    // What is to be recorded; nothing before the first round, and when the job is over for all.
    const std::optional<RecordWish>& wish() const { return wish_; }
    Outbox learn(const RecordNews& news, TimePoint now);

    // Number of the round that runs or is about to; each one needs an empty store.
    int round() const { return round_; }

    // Whether what was said there was a Hello, and that agent has a place in the job, or waits for one.
    bool has_taken(ConnectionId connection) const {
        return nodes_by_connection_.contains(connection) || queue_.contains(connection) ||
               released_.contains(connection);
    }

    // True once the job is over and every agent has left.
    bool empty() const {
        return state_ == CoordinatorState::over && nodes_by_connection_.empty() && queue_.empty() &&
               released_.empty();
    }

  private:
    // What happened: the node and the message that it is about, if there are any.
    struct Occasion {
        TimePoint now;
        JobNode* node = nullptr;
        const ControlMessage* message = nullptr;
        ConnectionId from = 0;
    };

    void handle(CoordinatorEvent event, const Occasion& occasion);
    void carry_out(CoordinatorAction action, const Occasion& occasion);

    void witness(TimePoint now);
    void lose(JobNode& node, TimePoint now, bool closed_there);
    void expel(JobNode& node, TimePoint now);
    void beat(TimePoint now);
    void excuse(const JobNode& node);
    bool is_own(const Hello& hello) const {
        return options_.own_agent && is_same_agent(*options_.own_agent, hello);
    }
    void admit(ConnectionId from, const Hello& hello, TimePoint now);
    std::optional<Refused> reason_against(const Hello& hello) const;
    void refuse(ConnectionId from, const Hello& hello, const Refused& refused);
    using Newcomer = std::tuple<std::string, std::int64_t, int>;
    static Newcomer newcomer_of(const Hello& hello) { return {hello.host, hello.pid, hello.node_rank}; }
    void make_room(const Hello& hello, TimePoint now);
    std::size_t seats_left() const;
    std::size_t awaited_nodes() const;
    bool leave_out_unfit(ConnectionId from, const Hello& hello);
    void look_whether_complete(TimePoint now);
    std::optional<Refused> unfit_fault() const {
        return unfit_.fault(options_.nnodes, options_.elasticity.least(options_.nnodes));
    }
    void begin_first_round(TimePoint now);
    void seat_first_round();
    const JobNode* holder_of(int number) const;
    JobNode* host();
    bool is_host(const Hello& hello) const {
        return options_.own_agent ? is_own(hello) : hello.node_rank == 0;
    }
    void watch(ConnectionId from, const Hello& hello, TimePoint now);
    JobTerms terms() const {
        return {options_.version, options_.run_id, options_.nnodes,
                options_.elasticity.min_nodes.value_or(0)};
    }
    void forget(const JobNode& node, TimePoint now);
    TimePoint next_status(TimePoint now) const;
    void tell_waiting(TimePoint now);
    void compare_nodes();
    std::optional<Refused> fault_of_nodes() const;
    void give_up();
    void refuse_all(const Refused& refused);
    Waiting waiting() const;
    void name_missing(Waiting& status) const;

    bool may_leave(const JobNode& node, const AgentSignalled& signalled) const;
    CoordinatorEvent meaning_of(CoordinatorEvent event, const JobNode* node, const ControlMessage& message);
    // How a coordinator takes over from another one, and how it ends: coordinator_takeover.cpp.
    void limit_own_end(TimePoint now);
    bool may_fail_over() const;
    void admit_follower(ConnectionId from, const Hello& hello, TimePoint now);
    void forget_follower(JobNode& node);
    void learn_from(const Following& following);
    void canvass();
    void note_follower(JobNode& node, const Follow& follow, TimePoint now);
    void end_election(TimePoint now);
    std::optional<int> rank_among_members(const JobNode& node) const;
    const Member* listed(const Hello& agent) const;
    template <typename Counts>
    Attendance attendance(Counts counts) const;
    void take_over(TimePoint now);
    void go_on_pausing(TimePoint now);
    void seat_followers();
    void seat_missing(TimePoint now);
    void abdicate();
    void redirect(ConnectionId from, const Hello& hello);
    void move(const JobMoved& moved);
    void tell_other_group(const JobMoved& moved);
    void lose_member(const JobNode& node, bool is_dead);
    // Of its workers: one that follows may not have heard of the last round.
    int round_of(const JobNode& node) const {
        return node.hello.following ? node.hello.following->last.round : round_;
    }
    void hear_of_round(ConnectionId from, const ControlMessage& message);
    bool is_ours(const JobMoved& moved) const;
    MemberList member_list() const;
    void begin_quorum();
    bool holds_without_leavers() const;
    bool is_sure(TimePoint now) const;
    void make_sure(TimePoint now);
    void note_answer(TimePoint now);
    void look_for_doubt(TimePoint now);
    void settle_doubt(TimePoint now);
    // How rounds are recorded where that decides who leads the job next: coordinator_recording.cpp.
    bool records() const { return options_.records_rounds && may_fail_over(); }
    RoundRecord record_of(int round) const;
    bool leaves_somebody() const;
    bool lacks_record() const;
    void record(TimePoint now);
    void wish_record(TimePoint now);
    void note_missing();

    void receive_queued(JobNode& node, const ControlMessage& message);
    void enqueue(ConnectionId from, const Hello& hello, TimePoint now);
    bool has_workers_left(ConnectionId from, const Hello& hello);
    void leave_queue(ConnectionId from);
    bool can_grow() const;
    void replace_resize(const Failure& cause);
    void note_leaving(JobNode& node, const ControlMessage& message, TimePoint now);
    std::size_t present() const;
    bool has_enough() const;
    bool somebody_leaves() const;
    bool is_resize() const;
    void begin_again(TimePoint now);
    void await_return(TimePoint now);
    void look_for_enough(TimePoint now);
    void release_leavers();
    void seat_next_round();
    bool wants_judgement();
    void ask_judge(TimePoint now);
    void settle(const Occasion& occasion);
    void settle_by(const Judgement& judgement, TimePoint now);
    std::string why_not_without(int node_rank);
    JobNode* culprit();
    bool leave_out(JobNode& node, std::string why);
    void take_back(JobNode& node);
    void take_back_left_out();
    void release(JobNode& node, Finish finish);
    std::optional<Refused> why_unwanted(const Hello& hello) const;
    void refuse_unwanted();
    const std::string* why_left_out(const Hello& hello) const;
    void remark(std::string text);

    void start_round(TimePoint now);
    std::string reached_at(int host) const;
    std::string meeting_address(const JobNode& node) const;
    std::string reason_of_round() const;
    void suspect(const JobNode& node, const WorkerDying& dying);
    void contend(const JobNode& node, const ControlMessage& message);
    void keep_ends(JobNode& node, const RankEnds& ends) const;
    void stop_all(const Occasion& occasion);
    void stop_for(Failure cause, TimePoint now);
    void exit_wait_due(TimePoint now);
    void note_running(const JobNode& node, const StillRunning& running, TimePoint now);
    void exit_wait_over(TimePoint now);
    void stop_overdue(const Occasion& occasion);
    void node_gone(const Occasion& occasion);
    void node_ended(JobNode& node, TimePoint now);
    void decide(TimePoint now);
    void pause(TimePoint now);
    void finish();

    void send(ConnectionId to, ControlMessage message) { out_.push_back({to, std::move(message)}); }
    void send_all(const ControlMessage& message);
    Outbox take_out() { return std::exchange(out_, {}); }
    JobNode* find(ConnectionId connection);

    CoordinatorOptions options_;
    RestartPolicy policy_;
    ExitWait exit_wait_;
    std::minstd_rand random_;
    HeartbeatWatch heartbeats_;
    CoordinatorState state_ = CoordinatorState::gathering;
    Outbox out_;  // of the call that is being answered
    TimePoint join_deadline_;
    TimePoint last_call_;
    std::optional<TimePoint> last_call_end_;
    UnfitNodes unfit_;
    std::optional<TimePoint> status_deadline_;
    std::optional<TimePoint> last_status_;
    TimePoint judgement_deadline_;
    TimePoint pause_end_;
    JobNodes nodes_;  // those without a number under one that no node can have, until all are there
    // Who has come while nodes gather, by machine, process and number: its key in there.
    std::map<Newcomer, int> newcomers_;
    int unnumbered_ = 0;
    std::optional<int> host_;  // its key in there
    std::map<ConnectionId, int> nodes_by_connection_;
    Seating seating_;
    Exclusion exclusion_;
    std::map<ConnectionId, JobNode> queue_;  // nodes that wait for another round, as they came
    std::set<ConnectionId> released_;        // agents that were told how the job has ended for them
    std::optional<TimePoint>
        own_end_;  // of the host's own workers at the latest, since the round was stopped
    std::optional<TimePoint> workers_gone_;  // no round before: until then a lost node's may be there
    std::optional<TimePoint> lost_to_all_;   // by then all have noticed that they have no coordinator
    std::set<std::string> refusals_told_;
    std::vector<PeerRefused> refusals_untold_;  // while node 0's agent is not there
    std::size_t awaited_ = 0;                   // nodes that have not ended in this state
    int round_ = 0;
    bool has_run_ = false;  // that round
    TimePoint round_start_;
    std::chrono::milliseconds uptime_{0};  // of the round, until its first failure
    bool progressed_ = false;
    SignalNotices signals_;           // that the workers of this round were sent
    bool requeue_ = false;            // the workers of this round were sent a signal for that
    bool restart_cancelled_ = false;  // the user wants the job to end
    FirstFailure failures_;           // of this round, each node's
    std::optional<Failure> cause_;    // what ends the round, as far as is known
    RestartPolicy::Decision decision_;
    bool resizing_ = false;  // what follows is no restart
    int resize_count_ = 0;
    std::size_t deaths_told_ = 0;  // messages, in this round
    std::vector<Restart> restarts_;
    std::vector<Restart> resizes_;
    std::optional<MemberList>
        members_;         // of the last round, as all were told; while electing, the newest known
    std::set<int> dead_;  // of those, while electing
    int epoch_ = 0;       // of this coordinator, or the one that it would have
    TimePoint election_end_;
    Quorum quorum_;                   // of the last round
    std::optional<Quorum> previous_;  // of the one before, until a quorum of it has heard of the last one
    std::optional<Failure> minority_cause_;  // the loss by which this side became too small
    std::optional<RecordWish> wish_;
    std::optional<RoundRecord> recorded_;  // the newest that is known to be
    bool lost_silently_ = false;           // a member of the last round that is not known to be dead
    bool own_suspended_ = false;
    bool makes_sure_ = false;        // asks whether those who are to take part are there
    bool was_decided_ = false;       // that another round follows, by the coordinator before this one
    std::optional<JobMoved> moved_;  // this coordinator's job is there, or another group of its nodes
    NodeComparison comparison_;
    std::vector<std::string> differences_;  // between the nodes, once all have come
};

}  // namespace ddprun::inline job
