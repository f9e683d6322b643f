// Departure: how the ranks of a communicator tell the rank that serves their store that they no longer need
// it. Borrows the store; the store's own errors come through.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/store/store.hpp"

namespace ddprun {
inline namespace detail {

class Departure {
  public:
    Departure(Store& store, std::string prefix, int rank, int world_size)
        : store_(store), prefix_(std::move(prefix)), rank_(rank), world_size_(world_size) {}

    void say_gone() { store_.set(key(rank_), "1"); }
    // Waits until `ranks`, or all others, have said that they no longer need the store; `timeout` at most.
    // False if some have not.
    bool wait_for(const std::vector<int>& ranks, std::chrono::milliseconds timeout);
    bool wait_for_others(std::chrono::milliseconds timeout);

  private:
    std::string key(int rank) const { return prefix_ + "gone/" + std::to_string(rank); }

    Store& store_;
    std::string prefix_;
    int rank_;
    int world_size_;
};

}  // namespace detail
}  // namespace ddprun
