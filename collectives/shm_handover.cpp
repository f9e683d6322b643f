#include "collectives/shm_handover.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "collectives/mesh_gather.hpp"

namespace ddprun {
namespace {

// Written by each rank for itself, because a launcher may have bound each to CPUs of its own.
void write_cpus(ShmCpus& cpus) {
    cpu_set_t set;
    CPU_ZERO(&set);
    static_assert(sizeof(set) == sizeof(cpus.words));
    // More CPUs than fit: then every rank is taken to have all of them.
    if (::sched_getaffinity(0, sizeof(set), &set) != 0) std::memset(&set, 0xff, sizeof(set));
    std::memcpy(cpus.words.data(), &set, sizeof(set));
}

}  // namespace

bool on_one_host(const Membership& membership) {
    return std::all_of(membership.members.begin(), membership.members.end(),
                       [&](const Member& member) { return member.host == membership.member(0).host; });
}

std::optional<ShmSegment> hand_over_segment(PeerMesh& mesh, bool wanted, const PeerMesh::Operation& joining) {
    std::optional<ShmSegment> segment;
    if (wanted && mesh.rank() == 0) segment = ShmSegment::create(mesh.membership());
    try {
        const auto offers = gather_over_mesh(mesh, segment ? segment->offer() : ShmOffer{}, joining);
        if (wanted && mesh.rank() != 0) segment = ShmSegment::open(offers[0], mesh.membership());
        if (segment) write_cpus(segment->cpus(mesh.rank()));
        const auto mapped = gather_over_mesh(mesh, static_cast<std::uint8_t>(segment.has_value()), joining);
        if (std::find(mapped.begin(), mapped.end(), std::uint8_t{0}) != mapped.end()) return std::nullopt;
    } catch (const LinkLost& lost) {
        mesh.fail_lost(lost, joining);
    }
    segment->close_offer();
    return segment;
}

}  // namespace ddprun
