#include "collectives/shm/shm_layout.hpp"

#include <algorithm>

namespace ddprun {
namespace {

constexpr std::size_t kLinesPerRank = 7;  // two flags, two records, progress, bell, CPUs

std::size_t page_up(std::size_t bytes) { return (bytes + kShmPage - 1) / kShmPage * kShmPage; }

}  // namespace

ShmLayout::ShmLayout(int world_size) {
    const auto ranks = static_cast<std::size_t>(world_size);
    const std::size_t share = kShmMaxStages / (ranks * kShmStages) / kShmPage * kShmPage;
    slot_payload_ = std::min(kShmSlotsTogether / ranks, kShmLargestSlot);
    slot_size_ = page_up(slot_payload_);
    stage_size_ = std::clamp(share, kShmPage, kShmLargestStage);
    slots_ = page_up(kShmLine * (1 + ranks * kLinesPerRank));
    stages_ = page_up(slots_ + ranks * 2 * slot_size_);
    end_ = stages_ + ranks * kShmStages * stage_size_;
    size_ = page_up(end_ + sizeof(ShmEnd) + ranks * sizeof(ShmLife));
}

std::size_t ShmLayout::lines_of(int rank) const noexcept {
    return kShmLine * (1 + static_cast<std::size_t>(rank) * kLinesPerRank);
}

std::size_t ShmLayout::flag(int rank, int bank) const noexcept {
    return lines_of(rank) + static_cast<std::size_t>(bank) * kShmLine;
}

std::size_t ShmLayout::record(int rank, int bank) const noexcept {
    return lines_of(rank) + static_cast<std::size_t>(2 + bank) * kShmLine;
}

std::size_t ShmLayout::progress(int rank) const noexcept { return lines_of(rank) + 4 * kShmLine; }
std::size_t ShmLayout::bell(int rank) const noexcept { return lines_of(rank) + 5 * kShmLine; }
std::size_t ShmLayout::cpus(int rank) const noexcept { return lines_of(rank) + 6 * kShmLine; }

std::size_t ShmLayout::life(int rank) const noexcept {
    return end_ + sizeof(ShmEnd) + static_cast<std::size_t>(rank) * sizeof(ShmLife);
}

std::size_t ShmLayout::slot(int rank, int bank) const noexcept {
    return slots_ + static_cast<std::size_t>(rank * 2 + bank) * slot_size_;
}

std::size_t ShmLayout::stage(int rank, int buffer) const noexcept {
    return stages_ + static_cast<std::size_t>(rank * kShmStages + buffer) * stage_size_;
}

}  // namespace ddprun
