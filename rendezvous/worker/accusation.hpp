// An Accusation is what a rank says of another that kept it from going on. Pure.
//
// The collectives word their errors by this file, and the coordinator reads them in a failed worker's last
// words, to name the culprit in place of who complains of it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ddprun {
inline namespace base {

// Charges from `died` on ended the rank, or were its end's first sign.
enum class Charge { does_not_answer, called_nothing, is_elsewhere, died, left, aborted };

// Returns `does not answer`, `died`: how a sentence about a rank goes on. What follows that in the sentence
// is free.
std::string_view phrase_of(Charge charge);

// Returns `rank 2 does not answer`.
std::string accuse(int rank, Charge charge);

// Returns the same for a report, where nothing follows: `has not come` for `is at`.
std::string_view report_of(Charge charge);

// True if what the rank is accused of ended it, or was its end's first sign.
bool is_about_end(Charge charge);

// It stands before how long a call waited whose time is over.
inline constexpr std::string_view kTimedOut = "Timed out ";

// It stands at the beginning of a sentence whose ranks have other numbers than the launcher gave them: nobody
// is found in it.
inline constexpr std::string_view kOwnNumbers = "(ranks as numbered in this communicator) ";

// It stands between a rank and the call in which it waits, and goes on waiting: nobody is found in such a
// line.
inline constexpr std::string_view kWaitsIn = " waits in ";

struct Accusation {
    Charge charge = Charge::does_not_answer;
    int rank = 0;
    std::string sentence;  // the call and what is said, to the end of the line

    bool operator==(const Accusation&) const = default;
};

// Finds the rank that a line of text blames: it holds a call, `: `, perhaps how long it waited, and an
// accusation, as in `all_reduce(sum, 4 f32) as call 7: Timed out after 5 s (operation_timeout) rank 1 is at
// barrier() as call 6, rank 2 does not answer`. Of several ranks the one that does not answer, else the
// first. Nobody where that may be a victim itself: one that is at a send or recv, or elsewhere while it was
// to send or receive, or a list that tells what sides there are (`ranks 0,2 ...`).
std::optional<Accusation> find_accusation(std::string_view line);

}  // namespace base
}  // namespace ddprun
