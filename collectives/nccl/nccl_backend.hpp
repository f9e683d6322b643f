// NcclBackend: collectives of buffers in device memory through NCCL, one rank for each device.
//
// The TCP backend's mesh stays beneath: its lifeline finds the dead, carries verdicts and abort(), and
// split()'s exchange goes over it. NCCL itself compares no calls and notices no deaths; NcclWatch does. What
// NCCL does not have is refused (band, bor, bxor).
//
// Each operation takes its place in a stream, and an event after it; run() waits for the event, start()
// returns a Work that does. A stream that is captured into a CUDA graph is refused. The graph would run the
// operation again and again without any call of this rank, so none of it could be counted, compared or given
// a deadline.
#pragma once

#include <chrono>
#include <memory>

#include "collectives/call/backend.hpp"
#include "collectives/nccl/nccl_comm.hpp"
#include "collectives/nccl/nccl_peers.hpp"

namespace ddprun {
inline namespace detail {

// kNcclCauseTimeout: how long the lifeline may take to name a dead peer, after NCCL has reported the death as
// an error of its own.
inline constexpr std::chrono::milliseconds kNcclCauseTimeout{1000};
constexpr bool may_be_a_death(NcclResult result) noexcept {
    return result == NcclResult::remote_error || result == NcclResult::system_error;
}

// Makes the backend over a `comm` that all ranks have made.
std::unique_ptr<Backend> make_nccl_backend(std::shared_ptr<const CudaPrimaryContext> context,
                                           std::shared_ptr<NcclComm> comm, std::unique_ptr<NcclPeers> peers);

}  // namespace detail
}  // namespace ddprun
