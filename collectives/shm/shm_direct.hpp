// ShmDirect: all_reduce of buffers that all ranks have mapped (shared_buffer.hpp): every rank reads its slice
// of all inputs and writes the result into all outputs. Two waits and no staging.
//
// A rank whose buffers lie in an area announces the call before it does anything, with a note that says
// where; so all ranks know from the same notes whether everybody can.
#pragma once

#include "collectives/shm/shm_area.hpp"
#include "collectives/shm/shm_channel.hpp"

namespace ddprun {

class ShmDirect {
  public:
    // Borrows all; areas as this rank found its buffers.
    ShmDirect(ShmChannel& channel, const ShmAreas::Place& in, const ShmAreas::Place& out)
        : channel_(channel), in_(in), out_(out) {}

    // Announces the open call and waits for all others' announcements. False: all ranks go through stages,
    // as in a call that is announced already.
    bool agree();
    // After agree(); count > 0 elements.
    void all_reduce(std::size_t count, DataType type, ReduceOp op);

  private:
    ShmChannel& channel_;
    const ShmAreas::Place& in_;
    const ShmAreas::Place& out_;
};

}  // namespace ddprun
