#include "collectives/shm/shm_area.hpp"

#include <sys/mman.h>

#include <limits>

#include "collectives/shm/shm_layout.hpp"

namespace ddprun::inline detail {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

std::size_t ShmArea::size_for(int ranks, std::size_t bytes) {
    const auto count = static_cast<std::size_t>(ranks);
    if (bytes > std::numeric_limits<std::size_t>::max() / count - kShmPage) return 0;
    return (bytes + kShmPage - 1) / kShmPage * kShmPage * count;
}

ShmArea::ShmArea(ShmMapping mapping, int ranks, std::size_t bytes)
    : mapping_(std::move(mapping)), part_size_(size_for(ranks, bytes) / static_cast<std::size_t>(ranks)) {
    // Only a wish: fewer faults and less to look up where the system has such pages.
    if (part_size_ >= kHugePage)
        static_cast<void>(::madvise(mapping_.base(), size_for(ranks, bytes), MADV_HUGEPAGE));
}

void ShmAreas::add(const std::shared_ptr<const ShmArea>& area) {
    std::erase_if(held_, [](const Held& held) { return held.area.expired(); });
    held_.push_back({++last_, area});
}

ShmAreas::Place ShmAreas::find(const void* data, std::size_t bytes) const {
    const auto first = reinterpret_cast<std::uintptr_t>(data);
    for (const Held& held : held_) {
        std::shared_ptr<const ShmArea> area = held.area.lock();
        if (!area) continue;
        const auto begin = reinterpret_cast<std::uintptr_t>(area->part(rank_));
        if (first < begin || first - begin > area->part_size()) continue;
        if (bytes <= area->part_size() - (first - begin))
            return {held.number, first - begin, std::move(area)};
    }
    return {};
}

}  // namespace ddprun::inline detail
