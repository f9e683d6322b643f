// SharedBuffer: memory from Communicator::allocate(), which collectives use without copying it first. Public;
// standard library only.
//
// Where the ranks of a communicator are on one host, it is memory that all of them have mapped: an
// all_reduce whose input and output lie in buffers of the same allocation on every rank (each in one of its
// own; offsets may differ) reads the inputs and writes the results in place, which is several times as fast
// as with other memory. Anything else works as with other memory, and everywhere else it is other memory; so
// programs need not care.
//
// All of it begins as zeros, page by page. It belongs to this rank: the others touch it only in operations on
// it. It stays valid until the object ends, also if the communicator ends before; the pages go back when all
// ranks have let go of theirs. Movable, not copyable. A forked child sees the same memory as its parent, not
// a copy, where the ranks share it: it may read what no operation writes meanwhile, and end its object.
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
