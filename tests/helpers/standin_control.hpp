// What tests ask of NCCL's stand-in, and tell it, beyond NCCL's functions; found by name, see
// nccl_fixture.hpp.
#pragma once

#include <array>
#include <cstddef>

#include "collectives/nccl/cuda_driver.hpp"

namespace ddprun {
namespace standin {

// With what a communicator was made.
struct Making {
    NcclConfig config;
    std::array<char, 64> algorithms{};  // NCCL_ALGO; empty: not set
};

}  // namespace standin
}  // namespace ddprun

extern "C" {

// The communicators that this process made so far, in their order: how many, and the first `capacity`.
std::size_t standin_makings(ddprun::standin::Making* makings, std::size_t capacity);
// How many of them have been neither destroyed nor aborted.
int standin_living();
// Calls that are stuck by init_stuck or finalize_stuck return.
void standin_let_go();
// Waits until none is living.
void standin_await_none_living();
// What the calling thread has asked the driver so far for the sake of operations: contexts, capture modes,
// streams and events.
int standin_driver_calls();
// Waits until so many more events have been asked for.
void standin_await_queries(int count);

}  // extern "C"
