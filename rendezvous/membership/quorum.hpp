// Quorum: whether the members of a round that are together may go on without the others. Pure; the
// Coordinator asks it about the round that runs and one that it takes over.
//
// A strict majority of the members may go on. In an even split the half with the first member, which hosts
// the coordinator, may go on. Members that are known to be dead, or to have left, do not count. Of two halves
// that cannot see each other at most one goes on, whatever either knows of the dead.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "rendezvous/membership/member_list.hpp"

namespace ddprun {
inline namespace job {

struct Attendance {
    std::size_t living = 0;  // members that are not known to be dead
    std::size_t present = 0;
    bool has_first = false;  // of the living
};

constexpr bool is_quorum(const Attendance& attendance) {
    const std::size_t twice = 2 * attendance.present;
    return twice > attendance.living || (twice == attendance.living && attendance.has_first);
}

// Quorum: the members of one round that are left as others get lost, by any numbers that tell them apart.
class Quorum {
  public:
    using Id = std::uint64_t;

    Quorum() = default;
    // Quorum of `living` members; `first`, if it is present, decides an even split.
    Quorum(std::size_t living, std::set<Id> present, std::optional<Id> first)
        : living_(living), present_(std::move(present)), first_(first) {}

    // Returns whether the members for which `is_so` holds are enough.
    template <typename Condition>
    bool holds_with(Condition is_so) const {
        const auto count = std::count_if(present_.begin(), present_.end(), is_so);
        return is_quorum({living_, static_cast<std::size_t>(count),
                          first_ && present_.contains(*first_) && is_so(*first_)});
    }

    void lose(Id member, bool is_dead) {
        if (present_.erase(member) > 0 && is_dead) --living_;
        heard_.erase(member);
    }
    bool holds() const { return has(present_); }

    std::size_t living() const { return living_; }
    std::size_t present() const { return present_.size(); }

    // Notes that a member has heard of the next round. has_heard() says whether the members that have heard
    // are a quorum.
    void hear(Id member) {
        if (present_.contains(member)) heard_.insert(member);
    }
    bool has_heard() const { return has(heard_); }

  private:
    // Says whether these members are a quorum; asked at each message of thousands.
    bool has(const std::set<Id>& members) const {
        return is_quorum({living_, members.size(), first_ && members.contains(*first_)});
    }

    std::size_t living_ = 0;
    std::set<Id> present_;
    std::optional<Id> first_;
    std::set<Id> heard_;
};

// RoundRecord: the newest round of a job of which a register outside the job (etcd) was told; it decides
// which agent may lead the job when its coordinator is lost. Pure.
//
// A round that leaves out a member of the last one, which may still live, does not begin before the round is
// recorded. Other rounds are recorded while they run. An agent that knows of no older round than the record
// has therefore not been left out.
struct RoundRecord {
    std::string job_id;
    int epoch = 0;
    int round = 0;
    std::string host;      // of the agent that has written the record: its machine, …
    std::int64_t pid = 0;  // … and its process

    std::pair<int, int> version() const { return {epoch, round}; }
    bool operator==(const RoundRecord&) const = default;
};
BOOST_DESCRIBE_STRUCT(RoundRecord, (), (job_id, epoch, round, host, pid))

// RecordWish: what a coordinator wants to be recorded.
struct RecordWish {
    RoundRecord record;
    // renew_until: until when the record may be begun anew where there is none, or one of another
    // coordinator. Nothing: never, because a member that was lost may lead the job by now.
    std::optional<std::chrono::steady_clock::time_point> renew_until;

    bool operator==(const RecordWish&) const = default;
};

// RecordNews: what has come of a RecordWish.
struct RecordNews {
    enum class Kind {
        recorded,
        trouble,  // not yet, for this cause
        refused,  // nor will it be, for this cause
    };
    Kind kind = Kind::recorded;
    RoundRecord record;
    std::string cause;
};

// Returns whether a member of the last round that an agent has taken part in may lead the job from there.
inline bool may_lead(const RoundRecord& record, const MemberList& last) {
    return record.job_id == last.job_id && record.version() <= last.version();
}

// Succession: how an agent finds the next coordinator when its own is lost. Pure; RendezvousLink carries the
// steps out.
//
// All members of a round know the same order: the host first, then by group rank. Each member calls at the
// first one that may be alive. A member that cannot be reached, or does not lead after all, is passed over.
// When it is the agent's own turn it hosts a coordinator itself, until that leads the job or gives up. In
// this way members that can see each other meet at the first of them. After the last one the search begins
// again, because others may notice the loss later.
class Succession {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    enum class Kind {
        call,   // at `member`
        host,   // begin a coordinator that would take over
        pause,  // and then ask for the next step
        end,    // no coordinator leads the job as far as this agent can see
    };
    struct Step {
        Kind kind = Kind::end;
        Member member;  // where to call; of `host` this agent itself
    };

    // kPause: between two turns through all members.
    static constexpr std::chrono::milliseconds kPause{500};
    // kSearchTime: how long an agent looks for a coordinator, beyond three times the time in which all notice
    // the loss.
    static constexpr std::chrono::seconds kSearchTime{10};

    // Succession begins with `own`, what the agent knows; its own rank says which member it is. The agent
    // hosts only where it is listed with a port.
    Succession(Following own, TimePoint lost_at);

    // Returns the first step, or the next one when the last has come to nothing.
    Step next(TimePoint now);

    // Notes that this member's agent is dead, or has left.
    void note_gone(int group_rank);

    // Returns whether the agent may follow a coordinator of this epoch; if so, it follows none of an older
    // one any more.
    bool promise(int epoch);

    const Following& own() const { return own_; }
    // Returns the time from which the next step is the end.
    TimePoint deadline() const { return deadline_; }

  private:
    bool is_candidate(const Member& member) const;

    Following own_;
    TimePoint deadline_;
    std::size_t place_ = 0;  // in the list, of the next one
};

}  // namespace job
}  // namespace ddprun
