// StorePipe: a client of the store whose bytes come and go by something else than a socket of its own: one of many that share
// an agent's connection (see door/door_host.hpp).
//
// Implemented by who has that connection; called by StoreService on its thread, often in the middle of serving many
// clients: so it only notes what it is told, and calls nothing of StoreService's in return.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <span>

namespace ddprun::inline base {

class StorePipe {
  public:
    StorePipe() = default;
    StorePipe(const StorePipe&) = delete;
    StorePipe& operator=(const StorePipe&) = delete;
    virtual ~StorePipe() = default;

    // Takes of these bytes as many as there is room for, and says how many. If not all: StoreService::resume() when there
    // is room again.
    virtual std::size_t take(std::span<const iovec> pieces) = 0;
    // So many bytes that were fed hold nobody up any more: as many may be fed again.
    virtual void served(std::size_t bytes) = 0;
    // The store has ended the conversation, behind what it had taken. The last call.
    virtual void ended() = 0;
};

}  // namespace ddprun::inline base
