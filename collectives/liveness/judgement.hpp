// judge_disagreement(), blame_for_deadline(): which ranks made which call, and which are to blame where the
// calls are not all the same. Pure.
//
// What most ranks did is taken for what the program meant. If one rank makes a call too many, that rank is
// blamed, not those that never make the call. Where no group of ranks is the largest, all that disagree are
// named.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/call/call.hpp"
#include "rendezvous/base/deadline.hpp"

namespace ddprun {
inline namespace detail {

// Says what a rank did that left after that many calls, as the rest of a sentence that begins with the rank's
// name.
std::string predicate_of_leaving(std::uint64_t calls_made);

// Says that two ranks called different things at the same place in the order of their calls.
Verdict mismatch_verdict(int rank, const Call& call, int peer, const Call& theirs);

// Stand says where a rank stands towards the collective of some number.
struct Stand {
    Call call;                 // what the rank made as that call; `none` while it has made none
    std::optional<Call> last;  // the last call that the rank told of; nothing if it has not answered
    std::optional<std::uint64_t> left_after;  // after how many calls the rank left; nothing if it has not
};

// Returns the blame where the ranks do not all make the same call of number `sequence`; `stands` by rank.
// Returns nothing where they do, as far as is known. Also returns nothing until enough ranks have made the
// call or left to show what most of them do, unless `at_once`. The code is peer_left where the culprits are
// ranks that have left.
std::optional<Verdict> judge_disagreement(const std::vector<Stand>& stands, std::uint64_t sequence,
                                          bool at_once);

// blame_for_deadline(): which ranks are to blame when a deadline passes. Pure.

// NamedTimeout: how long something may take, and the option that says so.
struct NamedTimeout {
    std::chrono::milliseconds length;
    std::string_view option;
};

// Returns which ranks kept `rank` from finishing `call` in time, judged from `progress`, the ranks' last
// calls (nothing for a rank that does not answer). Where ranks made another call of the same number, a
// mismatch blames those that did something else than most. Where most ranks are behind, those that made the
// call too many are blamed. Else the culprits are the ranks that have not come or do not answer; else the
// first rank of `awaited`, for which `rank` was waiting; else none. Send, recv and groups of them blame only
// ranks of `awaited`: those that are not in such a call themselves, else all of them.
Verdict blame_for_deadline(const std::vector<std::optional<Call>>& progress, const Call& call, int rank,
                           const std::vector<int>& awaited, const NamedTimeout& timeout);

// Returns a line without its end about a call that has taken `timeout` and goes on, from the same arguments.
// Returns nothing where a lower rank is in the same call, since that rank writes the line.
std::optional<std::string> notice_of_wait(const std::vector<std::optional<Call>>& progress, const Call& call,
                                          int rank, const std::vector<int>& awaited,
                                          const NamedTimeout& timeout);

// WaitSchedule: when a rank that waits in a call does something about it, long before the call's deadline.
// Pure.
//
// The rank asks the others whether they are in the same call (QuestionNotice) after half a second, and again
// after pauses that double up to half a minute. Once, if that is wanted, the rank gives notice of the ranks
// it waits for. The rank first inquires where they are and, when there was time to answer, writes the notice.
//
// Driven by PeerMesh.

inline constexpr std::chrono::milliseconds kFirstQuestion{500};
inline constexpr std::chrono::milliseconds kLongestPause{30'000};
// kAnswerTimeout: how long the other ranks have to say where they are.
inline constexpr std::chrono::milliseconds kAnswerTimeout{1000};

class WaitSchedule {
  public:
    using Clock = Deadline::clock;

    WaitSchedule() = default;
    // Makes the schedule of a call that began at `begin`. `notice_after` 0: no notice.
    WaitSchedule(Deadline begin, std::chrono::milliseconds notice_after)
        : question_(begin + kFirstQuestion),
          inquiry_(notice_after.count() > 0 ? begin + notice_after : kNever) {}

    // Returns when there is something to do next.
    Deadline next() const noexcept { return std::min({question_, inquiry_, notice_}); }

    // Tells whether a question is due at `now`; each question, inquiry and notice is told of once.
    bool takes_question(Deadline now) noexcept {
        if (now < question_) return false;
        ++round_;
        question_ = now + pause_;
        pause_ = std::min(2 * pause_, kLongestPause);
        return true;
    }
    bool takes_inquiry(Deadline now) noexcept {
        if (now < inquiry_) return false;
        inquiry_ = kNever;
        notice_ = now + kAnswerTimeout;
        return true;
    }
    bool takes_notice(Deadline now) noexcept {
        if (now < notice_) return false;
        notice_ = kNever;
        return true;
    }
    // Returns the number of the last question, from 1.
    std::uint32_t round() const noexcept { return round_; }

  private:
    static constexpr Deadline kNever = Deadline::max();

    Deadline question_ = kNever;
    Deadline inquiry_ = kNever;
    Deadline notice_ = kNever;
    std::chrono::milliseconds pause_ = kFirstQuestion;
    std::uint32_t round_ = 0;
};

}  // namespace detail
}  // namespace ddprun
