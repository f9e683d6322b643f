#include "collectives/session/departure.hpp"

#include "rendezvous/base/error.hpp"

namespace ddprun {
inline namespace detail {

bool Departure::wait_for_others(std::chrono::milliseconds timeout) {
    std::vector<int> others;
    for (int i = 0; i < world_size_; ++i) {
        if (i != rank_) others.push_back(i);
    }
    return wait_for(others, timeout);
}

bool Departure::wait_for(const std::vector<int>& ranks, std::chrono::milliseconds timeout) {
    std::vector<std::string> keys;
    for (const int rank : ranks) keys.push_back(key(rank));
    if (keys.empty()) return true;
    try {
        store_.wait(keys, timeout);
    } catch (const boost::system::system_error& error) {
        if (error.code() != make_error_code(Errc::timed_out)) throw;
        return false;
    }
    return true;
}

}  // namespace detail
}  // namespace ddprun
