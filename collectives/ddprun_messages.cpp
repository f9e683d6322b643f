// Messages by tag for C.
#include <chrono>

#include "collectives/c_calls.hpp"
#include "collectives/communicator.hpp"
#include "collectives/ddprun_collectives.h"

using namespace ddprun;

int ddprun_send_tagged(ddprun_communicator* comm, const void* data, size_t bytes, int peer, uint64_t tag,
                       int64_t timeout_ms) {
    return guarded(
        [&] { checked(comm).send_tagged(data, bytes, peer, tag, std::chrono::milliseconds(timeout_ms)); });
}

int ddprun_recv_tagged(ddprun_communicator* comm, void* data, size_t bytes, int peer, uint64_t tag,
                       int64_t timeout_ms, int* source) {
    return guarded([&] {
        const int from =
            checked(comm).recv_tagged(data, bytes, peer, tag, std::chrono::milliseconds(timeout_ms));
        if (source != nullptr) *source = from;
    });
}

int ddprun_start_send_tagged(ddprun_communicator* comm, const void* data, size_t bytes, int peer,
                             uint64_t tag, int64_t timeout_ms, ddprun_work** work) {
    return make_handle(work, [&] {
        return checked(comm).start_send_tagged(data, bytes, peer, tag, std::chrono::milliseconds(timeout_ms));
    });
}

int ddprun_start_recv_tagged(ddprun_communicator* comm, void* data, size_t bytes, int peer, uint64_t tag,
                             int64_t timeout_ms, ddprun_work** work) {
    return make_handle(work, [&] {
        return checked(comm).start_recv_tagged(data, bytes, peer, tag, std::chrono::milliseconds(timeout_ms));
    });
}

int ddprun_work_source(const ddprun_work* work) { return work == nullptr ? -1 : work->work.source(); }
