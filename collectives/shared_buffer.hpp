// SharedBuffer: memory from Communicator::allocate(), which collectives use without copying it first. Public;
// standard library only.
//
// Where the ranks of a communicator are on one host, each has a pool of addresses, of which the others have
// mapped every one; a buffer is a part of its rank's. Nobody else takes part in making it or hears of its
// end, and the ranks' sizes may differ. Operations on what lies in it (more than what goes with the
// announcement, see collectives/README.md) save copies: the other ranks read the input where it lies; and an
// all_reduce or reduce whose inputs and outputs all do is one pass over them. It makes no other difference,
// also where only some ranks' memory does. On several hosts, over TCP, alone, or where the pool or the host's
// memory is used up, it is other memory; so programs need not care.
//
// All of it begins as zeros. It belongs to this rank: the others touch it only in operations on it. It stays
// valid until the object ends, also if the communicator ends before; then its pages go back, and the
// addresses are used for what is allocated next. Movable, not copyable; any thread may end it. A forked child
// sees the same memory as its parent, not a copy, where the ranks share it: it may read what no operation
// writes meanwhile, and end its object. After an operation has failed, a rank that is late may still write to
// its output.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "collectives/types.hpp"

#pragma GCC visibility push(default)
namespace ddprun {

// The memory as bytes. Aligned to a page.
class SharedMemory {
  public:
    SharedMemory() = default;
    // How backends make it: `memory` frees it.
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
