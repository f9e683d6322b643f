// Outbox: the replies that one connection has still to take, in their order: short texts of its own, and long values by
// reference. Filled by StoreState, emptied by who sends; on the store's thread.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <deque>
#include <span>
#include <string>

#include "rendezvous/store/shared_value.hpp"

namespace ddprun::inline base {

class Outbox {
  public:
    // Shorter values are copied: a reference costs more than that.
    static constexpr std::size_t kSharedFrom = std::size_t{4} << 10;

    // Replies are appended to it; it is valid until the next call of another function.
    std::string& text() { return text_; }
    // The value as put_string() has it.
    void put_value(const SharedValue& value);

    // Bytes that are not sent yet.
    std::size_t pending() const { return text_.size() - text_sent_ + shared_pending_; }
    // Memory of its own, without the values that others hold, too.
    std::size_t capacity() const;

    // The next bytes to send, in at most as many pieces as there is room for, and no more than `most` bytes. Returns the
    // number of pieces. They are valid until the next call of another function.
    std::size_t gather(std::span<iovec> pieces, std::size_t most) const;
    // So many bytes of these were sent.
    void consume(std::size_t count);

    // Everything is dropped, and memory beyond a small rest given back.
    void clear();

  private:
    struct Reference {
        std::size_t after;  // it comes when so much of text_ is sent
        SharedValue value;
    };

    void compact();

    std::string text_;
    std::size_t text_sent_ = 0;
    std::deque<Reference> references_;
    std::size_t first_sent_ = 0;      // of the first reference's value
    std::size_t shared_pending_ = 0;  // of all references
};

}  // namespace ddprun::inline base
