// Leadership: whether this coordinator leads the job, and how it comes to lead it and ceases to. No other
// part knows of fail-over, and of what is recorded in a register outside the job (etcd). Pure; the
// Coordinator owns it and calls it in the order of what happens.
//
// All agents are told which nodes take part (MemberList), where a job may go on without a node. When the
// coordinator is lost, one of them can begin another one that takes the job over, if a quorum follows it
// (quorum.hpp). A coordinator that has lost the quorum ends the job, because the others may go on. With
// records it is not the quorum that decides, but which round was recorded last (quorum.hpp).
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/control/heartbeat.hpp"
#include "rendezvous/coordinator/aftermath.hpp"
#include "rendezvous/coordinator/coordinator_options.hpp"
#include "rendezvous/coordinator/job_summary.hpp"
#include "rendezvous/coordinator/roster.hpp"
#include "rendezvous/membership/member_list.hpp"
#include "rendezvous/membership/quorum.hpp"

namespace ddprun {
inline namespace job {

// Takeover: the job as known to the agents that follow a coordinator which takes it over.
struct Takeover {
    std::vector<FollowerSeat> seats;
    RoundHistory history;
    Failure cause;                                                      // of the end of the last round
    std::optional<std::chrono::steady_clock::time_point> workers_gone;  // of the members that are missing
};

class Leadership {
  public:
    using ConnectionId = std::uint64_t;
    using TimePoint = std::chrono::steady_clock::time_point;

    // kElectionTime: beyond the time in which all notice the loss of a coordinator, how long its members may
    // take to find another one.
    static constexpr std::chrono::seconds kElectionTime{5};

    Leadership(SharedOptions options, TimePoint now);

    // Returns the members of the last round, as all were told; during an election those of the newest round
    // that is known.
    const std::optional<MemberList>& members() const { return members_; }

    // Returns until when workers on this coordinator's own node may run if it stands still from now on;
    // nothing: for ever.
    std::optional<TimePoint> lease_end(const HeartbeatWatch& heartbeats, bool stops) const;
    // Notes that the round stops, or stops already. Returns true, once, if others may go on without the nodes
    // here: these end their workers as lost nodes do, also the host's own.
    bool limit_own_end(const Roster& roster, TimePoint now);
    // Notes that the host's own agent will stand still, or goes on.
    void suspend_own(bool is_suspended) { own_suspended_ = is_suspended; }

    TimePoint election_end() const { return election_end_; }
    // Adds an agent that comes because it has lost the coordinator. Asks the agents that came to follow, once
    // they are enough.
    Messages add_follower(const JobNode& node, const JobNodes& nodes);
    void remove_follower(ConnectionId connection) { votes_.erase(connection); }
    // Returns true once all members that may live follow.
    bool note_follower(const JobNode& node, const Follow& follow, const JobNodes& nodes);
    // Returns nothing if enough agents follow, else why the job cannot go on with them. Called when the time
    // is over.
    std::optional<std::string> why_not_elected(const JobNodes& nodes) const;
    // Takes the job over for this coordinator with the agents that follow.
    Takeover take_over(const JobNodes& nodes, TimePoint now);
    // Notes which members do not follow, and may be alive; `nodes` are all members.
    void note_missing(const JobNodes& nodes);
    // Returns true, once, if another round follows, as the coordinator before this one has decided.
    bool take_decision() { return std::exchange(was_decided_, false); }

    // Begins a round: its members are the quorum from now on.
    void begin_round(const Roster& roster, const RoundHistory& history, int round, TimePoint now);
    void release(ConnectionId connection);
    struct MemberLoss {
        std::optional<MemberGone> news;  // for all
        std::string obstacle;            // this side has become too small by it; empty: it has not
    };
    MemberLoss lose_member(const JobNode& node, bool is_dead);
    // Returns the loss by which this side became too small to go on.
    const std::optional<Failure>& minority_cause() const { return minority_cause_; }
    // Notes that a member knows of the last round. The round before counts as long as not enough of its
    // members do.
    void hear_of_round(ConnectionId from, const ControlMessage& message, int round);
    // Returns whether a quorum is left without the nodes that leave. The leavers no longer count as members,
    // though they may have been needed for a majority over members that cannot be seen.
    bool holds_without_leavers(const JobNodes& nodes) const;
    // Returns whether a quorum is there for certain.
    bool is_sure(const Roster& roster, const HeartbeatWatch& heartbeats, TimePoint now) const;
    // Returns whether another coordinator may lead by now: a member that was not seen to die may have taken
    // the job over from this one, which stood still.
    bool may_be_outdone() const { return options_->records() && lost_silently_; }

    // Returns what this coordinator wants to be recorded.
    const std::optional<RecordWish>& wish() const { return wish_; }
    // Returns whether the next round has to be recorded first: a member that it leaves out could lead the job
    // on from the round before.
    bool lacks_record(const JobNodes& nodes, int next_round) const;
    // Asks for that record. Returns the loss that makes it necessary, which ends the job if the record fails.
    std::optional<Failure> record(const JobNodes& nodes, int next_round);
    // Returns true if the news is about the record that was asked for.
    bool learn(const RecordNews& news);

    // Asks for no record any more: the job is over for all.
    void finish() { wish_.reset(); }
    // Returns the message that this coordinator leads the job no longer, or did not come to lead it.
    SteppedDown stepping_down(const JobNodes& nodes, bool has_run, const std::string& reason) const;
    // Notes that the job is elsewhere, or another group of its nodes. Returns true if that was noted before.
    bool note_moved(const JobMoved& moved) { return std::exchange(moved_, moved).has_value(); }
    const JobMoved& moved() const { return *moved_; }
    // Moves deadlines after a jump of the clock: no agent has had this time.
    void postpone(std::chrono::steady_clock::duration jump);
    bool awaits_notice() const { return lost_to_all_.has_value(); }

  private:
    // Vote: what an agent has said to being asked to follow.
    struct Vote {
        int asked_epoch = 0;  // the last one that the agent was asked for
        bool follows = false;
    };

    Messages ask_to_follow(const JobNodes& nodes);
    bool follows(const JobNode& node) const { return votes_.at(node.connection).follows; }
    std::optional<int> rank_among_members(const JobNode& node) const;
    template <typename Counts>
    Attendance attendance(const JobNodes& nodes, Counts counts) const;
    MemberList member_list(const Roster& roster, const RoundHistory& history, int round) const;
    RoundRecord record_of(int round) const;
    Failure loss_of(const JobNode& node) const;

    SharedOptions options_;
    int epoch_ = 0;  // of this coordinator, or the one that it would have
    std::optional<MemberList> members_;
    std::set<int> dead_;  // of members_, during an election
    std::map<ConnectionId, Vote> votes_;
    TimePoint election_end_;
    std::optional<TimePoint> lost_to_all_;  // when all have noticed that they have no coordinator
    bool was_decided_ = false;
    Quorum quorum_;                   // of the last round
    std::optional<Quorum> previous_;  // of the one before, until a quorum of it has heard of the last one
    std::optional<Failure> minority_cause_;
    std::optional<TimePoint> own_end_;
    bool own_suspended_ = false;
    std::optional<RecordWish> wish_;
    std::optional<RoundRecord> recorded_;  // the newest round that is known to be recorded
    bool lost_silently_ = false;           // a member of the last round that is not known to be dead
    std::optional<JobMoved> moved_;
};

}  // namespace job
}  // namespace ddprun
