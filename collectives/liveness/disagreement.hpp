// Disagreement: which ranks made which call, and who is to blame where they are not all the same. Pure.
//
// What most ranks did is taken for what the program meant: so a call too many of one rank is blamed on that
// rank, and not on one of those that never make it. Where no side has more ranks than each other, all that
// disagree are named.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/call/call.hpp"
#include "collectives/call/verdict.hpp"

namespace ddprun::inline detail {

// Ranks by what they did. A deed is the rest of a sentence that begins with one rank's name: `called
// barrier() as call 7`, `has made 6 calls and left`.
class Sides {
  public:
    struct Side {
        std::string deed;
        std::vector<int> ranks;
    };

    void add(int rank, const std::string& deed);

    std::size_t count() const noexcept { return sides_.size(); }
    // The side with more ranks than each other; null where there is none.
    const Side* largest() const;
    // All but those of `side`, ascending.
    std::vector<int> others(const Side& side) const;
    // All sides, the smallest first: `rank 1 called …, ranks 0, 2 have made 6 calls and left`.
    std::string text() const;

  private:
    std::vector<Side> sides_;
};

// As deeds.
std::string deed_of_call(const Call& call);
std::string deed_of_absence(std::uint64_t calls_made);
std::string deed_of_leaving(std::uint64_t calls_made);

// That two ranks called different things at the same place in the order of their calls.
Verdict mismatch_verdict(int rank, const Call& call, int peer, const Call& theirs);

// Where a rank stands towards the collective of some number.
struct Stand {
    Call call;                                // what it made as that call; `none` while it has made none
    std::optional<Call> last;                 // the last call it told of; nothing if it has not answered
    std::optional<std::uint64_t> left_after;  // it has left after so many calls
};

// Who is to blame for the ranks not all making the same call of number `sequence`; `stands` by rank. Nothing
// where they do, as far as is known; and nothing until enough ranks have made the call or left to tell what
// most of them do, unless `at_once`. The code is peer_left where those are to blame that have left.
std::optional<Verdict> judge_disagreement(const std::vector<Stand>& stands, std::uint64_t sequence,
                                          bool at_once);

}  // namespace ddprun::inline detail
