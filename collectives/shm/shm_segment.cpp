#include "collectives/shm/shm_segment.hpp"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "collectives/wire/membership.hpp"
#include "rendezvous/system/resource_limits.hpp"

namespace ddprun {
inline namespace detail {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

// All ranks together cannot use more than there is.
std::size_t pools_of_host() {
    const auto pages = static_cast<std::size_t>(std::max(0L, ::sysconf(_SC_PHYS_PAGES)));
    return std::min(kShmMaxPools, pages * page_size());
}

ShmHeader header_of(const Membership& membership) {
    ShmHeader header;
    header.world_size = static_cast<std::uint32_t>(membership.world_size());
    header.round = membership.round;
    header.communicator = membership.communicator;
    header.page = static_cast<std::uint32_t>(page_size());
    header.nonce = membership.nonce;
    return header;
}

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

ShmLayout::ShmLayout(int world_size, std::size_t mapped, std::size_t page) {
    const auto page_up = [&](std::size_t bytes) { return (bytes + page - 1) / page * page; };
    const auto ranks = static_cast<std::size_t>(world_size);
    const std::size_t share = kShmMaxStages / (ranks * kShmStages) / page * page;
    slot_payload_ = std::min(kShmSlotsTogether / ranks, kShmLargestSlot);
    slot_size_ = page_up(slot_payload_);
    stage_size_ = std::clamp(share, page, kShmLargestStage);
    slots_ = page_up(line(world_size, 0));
    stages_ = page_up(slots_ + ranks * 2 * slot_size_);
    end_ = stages_ + ranks * kShmStages * stage_size_;
    messages_ = page_up(end_ + sizeof(ShmEnd) + ranks * sizeof(ShmLife));
    size_ = (messages_ + MessageLayout(world_size).size() + kHugePage - 1) / kHugePage * kHugePage;
    pool_size_ = mapped > size_ ? (mapped - size_) / ranks / kHugePage * kHugePage : 0;
}

std::shared_ptr<ShmPool> ShmSegment::pool(int rank) const {
    if (layout_.pool_size() == 0) return nullptr;
    return std::make_shared<ShmPool>(mapping_, memory(layout_.pool(rank)), layout_.pool_size());
}

std::optional<ShmSegment> ShmSegment::map(const ShmOffer* offer, const Membership& membership) {
    const int ranks = ranks_of_host(membership).size();
    if (ranks > kShmMaxRanks) return std::nullopt;
    const std::size_t least = ShmLayout(ranks).size();
    const auto make = [&](std::size_t size) {
        return membership.sees_processes() ? ShmMapping::create(kShmName, size)
                                           : ShmMapping::create_by_number(size);
    };
    std::optional<ShmMapping> mapping;
    if (offer != nullptr) {
        mapping = ShmMapping::open(*offer, least);
    } else {
        if (ranks == membership.world_size()) mapping = make(least + pools_of_host());
        // The process may not have so many addresses, or a file so long (ulimit -v, -f).
        if (!mapping) mapping = make(least);
    }
    if (!mapping) return std::nullopt;
    ShmSegment segment(std::move(*mapping), ranks);
    if (const std::size_t pools = segment.layout_.pool_size() * static_cast<std::size_t>(ranks); pools > 0) {
        // Both are wishes: fewer faults where the system has such pages, and no core dump that looks at each
        // that is not there.
        static_cast<void>(::madvise(segment.memory(least), pools, MADV_HUGEPAGE));
        static_cast<void>(::madvise(segment.memory(least), pools, MADV_DONTDUMP));
    }
    ShmHeader& header = segment.at<ShmHeader>(0);
    if (offer == nullptr) header = header_of(membership);
    if (header != header_of(membership)) return std::nullopt;
    return segment;
}

std::atomic<int>& found_store_type() {
    // The processor's is the process's and no communicator's.
    static const std::reference_wrapper<std::atomic<int>> found(*new std::atomic<int>(0));
    return found.get();
}

std::optional<ShmSegment> hand_over_segment(const Membership& membership, bool wanted,
                                            const ShmGather& gather) {
    const RankGroup ranks = ranks_of_host(membership);
    std::optional<ShmSegment> segment;
    if (wanted && ranks.index == 0) segment = ShmSegment::create(membership);
    const auto offers = gather({segment ? segment->offer() : ShmOffer{}, 0});
    if (wanted && ranks.index != 0)
        segment = ShmSegment::open(offers[static_cast<std::size_t>(ranks.at(0))].offer, membership);
    if (segment) write_cpus(segment->cpus(ranks.index).set);
    const int pieces = !segment ? 0 : segment->layout().pool_size() == 0 ? 1 : 2;
    const auto words = gather({{}, pieces, found_store_type().load()});
    const int least = std::ranges::min(words, {}, &ShmWord::pieces).pieces;
    if (least <= 0) return std::nullopt;
    segment->all_measured = std::ranges::all_of(words, &ShmWord::measured);
    if (least == 1) segment->give_up_pools();
    segment->close_offer();
    return segment;
}

}  // namespace detail
}  // namespace ddprun
