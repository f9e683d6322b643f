#include "collectives/shm/shm_segment.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "collectives/tcp/transfer.hpp"
#include "collectives/wire/membership.hpp"
#include "rendezvous/system/resource_limits.hpp"

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

namespace {

// Written by each rank for itself, because a launcher may have bound each to CPUs of its own. A rank with
// less time than its CPUs have tells of fewer; so all ranks count alike.
void write_cpus(cpu_set_t& set) {
    CPU_ZERO(&set);
    // More CPUs than fit: then every rank is taken to have all of them.
    if (::sched_getaffinity(0, sizeof(set), &set) != 0) std::memset(&set, 0xff, sizeof(set));
    int allowed = usable_cpus(CPU_SETSIZE, find_cpu_quota());
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(cpu, &set) && --allowed < 0) CPU_CLR(cpu, &set);
    }
}

}  // namespace

std::optional<ShmSegment> hand_over_segment(PeerMesh& mesh, bool wanted, const PeerMesh::Operation& joining) {
    const RankGroup ranks = ranks_of_host(mesh.membership());
    const auto first = static_cast<std::size_t>(ranks.at(0));
    std::optional<ShmSegment> segment;
    if (wanted && ranks.index == 0) segment = ShmSegment::create(mesh.membership());
    try {
        const auto offers = gather_over_mesh(mesh, segment ? segment->offer() : ShmOffer{}, joining);
        if (wanted && ranks.index != 0) segment = ShmSegment::open(offers[first], mesh.membership());
        if (segment) write_cpus(segment->cpus(ranks.index).set);
        const auto mapped = gather_over_mesh(mesh, static_cast<std::uint8_t>(segment.has_value()), joining);
        if (std::find(mapped.begin(), mapped.end(), std::uint8_t{0}) != mapped.end()) return std::nullopt;
    } catch (const LinkLost& lost) {
        mesh.fail_lost(lost, joining);
    }
    segment->close_offer();
    return segment;
}

}  // namespace ddprun::inline detail
