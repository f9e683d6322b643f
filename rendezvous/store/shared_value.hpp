// SharedValue: a value that the store and any number of replies under way hold together, so that a reply costs no copy
// of it. What nobody but replies holds any more is an orphan, and counted as such until the last of them is sent.
//
// Used on the store's thread only. Who holds the only reference may change the text.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

namespace ddprun::inline base {

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

}  // namespace ddprun::inline base
