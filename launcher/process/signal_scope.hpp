// SignalScope: how much of a worker's process group a signal is for (--signal-scope); signal_delivery.hpp has
// the rules.
#pragma once

#include <optional>
#include <string_view>

#include "rendezvous/codec/description.hpp"

namespace ddprun {
inline namespace launch {

enum class SignalScope {
    automatic,  // the worker, and the processes below to which it leaves the signal
    leader,     // the worker itself
    group,      // every process of its process group
    leftovers,  // what an ended worker has left, as with `automatic`, unless the last signal has reached it
    again,      // as `group`, without a worker that lost its handler since the last signal: it ends by itself
};
BOOST_DESCRIBE_ENUM(SignalScope, automatic, leader, group, leftovers, again)

// Reads `auto`, `leader` or `group`, the values of --signal-scope.
inline std::optional<SignalScope> parse_signal_scope(std::string_view text) {
    if (text == "auto") return SignalScope::automatic;
    if (text == "leader") return SignalScope::leader;
    if (text == "group") return SignalScope::group;
    return std::nullopt;
}

}  // namespace launch
}  // namespace ddprun
