#include "collectives/wire/redial.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "rendezvous/system/machine.hpp"

namespace ddprun::inline detail {

std::optional<std::chrono::milliseconds> Redial::pause_after(int error_number, bool within_machine) {
    const bool was_closed = error_number == 0 || error_number == ECONNRESET || error_number == EPIPE;
    const bool is_crowded = within_machine && error_number == ETIMEDOUT;
    if (!was_closed && !is_crowded) return std::nullopt;
    if (is_crowded) patience_ = std::min(patience_ * 2, kLongestPatience);
    if (!std::exchange(has_called_, true)) return std::chrono::milliseconds(0);
    // Ranks that were closed together do not come back together.
    if (!chance_) chance_.emplace(random_number<std::uint32_t>("pauses"));
    std::uniform_int_distribution<std::chrono::milliseconds::rep> jitter(pause_.count() / 2,
                                                                         pause_.count() * 3 / 2);
    pause_ = std::min(pause_ * 2, kLongestRedialPause);
    return std::chrono::milliseconds(jitter(*chance_));
}

}  // namespace ddprun::inline detail
