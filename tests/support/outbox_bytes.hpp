// What an outbox holds, as the bytes that a socket would take.
#pragma once

#include <array>
#include <string>

#include "rendezvous/store/outbox.hpp"

namespace ddprun {

// In pieces of the size that is asked for, which empties it.
inline std::string take_all(Outbox& outbox, std::size_t piece = 1'000'000) {
    std::string bytes;
    std::array<iovec, 2> pieces;
    while (outbox.pending() > 0) {
        const std::size_t count = outbox.gather(pieces, piece);
        std::size_t sent = 0;
        for (std::size_t i = 0; i < count; ++i) {
            bytes.append(static_cast<const char*>(pieces[i].iov_base), pieces[i].iov_len);
            sent += pieces[i].iov_len;
        }
        outbox.consume(sent);
    }
    return bytes;
}

}  // namespace ddprun
