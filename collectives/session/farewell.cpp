#include "collectives/session/farewell.hpp"

#include "rendezvous/system/error.hpp"

namespace ddprun {

void Farewell::say_gone() { store_.set(key(rank_), "1"); }

bool Farewell::wait_for_others(std::chrono::milliseconds patience) {
    std::vector<int> others;
    for (int i = 0; i < world_size_; ++i) {
        if (i != rank_) others.push_back(i);
    }
    return wait_for(others, patience);
}

bool Farewell::wait_for(const std::vector<int>& ranks, std::chrono::milliseconds patience) {
    std::vector<std::string> keys;
    for (const int rank : ranks) keys.push_back(key(rank));
    if (keys.empty()) return true;
    try {
        store_.wait(keys, patience);
    } catch (const boost::system::system_error& error) {
        if (error.code() != make_error_code(Errc::timed_out)) throw;
        return false;
    }
    return true;
}

}  // namespace ddprun
