// How long to wait in a store, and whether that was in vain; for those who meet there.
#pragma once

#include <algorithm>
#include <boost/system/system_error.hpp>
#include <chrono>

#include "rendezvous/system/error.hpp"

namespace ddprun {

inline std::chrono::milliseconds rest_until(std::chrono::steady_clock::time_point deadline) {
    const auto rest =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    return std::max(rest, std::chrono::milliseconds(0));
}

inline bool is_timeout(const boost::system::system_error& error) {
    return error.code() == make_error_code(Errc::timed_out);
}

}  // namespace ddprun
