#include "rendezvous/store/outbox.hpp"

#include <algorithm>

#include "rendezvous/store/wire.hpp"

namespace ddprun {
inline namespace base {
namespace {

// An empty outbox keeps no more than this for the next replies.
constexpr std::size_t kKeptText = std::size_t{64} << 10;

}  // namespace

void Outbox::put_value(const SharedValue& value) {
    const std::string& bytes = value->text;
    if (bytes.size() < kSharedFrom) return put_string(text_, bytes);
    put_u64(text_, bytes.size());
    references_.push_back({text_.size(), value});
    shared_pending_ += bytes.size();
}

std::size_t Outbox::capacity() const { return text_.capacity() + references_.size() * sizeof(Reference); }

std::size_t Outbox::gather(std::span<iovec> pieces, std::size_t most) const {
    std::size_t count = 0;
    const auto add = [&](const std::string& bytes, std::size_t begin, std::size_t end) {
        const std::size_t size = std::min(end - begin, most);
        if (size == 0 || count == pieces.size()) return;
        // sendmsg() only reads what it is given by a pointer to non-const.
        pieces[count++] = {const_cast<char*>(bytes.data()) + begin, size};
        most -= size;
    };
    std::size_t text_begin = text_sent_;
    std::size_t value_begin = first_sent_;
    for (const Reference& reference : references_) {
        add(text_, text_begin, reference.after);
        add(reference.value->text, value_begin, reference.value->text.size());
        text_begin = reference.after;
        value_begin = 0;
        if (most == 0 || count == pieces.size()) return count;
    }
    add(text_, text_begin, text_.size());
    return count;
}

void Outbox::consume(std::size_t count) {
    while (count > 0) {
        const std::size_t text_end = references_.empty() ? text_.size() : references_.front().after;
        const std::size_t text = std::min(count, text_end - text_sent_);
        text_sent_ += text;
        count -= text;
        if (references_.empty() || count == 0) break;
        const std::size_t value = std::min(count, references_.front().value->text.size() - first_sent_);
        first_sent_ += value;
        shared_pending_ -= value;
        count -= value;
        if (first_sent_ < references_.front().value->text.size()) break;
        references_.pop_front();
        first_sent_ = 0;
    }
    if (pending() == 0) return clear();
    if (text_sent_ > kKeptText && text_sent_ > text_.size() / 2) compact();
}

void Outbox::clear() {
    text_.clear();
    text_sent_ = 0;
    references_.clear();
    first_sent_ = 0;
    shared_pending_ = 0;
    if (text_.capacity() > kKeptText) std::string().swap(text_);
}

void Outbox::compact() {
    text_.erase(0, text_sent_);
    for (Reference& reference : references_) reference.after -= text_sent_;
    text_sent_ = 0;
}

}  // namespace base
}  // namespace ddprun
