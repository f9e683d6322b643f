// Leadership: whether this coordinator leads the job, and how it becomes, stays or ceases to be the one that
// does. It is the only part that knows of fail-over and of what is recorded in a register outside the job
// (etcd). Pure; the Coordinator owns it and calls it in the order of what happens.
//
// All agents are told who takes part (MemberList), where a job may go on without a node. So when the
// coordinator is lost, one of them can begin another one that takes the job over, if a quorum of them follows
// it (quorum.hpp); and a coordinator that has lost the quorum ends the job, because the others may go on.
// With records it is not the quorum that decides, but whose round was recorded last (quorum.hpp).
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

// The job as the agents know it that follow a coordinator which takes it over.
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

    // How much longer than all take to notice the loss of a coordinator its members may take to find another
    // one.
    static constexpr std::chrono::seconds kElectionTime{5};

    Leadership(SharedOptions options, TimePoint now);

    // The members of the last round, as all were told; during an election those of the newest round that is
    // known.
    const std::optional<MemberList>& members() const { return members_; }

    // Until then workers on this coordinator's own node may run if it stands still from now on; nothing: for
    // ever.
    std::optional<TimePoint> lease_end(const HeartbeatWatch& heartbeats, bool stops) const;
    // The round stops, or stops already. True, once, if others may go on without those who are here: these
    // end their workers as lost nodes do, also the host's own.
    bool limit_own_end(const Roster& roster, TimePoint now);
    // The host's own agent says that it will stand still, or that it does no more.
    void suspend_own(bool is_suspended) { own_suspended_ = is_suspended; }

    // The election.
    TimePoint election_end() const { return election_end_; }
    // An agent comes that has lost the coordinator. Asks those who came to follow, once they are enough.
    Messages add_follower(const JobNode& node, const JobNodes& nodes);
    void remove_follower(ConnectionId connection) { votes_.erase(connection); }
    // True once all members that may live follow.
    bool note_follower(const JobNode& node, const Follow& follow, const JobNodes& nodes);
    // The time is over. Nothing if enough follow; else why that is no job.
    std::optional<std::string> why_not_elected(const JobNodes& nodes) const;
    // This coordinator takes the job over with those who follow.
    Takeover take_over(const JobNodes& nodes, TimePoint now);
    // Those who do not follow may be alive; `nodes` are all members.
    void note_missing(const JobNodes& nodes);
    // Another round follows, as the coordinator before this one has decided. True once.
    bool take_decision() { return std::exchange(was_decided_, false); }

    // The quorum.
    void begin_round(const Roster& roster, const RoundHistory& history, int round, TimePoint now);
    void release(ConnectionId connection);
    struct MemberLoss {
        std::optional<MemberGone> news;  // for all
        std::string obstacle;            // this side has become too small by it; empty: it has not
    };
    MemberLoss lose_member(const JobNode& node, bool is_dead);
    // The loss by which this side became too small to go on.
    const std::optional<Failure>& minority_cause() const { return minority_cause_; }
    // The round before is one as long as not enough of its members know of the last.
    void hear_of_round(ConnectionId from, const ControlMessage& message, int round);
    // Those who leave are no members any more, but were perhaps needed against those who cannot be seen.
    bool holds_without_leavers(const JobNodes& nodes) const;
    // A quorum is there for certain.
    bool is_sure(const Roster& roster, const HeartbeatWatch& heartbeats, TimePoint now) const;
    // A member that was not seen to die may have taken the job over from a coordinator that stood still.
    bool may_be_outdone() const { return options_->records() && lost_silently_; }

    // The record.
    const std::optional<RecordWish>& wish() const { return wish_; }
    // A member that is left out of the next round could lead the job from the last one.
    bool lacks_record(const JobNodes& nodes, int next_round) const;
    // That is wished for. Returns the loss for which it is needed, and for which the job ends should it fail.
    std::optional<Failure> record(const JobNodes& nodes, int next_round);
    // True if it is about what is wished for.
    bool learn(const RecordNews& news);

    // The job is over for all.
    void finish() { wish_.reset(); }
    // This one is no coordinator any more, or does not become one.
    SteppedDown stepping_down(const JobNodes& nodes, bool has_run, const std::string& reason) const;
    // The job is elsewhere, or another group of its nodes. True if that is no news.
    bool note_moved(const JobMoved& moved) { return std::exchange(moved_, moved).has_value(); }
    const JobMoved& moved() const { return *moved_; }
    // The clock has jumped: nobody has had this time.
    void postpone(std::chrono::steady_clock::duration jump);
    bool awaits_notice() const { return lost_to_all_.has_value(); }

  private:
    // A vote is what an agent has said to being asked to follow.
    struct Vote {
        int asked_epoch = 0;  // the last that it was asked for
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
    std::set<int> dead_;  // of those, during an election
    std::map<ConnectionId, Vote> votes_;
    TimePoint election_end_;
    std::optional<TimePoint> lost_to_all_;  // by then all have noticed that they have no coordinator
    bool was_decided_ = false;
    Quorum quorum_;                   // of the last round
    std::optional<Quorum> previous_;  // of the one before, until a quorum of it has heard of the last one
    std::optional<Failure> minority_cause_;
    std::optional<TimePoint> own_end_;
    bool own_suspended_ = false;
    std::optional<RecordWish> wish_;
    std::optional<RoundRecord> recorded_;  // the newest that is known to be
    bool lost_silently_ = false;           // a member of the last round that is not known to be dead
    std::optional<JobMoved> moved_;
};

}  // namespace job
}  // namespace ddprun
