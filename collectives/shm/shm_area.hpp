// ShmArea: one allocation that all ranks of a communicator have mapped, a part for each. See
// shared_buffer.hpp.
#pragma once

#include <memory>
#include <vector>

#include "rendezvous/system/shm_mapping.hpp"

namespace ddprun::inline detail {

class ShmArea {
  public:
    // Bytes of the mapping for `ranks` parts of `bytes`, each a multiple of the page; 0 if there is no such
    // memory.
    static std::size_t size_for(int ranks, std::size_t bytes);

    ShmArea(ShmMapping mapping, int ranks, std::size_t bytes);

    std::byte* part(int rank) const noexcept {
        return mapping_.base() + static_cast<std::size_t>(rank) * part_size_;
    }
    std::size_t part_size() const noexcept { return part_size_; }

  private:
    ShmMapping mapping_;
    std::size_t part_size_;
};

// The areas of a communicator that this rank still holds. Numbers are the same on all ranks.
class ShmAreas {
  public:
    // Where a buffer lies. `number` 0: in none of them.
    struct Place {
        std::uint32_t number = 0;
        std::size_t offset = 0;  // in this rank's part
        std::shared_ptr<const ShmArea> area;
    };

    explicit ShmAreas(int rank) : rank_(rank) {}

    // Counts an allocation that came about, or one that did not.
    void add(const std::shared_ptr<const ShmArea>& area);
    void skip() { ++last_; }
    Place find(const void* data, std::size_t bytes) const;

  private:
    struct Held {
        std::uint32_t number;
        std::weak_ptr<const ShmArea> area;
    };

    int rank_;
    std::uint32_t last_ = 0;
    std::vector<Held> held_;
};

}  // namespace ddprun::inline detail
