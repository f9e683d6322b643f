#include "launcher/verdict/progress_clock.hpp"

#include <algorithm>

#include "rendezvous/base/transition_table.hpp"

namespace ddprun {
inline namespace launch {
namespace {

struct ClockTable {
    using enum ClockState;
    using E = ClockEvent;
    using A = ClockAction;

    // clang-format off
    static constexpr Transition<ClockState, E, A> kRows[] = {
        {starting,   E::round_began,  A::none,      starting},
        {starting,   E::sign_seen,    A::none,      going},
        {starting,   E::budget_spent, A::judge,     starting},
        {starting,   E::hang_judged,  A::tell,      hung_early},

        {going,      E::round_began,  A::none,      starting},
        {going,      E::sign_seen,    A::none,      going},
        {going,      E::budget_spent, A::judge,     going},
        {going,      E::hang_judged,  A::tell,      hung},

        {hung_early, E::round_began,  A::tell_over, starting},
        {hung_early, E::sign_seen,    A::tell_over, going},
        {hung_early, E::budget_spent, A::none,      hung_early},
        {hung_early, E::hang_judged,  A::none,      hung_early},

        {hung,       E::round_began,  A::tell_over, starting},
        {hung,       E::sign_seen,    A::tell_over, going},
        {hung,       E::budget_spent, A::none,      hung},
        {hung,       E::hang_judged,  A::none,      hung},
    };
    // clang-format on
};
constexpr std::size_t kStates = static_cast<std::size_t>(ClockState::hung) + 1;
constexpr std::size_t kEvents = static_cast<std::size_t>(ClockEvent::hang_judged) + 1;
static_assert(is_complete<kStates, kEvents>(ClockTable::kRows));

struct RateRow {
    ProgressSign sign;
    std::uint64_t RankMeasure::*bytes;
    std::uint64_t above;  // in a second
};
// Keepalives and a time server's requests are below.
constexpr RateRow kRates[] = {
    {ProgressSign::traffic, &RankMeasure::traffic_bytes, 500},
    {ProgressSign::disk, &RankMeasure::disk_bytes, 64 * 1024},
    {ProgressSign::file, &RankMeasure::file_bytes, 256 * 1024},
};
constexpr int kBusyPercent = 3;

}  // namespace

std::vector<ProgressSign> signs_between(const RankMeasure& before, const RankMeasure& after,
                                        std::chrono::milliseconds time) {
    std::vector<ProgressSign> signs;
    const auto passed = static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 1));
    if (after.output_bytes > before.output_bytes) signs.push_back(ProgressSign::output);
    if (after.calls > before.calls) signs.push_back(ProgressSign::call);
    for (const RateRow& row : kRates) {
        const std::uint64_t first = before.*row.bytes, last = after.*row.bytes;
        if (last > first &&
            static_cast<double>(last - first) * 1000 > static_cast<double>(row.above * passed))
            signs.push_back(row.sign);
    }
    if (after.children > before.children) signs.push_back(ProgressSign::child);
    if ((after.children_cpu - before.children_cpu) * 100 > std::chrono::milliseconds(passed) * kBusyPercent)
        signs.push_back(ProgressSign::busy_children);
    if (before.waits_untimed && after.switches > before.switches) signs.push_back(ProgressSign::woken);
    return signs;
}

HangBudgets hang_budgets(std::chrono::milliseconds going, std::optional<std::chrono::milliseconds> asked) {
    constexpr std::chrono::milliseconds kLeast = std::chrono::seconds(600);
    return {going, asked.value_or(std::max(3 * going, kLeast))};
}

ClockAction ProgressClock::handle(ClockEvent event) {
    const auto& row = row_of<kEvents>(ClockTable::kRows, state_, event);
    state_ = row.next;
    return row.action;
}

ClockAction ProgressClock::begin(Deadline now) {
    since_ = now;
    last_sign_.reset();
    return handle(ClockEvent::round_began);
}

ClockAction ProgressClock::hear(ProgressSign sign, Deadline now) {
    since_ = std::max(since_, now);
    last_sign_ = sign;
    return handle(ClockEvent::sign_seen);
}

ClockAction ProgressClock::look(Deadline now) {
    return now < due() ? ClockAction::none : handle(ClockEvent::budget_spent);
}

ClockAction ProgressClock::judged(bool is_hang) {
    return is_hang ? handle(ClockEvent::hang_judged) : ClockAction::none;
}

std::chrono::milliseconds ProgressClock::age(Deadline now) const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
        std::max(now - since_, Deadline::duration(0)));
}

std::chrono::milliseconds ProgressClock::budget() const {
    return has_progressed() ? budgets_.going : budgets_.starting;
}

}  // namespace launch
}  // namespace ddprun
