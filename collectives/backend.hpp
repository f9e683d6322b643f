// Backend: one way to carry out the operations of a communicator: alone, over TCP, in shared memory; later by
// NCCL.
//
// Driven by Communicator, which has checked every argument: known enumerators, ranks in range, aligned and
// non-null pointers (where count > 0), buffers that overlap not at all or exactly as documented there. One
// thread at a time, but abort() from any. Throws CollectiveError. The destructor leaves in order and never
// throws.
#pragma once

#include <cstddef>
#include <string>

#include "collectives/types.hpp"

namespace ddprun {

class Backend {
  public:
    Backend() = default;
    Backend(const Backend&) = delete;
    Backend& operator=(const Backend&) = delete;
    virtual ~Backend() = default;

    virtual void all_reduce(const void* in, void* out, std::size_t count, DataType type, ReduceOp op) = 0;
    virtual void broadcast(void* data, std::size_t count, DataType type, int root) = 0;
    virtual void all_gather(const void* in, void* out, std::size_t count, DataType type) = 0;
    virtual void reduce_scatter(const void* in, void* out, std::size_t count, DataType type, ReduceOp op) = 0;
    virtual void barrier() = 0;
    virtual void send(const void* data, std::size_t count, DataType type, int peer) = 0;
    virtual void recv(void* data, std::size_t count, DataType type, int peer) = 0;

    // `out` of reduce and gather, and `in` of scatter, count on the root only; elsewhere they may be
    // anything. `count` is elements of each rank's share. In place: `out` is `in` for reduce and all_to_all,
    // this rank's part of it for the others.
    virtual void reduce(const void* in, void* out, std::size_t count, DataType type, ReduceOp op,
                        int root) = 0;
    virtual void gather(const void* in, void* out, std::size_t count, DataType type, int root) = 0;
    virtual void scatter(const void* in, void* out, std::size_t count, DataType type, int root) = 0;
    virtual void all_to_all(const void* in, void* out, std::size_t count, DataType type) = 0;
    // all_gather of `bytes` bytes a rank, as the part of split() that goes over this communicator;
    // disagreement of the ranks names it so.
    virtual void exchange(const void* in, void* out, std::size_t bytes) = 0;

    virtual void abort(const std::string& reason) = 0;
    // True once the communicator has ended; its calls then only throw.
    virtual bool ended() const = 0;
};

}  // namespace ddprun
