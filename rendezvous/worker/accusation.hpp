// Accusation is what a rank says of another rank that kept it from going on. Pure.
//
// The collectives word their errors by this file, and the coordinator reads them in a failed worker's last
// words, to name the culprit instead of the rank that complains.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ddprun {
inline namespace base {

// Charge is what a rank is accused of. The charges from `died` on ended the rank, or were the first sign of
// its end.
enum class Charge { does_not_answer, called_nothing, is_elsewhere, died, left, aborted };

// Returns how a sentence about the rank goes on: `does not answer`, `died`. Any text may follow in the
// sentence.
std::string_view phrase_of(Charge charge);

// Returns `rank 2 does not answer`.
std::string accuse(int rank, Charge charge);

// Returns the charge for a report, in which nothing follows: `has not come` instead of `is at`.
std::string_view report_of(Charge charge);

// Says whether the charge ended the rank, or was the first sign of its end.
bool is_about_end(Charge charge);

// kTimedOut stands before the time that a call had waited when its timeout was over.
inline constexpr std::string_view kTimedOut = "Timed out ";

// kOwnNumbers begins a sentence with ranks in other numbers than the launcher's; no rank is found in it.
inline constexpr std::string_view kOwnNumbers = "(ranks as numbered in this communicator) ";

// kWaitsIn stands between a rank and the call in which it waits, and goes on waiting; no rank is found in
// such a line.
inline constexpr std::string_view kWaitsIn = " waits in ";

struct Accusation {
    Charge charge = Charge::does_not_answer;
    int rank = 0;
    std::string sentence;  // the call and what is said, to the end of the line

    bool operator==(const Accusation&) const = default;
};

// Finds the rank that a line of text blames. The line has a call, `: `, perhaps how long it waited, and an
// accusation: `all_reduce(sum, 4 f32) as call 7: Timed out after 5 s (operation_timeout) rank 1 is at
// barrier() as call 6, rank 2 does not answer`. Of several ranks, the one that does not answer counts, else
// the first. Returns nothing where that rank may be a victim itself: it is at a send or recv, or elsewhere
// while it was to send or receive, or the line lists sides (`ranks 0,2 ...`).
std::optional<Accusation> find_accusation(std::string_view line);

}  // namespace base
}  // namespace ddprun
