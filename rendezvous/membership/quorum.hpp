// Quorum: whether those of a round's members who are together may go on without the others. Pure; asked by the
// Coordinator, of the round that runs and of one that it takes over.
//
// May go on: a strict majority of the members; of an even split the half that has the first of them, which is the one
// that hosts the coordinator. Members who are known to be dead, or to have left, are no members any more. So of two
// halves that cannot see each other at most one goes on, whatever either knows of the dead.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

namespace ddprun::inline job {

struct Attendance {
    std::size_t living = 0;  // members of which nobody knows that they are dead
    std::size_t present = 0;
    bool has_first = false;  // of the living
};

constexpr bool is_quorum(const Attendance& attendance) {
    const std::size_t twice = 2 * attendance.present;
    return twice > attendance.living || (twice == attendance.living && attendance.has_first);
}

// The members of one round, by any numbers that tell them apart, as they get lost.
class Quorum {
  public:
    using Id = std::uint64_t;

    Quorum() = default;
    // `first`, if it is present, decides an even split.
    Quorum(std::size_t living, std::set<Id> present, std::optional<Id> first)
        : living_(living), present_(std::move(present)), first_(first) {}

    // Whether those of its members for whom that is so are enough.
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

    // Whether so many of these are a quorum of it that have heard of its successor.
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

}  // namespace ddprun::inline job
