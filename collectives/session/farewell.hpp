// Farewell: how the ranks of a communicator tell whoever hosts their store that they need it no more.
//
// Keys: `<prefix>gone/<rank>`. Borrows the store; the store's own errors come through.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "rendezvous/store/store.hpp"

namespace ddprun {

class Farewell {
  public:
    Farewell(Store& store, std::string prefix, int rank, int world_size)
        : store_(store), prefix_(std::move(prefix)), rank_(rank), world_size_(world_size) {}

    void say_gone();
    // Waits until these, or all others, have said so; `patience` at most. False when they have not.
    bool wait_for(const std::vector<int>& ranks, std::chrono::milliseconds patience);
    bool wait_for_others(std::chrono::milliseconds patience);

  private:
    std::string key(int rank) const { return prefix_ + "gone/" + std::to_string(rank); }

    Store& store_;
    std::string prefix_;
    int rank_;
    int world_size_;
};

}  // namespace ddprun
