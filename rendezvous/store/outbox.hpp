// Outbox holds the replies that one connection has still to take, in their order: short texts of its own, and long values by
// reference. StoreState fills it, the sender empties it; on the store's thread.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace ddprun::inline base {

// StoredValue is a value that the store and any number of replies under way hold together, so that a reply costs no copy of
// it. What nobody but replies holds any more is an orphan, and counted as such until the last of them is sent. Whoever holds
// the only reference may change the text.
class StoredValue {
  public:
    explicit StoredValue(std::string_view bytes) : text(bytes) {}
    StoredValue(const StoredValue&) = delete;
    StoredValue& operator=(const StoredValue&) = delete;
    ~StoredValue() {
        if (orphans_) *orphans_ -= text.size();
    }

    // The store has dropped it; until it is gone its bytes are part of this sum.
    void orphan(std::shared_ptr<std::size_t> orphans) {
        orphans_ = std::move(orphans);
        *orphans_ += text.size();
    }

    std::string text;

  private:
    std::shared_ptr<std::size_t> orphans_;
};

using SharedValue = std::shared_ptr<const StoredValue>;

class Outbox {
  public:
    // Shorter values are copied: a reference costs more than that.
    static constexpr std::size_t kSharedFrom = std::size_t{4} << 10;

    // Replies are appended to it; it is valid until the next call of another function.
    std::string& text() { return text_; }
    // Puts the value as put_string() does.
    void put_value(const SharedValue& value);

    // Counts the bytes that are not sent yet.
    std::size_t pending() const { return text_.size() - text_sent_ + shared_pending_; }
    // Counts its own memory, without the values that others hold, too.
    std::size_t capacity() const;

    // Gathers the next bytes to send, in at most as many pieces as there is room for, and no more than `most` bytes. Returns the
    // number of pieces. They are valid until the next call of another function.
    std::size_t gather(std::span<iovec> pieces, std::size_t most) const;
    // Notes that so many bytes of these were sent.
    void consume(std::size_t count);

    // Drops everything, and gives memory beyond a small rest back.
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
