#include "rendezvous/link/port_walk.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>

namespace ddprun {
inline namespace job {

std::vector<std::uint16_t> PortWalk::ports() const {
    std::vector<std::uint16_t> ports;
    for (std::size_t i = 0; i < met_.size(); ++i) ports.push_back(static_cast<std::uint16_t>(first_ + i));
    return ports;
}

void PortWalk::pass_nobody(const std::string& cause) {
    met_[next_].clear();
    cause_ = cause;
    pass();
}

void PortWalk::pass_stranger(const std::string& what) {
    met_[next_] = what;
    pass();
}

void PortWalk::pass() {
    next_ = (next_ + 1) % met_.size();
    if (next_ == 0) pause_ = pause_.count() == 0 ? kFirstPause : std::min(2 * pause_, kLongestPause);
}

std::chrono::milliseconds PortWalk::pause() const {
    return has_ended_round() ? pause_ : std::chrono::milliseconds(0);
}

std::string PortWalk::text() const {
    std::string text;
    std::size_t strangers = 0;
    for (std::size_t i = 0; i < met_.size(); ++i) {
        if (met_[i].empty()) continue;
        text += fmt::format("{}port {} {}", strangers++ == 0 ? "" : "; ", first_ + i, met_[i]);
    }
    if (strangers == met_.size()) return text;
    if (strangers > 0)
        return fmt::format("{}; nobody else from {} to {}", text, first_, first_ + met_.size() - 1);
    return fmt::format("{}; nor is the job at any other port from {} to {}", cause_, first_,
                       first_ + met_.size() - 1);
}

}  // namespace job
}  // namespace ddprun
