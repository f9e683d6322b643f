// ProgressClock says how long a job has not got on, and when that is too long. Pure: times are arguments; the
// states and events are a table in the source.
//
//   state        meaning
//   starting     no sign of progress yet in this round: the first budget runs
//   going        there was one: the second budget runs, from the last one on
//   hung_early   told to hang before the first sign
//   hung         told to hang
//
// Signs are what signs_between() finds from one measure of a rank to the next. Never one of them: the CPU
// time of a rank (it may wait in a loop), its waking from a wait with a time limit, keepalives.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "rendezvous/base/deadline.hpp"
#include "rendezvous/codec/description.hpp"

namespace ddprun {
inline namespace launch {

enum class ProgressSign {
    output,         // a byte of it
    progress_file,  // the user's own word
    matched_line,   // likewise: a line that --progress is about
    call,           // a further call of a collective
    traffic,        // between ranks
    disk,           // of what a disk read or wrote
    file,           // read or written, through caches
    child,          // a new one
    busy_children,
    woken,  // from a wait without a time limit
};
BOOST_DESCRIBE_ENUM(ProgressSign, output, progress_file, matched_line, call, traffic, disk, file, child,
                    busy_children, woken)

// RankMeasure: counters of a rank, which only rise.
struct RankMeasure {
    std::uint64_t output_bytes = 0;
    std::uint64_t calls = 0;
    std::uint64_t traffic_bytes = 0;  // to and from other ranks
    std::uint64_t disk_bytes = 0;     // read_bytes and write_bytes
    std::uint64_t file_bytes = 0;     // rchar and wchar
    std::uint64_t read_bytes = 0;     // of these …
    std::uint64_t written_bytes = 0;  // … for OwnProgress
    std::uint64_t children = 0;       // so far
    std::chrono::milliseconds children_cpu{0};
    std::uint64_t switches = 0;        // voluntary ones, of the main thread
    bool waits_untimed = false;        // the main thread, at this moment, without a time limit
    std::chrono::milliseconds cpu{0};  // of the rank itself: no sign
};

// Returns the signs in the time between the measures. A counter that fell (another process) is none.
std::vector<ProgressSign> signs_between(const RankMeasure& before, const RankMeasure& after,
                                        std::chrono::milliseconds time);

struct HangBudgets {
    std::chrono::milliseconds going{0};
    std::chrono::milliseconds starting{0};
};

// Returns both; the first one is three times the second, at least 600 s, unless it was `asked` for.
HangBudgets hang_budgets(std::chrono::milliseconds going, std::optional<std::chrono::milliseconds> asked);

enum class ClockState { starting, going, hung_early, hung };
enum class ClockEvent {
    round_began,
    sign_seen,
    budget_spent,
    hang_judged,  // the verdict asked for by ClockAction::judge is one
};
enum class ClockAction {
    none,
    judge,     // look at all ranks; the answer is told by judged()
    tell,      // that the job hangs
    tell_over  // that it does not hang any more
};

class ProgressClock {
  public:
    explicit ProgressClock(const HangBudgets& budgets) : budgets_(budgets) {}

    // begin(): a round's workers start.
    ClockAction begin(Deadline now);
    ClockAction hear(ProgressSign sign, Deadline now);
    // Says what a look at the clock leads to; asked again after due().
    ClockAction look(Deadline now);
    ClockAction judged(bool is_hang);
    // Lets a time not count in which the job stood still with its launcher.
    void skip(Deadline::duration time) { since_ += time; }

    ClockState state() const { return state_; }
    bool has_progressed() const { return last_sign_.has_value(); }  // in this round
    std::optional<ProgressSign> last_sign() const { return last_sign_; }
    // Returns the time since the last sign, or since the round began.
    std::chrono::milliseconds age(Deadline now) const;
    // Returns when the budget that runs is spent.
    Deadline due() const { return since_ + budget(); }
    std::chrono::milliseconds budget() const;

  private:
    ClockAction handle(ClockEvent event);

    HangBudgets budgets_;
    ClockState state_ = ClockState::starting;
    Deadline since_{};
    std::optional<ProgressSign> last_sign_;
};

}  // namespace launch
}  // namespace ddprun
