// SharedBuffer: memory from Communicator::allocate(), which collectives use without copying it first. Public;
// standard library only.
//
// Where the ranks of a communicator are on one host, each has a pool of addresses that the other ranks have
// mapped as a whole. A buffer is a part of its rank's pool. No other rank takes part when a buffer is made or
// freed, and the ranks' sizes may differ. Operations on memory in a pool save copies (above the size that
// goes with the announcement, see collectives/README.md): the other ranks read the input where it lies. An
// all_reduce or reduce with all inputs and outputs in pools is one pass over them. Results do not depend on
// where memory lies, also where only some ranks' is in a pool. On several hosts, over TCP, for a single rank,
// or where the pool or the host's memory is used up, a buffer is ordinary memory, so programs need not care.
//
// A buffer begins as zeros. The memory belongs to this rank: other ranks touch it only in operations on it.
// After a failed operation a rank that is late may still write to its output. The memory stays valid until
// the object ends, also if the communicator ends before; then its pages go back, and its addresses are used
// for what is allocated next. Movable, not copyable; any thread may end the object. Where the ranks share the
// memory, a forked child sees the parent's memory itself, not a copy. The child may read what no operation
// writes meanwhile, and end its object.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "collectives/types.hpp"

#pragma GCC visibility push(default)
namespace ddprun {

// SharedMemory: the memory as bytes. Aligned to a page.
class SharedMemory {
  public:
    SharedMemory() = default;
    // Takes over memory that a backend has made: `memory` frees it.
    SharedMemory(std::shared_ptr<std::byte> memory, std::size_t size)
        : memory_(std::move(memory)), size_(size) {}
    SharedMemory(SharedMemory&& other) noexcept
        : memory_(std::move(other.memory_)), size_(std::exchange(other.size_, 0)) {}
    SharedMemory& operator=(SharedMemory&& other) noexcept {
        memory_ = std::move(other.memory_);
        size_ = std::exchange(other.size_, 0);
        return *this;
    }

    std::byte* data() const noexcept { return memory_.get(); }
    std::size_t size() const noexcept { return size_; }

  private:
    std::shared_ptr<std::byte> memory_;
    std::size_t size_ = 0;
};

template <Element T>
class SharedBuffer {
  public:
    SharedBuffer() = default;
    explicit SharedBuffer(SharedMemory memory) : memory_(std::move(memory)) {}

    T* data() const noexcept { return reinterpret_cast<T*>(memory_.data()); }
    std::size_t size() const noexcept { return memory_.size() / sizeof(T); }
    std::span<T> span() const noexcept { return {data(), size()}; }

  private:
    SharedMemory memory_;
};

}  // namespace ddprun
#pragma GCC visibility pop
