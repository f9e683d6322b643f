// average(), broadcast_state(), run_on_rank(): what data-parallel programs do around their training steps.
// Public; standard library only.
//
// All functions are called by all ranks of the communicator and throw CollectiveError as its operations do.
// All data is in host memory: a communicator of NCCL is an `invalid_argument`; next to such a communicator,
// make another of the backend `cpu`.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "collectives/communicator.hpp"

#pragma GCC visibility push(default)
namespace ddprun {

// Returns the mean over all ranks of `value`, weighted: for a loss, the weight is the number of this rank's
// samples. NaN if the weights add up to 0. Equal on all ranks.
double average(Communicator& communicator, double value, double weight = 1);
// Averages several metrics with one weight, in place.
void average(Communicator& communicator, std::span<double> values, double weight = 1);

// StatePart: a piece of memory that is part of a program's state.
struct StatePart {
    std::byte* data = nullptr;
    std::size_t bytes = 0;

    template <class T, std::size_t N>
    requires std::is_trivially_copyable_v<T> &&(!std::is_const_v<T>)StatePart(std::span<T, N> values)
        : data(reinterpret_cast<std::byte*>(values.data())), bytes(values.size_bytes()) {}
};

// Copies the root's parts to every rank's: parameters, optimizer state, counters, before the first step. All
// ranks give parts of the same sizes in the same order; other sizes are a `mismatch`. Small parts travel
// together.
void broadcast_state(Communicator& communicator, std::span<const StatePart> parts, int root = 0);

// ActionFailed: the action of run_on_rank() failed on its rank. Thrown on the other ranks, with the action's
// text.
class ActionFailed : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// Runs `action` on that rank only, while the other ranks wait, however long it takes: to download a data set,
// to write a checkpoint. If `action` throws, that rank gets its exception, and the other ranks an
// ActionFailed. The action must not use the communicator. A rank that dies meanwhile is named as always.
void run_on_rank(Communicator& communicator, int rank, const std::function<void()>& action);

}  // namespace ddprun
#pragma GCC visibility pop
