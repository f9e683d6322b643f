#include "launcher/times/limit_timer.hpp"

#include <utility>

#include "launcher/wall_clock.hpp"

namespace ddprun::inline launch {
namespace {

Moment now() { return {std::chrono::steady_clock::now(), unix_time_now_ms()}; }

}  // namespace

LimitTimer::LimitTimer(const boost::asio::any_io_executor& executor, TimeLimit limit, LimitEvents events)
    : limit_(std::move(limit)), events_(std::move(events)), steady_(executor) {
    if (limit_.needs_wall_clock()) wall_.emplace(executor, [this] { look(); });
}

void LimitTimer::round_begins() {
    limit_.round_begins(now());
    look();
}

void LimitTimer::arm() {
    const TimeLimit::Wakeups wakeups = limit_.next();
    if (wall_) wall_->set(wakeups.unix_ms);
    steady_.cancel();
    if (!wakeups.steady) return;
    steady_.expires_at(*wakeups.steady);
    steady_.async_wait(alive_.guard([this](const boost::system::error_code& cancelled) {
        if (!cancelled) look();
    }));
}

void LimitTimer::look() {
    const Moment moment = now();
    const TimeLimit::Due due = limit_.take(moment);
    arm();
    if (due.end) return events_.on_end(limit_.end_text());
    if (due.warning) events_.on_warning(limit_.warn_signal(), limit_.warning_text(moment));
}

}  // namespace ddprun::inline launch
