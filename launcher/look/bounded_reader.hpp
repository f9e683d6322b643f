// BoundedReader hands reads on until there were too many of them: so whatever a process has in its memory,
// looking at it ends.
#pragma once

#include <cstddef>

#include "launcher/look/memory_reader.hpp"

namespace ddprun {
inline namespace launch {

class BoundedReader final : public MemoryReader {
  public:
    // kMaxReads, kMaxBytes: a process of 1,000 threads with full stacks needs less than that.
    static constexpr std::size_t kMaxReads = 200'000;
    static constexpr std::size_t kMaxBytes = 64 * 1024 * 1024;

    explicit BoundedReader(const MemoryReader& memory) : memory_(memory) {}

    bool read(std::uintptr_t address, std::span<std::byte> into) const override {
        if (is_exhausted() || into.size() > kMaxBytes - bytes_) return is_over_ = true, false;
        ++reads_;
        bytes_ += into.size();
        return memory_.read(address, into);
    }

    std::size_t reads() const { return reads_; }

    // Returns true once a read was refused: no other one is carried out.
    bool is_exhausted() const { return is_over_ || reads_ == kMaxReads; }

  private:
    const MemoryReader& memory_;
    mutable std::size_t reads_ = 0;
    mutable std::size_t bytes_ = 0;
    mutable bool is_over_ = false;
};

}  // namespace launch
}  // namespace ddprun
