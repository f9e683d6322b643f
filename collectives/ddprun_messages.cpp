// Messages by tag for C.
#include <algorithm>
#include <chrono>

#include "collectives/c_calls.hpp"
#include "collectives/communicator.hpp"
#include "collectives/ddprun_collectives.h"

namespace ddprun {
namespace {

// Beyond ten years the clock could overflow; all below 0 is one.
std::chrono::milliseconds message_timeout(int64_t timeout_ms) {
    constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 3650);
    return std::clamp(std::chrono::milliseconds(timeout_ms), std::chrono::milliseconds(-1), kLongest);
}

}  // namespace
}  // namespace ddprun

using namespace ddprun;

int ddprun_send_tagged(ddprun_communicator* comm, const void* data, size_t bytes, int peer, uint64_t tag,
                       int64_t timeout_ms) {
    return guarded([&] { checked(comm).send_tagged(data, bytes, peer, tag, message_timeout(timeout_ms)); });
}

int ddprun_recv_tagged(ddprun_communicator* comm, void* data, size_t bytes, int peer, uint64_t tag,
                       int64_t timeout_ms, int* source) {
    return guarded([&] {
        const int from = checked(comm).recv_tagged(data, bytes, peer, tag, message_timeout(timeout_ms));
        if (source != nullptr) *source = from;
    });
}

int ddprun_start_send_tagged(ddprun_communicator* comm, const void* data, size_t bytes, int peer,
                             uint64_t tag, int64_t timeout_ms, ddprun_work** work) {
    return make_handle(work, [&] {
        return checked(comm).start_send_tagged(data, bytes, peer, tag, message_timeout(timeout_ms));
    });
}

int ddprun_start_recv_tagged(ddprun_communicator* comm, void* data, size_t bytes, int peer, uint64_t tag,
                             int64_t timeout_ms, ddprun_work** work) {
    return make_handle(work, [&] {
        return checked(comm).start_recv_tagged(data, bytes, peer, tag, message_timeout(timeout_ms));
    });
}

int ddprun_work_source(const ddprun_work* work) { return work == nullptr ? -1 : work->work.source(); }
