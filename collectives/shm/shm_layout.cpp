#include "collectives/shm/shm_layout.hpp"

#include <algorithm>

namespace ddprun::inline detail {
namespace {

std::size_t page_up(std::size_t bytes) { return (bytes + kShmPage - 1) / kShmPage * kShmPage; }

}  // namespace

ShmLayout::ShmLayout(int world_size) {
    const auto ranks = static_cast<std::size_t>(world_size);
    const std::size_t share = kShmMaxStages / (ranks * kShmStages) / kShmPage * kShmPage;
    slot_payload_ = std::min(kShmSlotsTogether / ranks, kShmLargestSlot);
    slot_size_ = page_up(slot_payload_);
    stage_size_ = std::clamp(share, kShmPage, kShmLargestStage);
    slots_ = page_up(kShmLine * (1 + ranks * kShmLinesPerRank));
    stages_ = page_up(slots_ + ranks * 2 * slot_size_);
    end_ = stages_ + ranks * kShmStages * stage_size_;
    size_ = page_up(end_ + sizeof(ShmEnd) + ranks * sizeof(ShmLife));
}

}  // namespace ddprun::inline detail
