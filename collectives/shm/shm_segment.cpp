#include "collectives/shm/shm_segment.hpp"

namespace ddprun::inline detail {
namespace {

ShmHeader header_of(const Membership& membership) {
    ShmHeader header;
    header.world_size = static_cast<std::uint32_t>(membership.world_size());
    header.round = membership.round;
    header.communicator = membership.communicator;
    header.nonce = membership.nonce;
    return header;
}

}  // namespace

std::optional<ShmSegment> ShmSegment::create(const Membership& membership) {
    const int ranks = membership.local_world_size();
    if (ranks > kShmMaxRanks) return std::nullopt;
    const ShmLayout layout(ranks);
    auto mapping = ShmMapping::create(kShmName, layout.size());
    if (!mapping) return std::nullopt;
    ShmSegment segment(std::move(*mapping), layout, ranks);
    segment.at<ShmHeader>(0) = header_of(membership);
    return segment;
}

std::optional<ShmSegment> ShmSegment::open(const ShmOffer& offer, const Membership& membership) {
    const int ranks = membership.local_world_size();
    if (ranks > kShmMaxRanks) return std::nullopt;
    const ShmLayout layout(ranks);
    auto mapping = ShmMapping::open(offer, layout.size());
    if (!mapping) return std::nullopt;
    ShmSegment segment(std::move(*mapping), layout, ranks);
    if (segment.at<ShmHeader>(0) != header_of(membership)) return std::nullopt;
    return segment;
}

}  // namespace ddprun::inline detail
