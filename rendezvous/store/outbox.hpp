// Outbox holds the replies that one connection has still to take, in their order: short texts of its own, and
// long values by reference. StoreState fills it, the sender empties it; on the store's thread.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace ddprun {
inline namespace base {

// StoredValue is a value that the store and any number of replies under way hold together, so that a reply
// costs no copy. A value that only replies hold is an orphan, and counted as such until the last of them is
// sent. The holder of the only reference may change the text.
class StoredValue {
  public:
    explicit StoredValue(std::string_view bytes) : text(bytes) {}
    StoredValue(const StoredValue&) = delete;
    StoredValue& operator=(const StoredValue&) = delete;
    ~StoredValue() {
        if (orphans_) *orphans_ -= text.size();
    }

    // Tells that the store has dropped the value; until the value is gone, its bytes are part of `orphans`.
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
    // kSharedFrom: the size from which values are held by reference. Shorter ones are copied, since a
    // reference costs more.
    static constexpr std::size_t kSharedFrom = std::size_t{4} << 10;

    // Returns the text to append replies to; valid until the next call of another function.
    std::string& text() { return text_; }
    // Appends the value in the form of put_string().
    void put_value(const SharedValue& value);

    // Counts the bytes that are not sent yet.
    std::size_t pending() const { return text_.size() - text_sent_ + shared_pending_; }
    // Counts its own memory, without values that are shared.
    std::size_t capacity() const;

    // Gathers the next bytes to send, in as many pieces as there is room for at most, and no more than `most`
    // bytes. Returns the number of pieces; they are valid until the next call of another function.
    std::size_t gather(std::span<iovec> pieces, std::size_t most) const;
    // Notes that this number of the gathered bytes was sent.
    void consume(std::size_t count);

    // Drops everything, and frees memory beyond a small rest.
    void clear();

  private:
    struct Reference {
        std::size_t after;  // the value follows when this much of text_ is sent
        SharedValue value;
    };

    void compact();

    std::string text_;
    std::size_t text_sent_ = 0;
    std::deque<Reference> references_;
    std::size_t first_sent_ = 0;      // of the first reference's value
    std::size_t shared_pending_ = 0;  // of all references
};

}  // namespace base
}  // namespace ddprun
