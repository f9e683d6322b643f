// ShmPool: memory that a rank allocates for itself, and that the others of its host read and write where it
// lies.
//
// Each rank has one part of the mapping that the ranks of a communicator share, so an offset tells the others
// where a buffer is. Only its rank allocates there, and says nothing to the others. The pages of a block are
// brought in when it is allocated, so a lack of memory shows there and not as SIGBUS later. The system has
// them back when the block is given back. Blocks keep the mapping alive. Any thread; a forked child may only
// let go of blocks, and their pages stay the parent's.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "collectives/call/backend.hpp"
#include "rendezvous/system/own_process.hpp"
#include "rendezvous/system/shared_memory.hpp"

namespace ddprun {
inline namespace detail {

// FreeRanges: which ranges of `size` bytes are free, as sizes by their beginnings. No two of them touch.
// Pure.
class FreeRanges {
  public:
    explicit FreeRanges(std::size_t size) {
        if (size > 0) ranges_[0] = size;
    }

    // Takes `bytes`, more than none, from the first range that has so many, and returns where they begin;
    // nothing where none has.
    std::optional<std::size_t> take(std::size_t bytes) {
        const auto found =
            std::ranges::find_if(ranges_, [&](const auto& one) { return one.second >= bytes; });
        if (found == ranges_.end()) return std::nullopt;
        const auto [begin, size] = *found;
        ranges_.erase(found);
        if (size > bytes) ranges_[begin + bytes] = size - bytes;
        return begin;
    }

    void give_back(std::size_t begin, std::size_t bytes) {
        const auto place = ranges_.emplace(begin, bytes).first;
        const auto join = [&](auto first, auto second) {
            if (first->first + first->second != second->first) return first;
            first->second += second->second;
            ranges_.erase(second);
            return first;
        };
        if (const auto next = std::next(place); next != ranges_.end()) join(place, next);
        if (place != ranges_.begin()) join(std::prev(place), place);
    }

    const std::map<std::size_t, std::size_t>& ranges() const noexcept { return ranges_; }

  private:
    std::map<std::size_t, std::size_t> ranges_;
};

class ShmPool : public std::enable_shared_from_this<ShmPool> {
  public:
    // ShmPool is `size` bytes of the mapping at `begin`, whole pages of zeros.
    ShmPool(std::shared_ptr<const ShmMapping> mapping, std::byte* begin, std::size_t size,
            std::size_t page = page_size())
        : mapping_(std::move(mapping)), begin_(begin), size_(size), page_(page), free_(size) {}

    bool owns(const void* data, std::size_t bytes) const noexcept {
        const auto at = reinterpret_cast<std::uintptr_t>(data) - reinterpret_cast<std::uintptr_t>(begin_);
        return at < size_ && bytes <= size_ - at;
    }

    // Returns zeros; of no size where the pool has no room, or the system no memory.
    SharedMemory allocate(std::size_t bytes) {
        if (bytes == 0 || bytes > size_) return {};
        const std::size_t size = (bytes + page_ - 1) / page_ * page_;
        std::unique_lock lock(mutex_);
        const auto at = free_.take(size);
        lock.unlock();
        if (!at) return {};
        std::shared_ptr<std::byte> block(begin_ + *at, [pool = shared_from_this(), size](std::byte* memory) {
            pool->give_back(memory, size);
        });
        // Kernels before 5.14 do not know it; there a lack of memory shows when the pages are touched.
        if (::madvise(block.get(), size, MADV_POPULATE_WRITE) != 0 && errno != EINVAL) return {};
        return {std::move(block), bytes};
    }

  private:
    void give_back(std::byte* memory, std::size_t size) {
        if (this_process() != process_) return;
        // madvise() is refused for locked memory, among others.
        if (::madvise(memory, size, MADV_REMOVE) != 0) std::memset(memory, 0, size);
        const std::lock_guard lock(mutex_);
        free_.give_back(static_cast<std::size_t>(memory - begin_), size);
    }

    const ProcessNumber process_ = this_process();
    const std::shared_ptr<const ShmMapping> mapping_;
    std::byte* const begin_;
    const std::size_t size_;
    // page_: blocks are whole pages, since what the system takes back of one block must not be a part of
    // another.
    const std::size_t page_;
    std::mutex mutex_;
    FreeRanges free_;
};

}  // namespace detail
}  // namespace ddprun
