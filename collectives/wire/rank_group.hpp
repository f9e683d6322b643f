// RankGroup: some ranks of a communicator in an order of their own, for algorithms among them. Pure.
//
// How a communicator over several hosts is cut: the ranks of one host share memory; and the ranks that have
// the same place on their hosts, one on each, do the same part of the work between hosts. The latter needs
// the same number of ranks on every host.
#pragma once

#include <optional>
#include <vector>

#include "collectives/wire/membership.hpp"

namespace ddprun::inline detail {

struct RankGroup {
    std::vector<int> ranks;  // of the communicator
    int index = 0;           // this rank's place among them

    int size() const noexcept { return static_cast<int>(ranks.size()); }
    int at(int place) const noexcept { return ranks[static_cast<std::size_t>(place)]; }
    int right() const noexcept { return at((index + 1) % size()); }
    int left() const noexcept { return at((index + size() - 1) % size()); }

    bool operator==(const RankGroup&) const = default;
};

// The ranks of each host; hosts in the order of their first ranks.
std::vector<std::vector<int>> ranks_by_host(const Membership& membership);

RankGroup all_ranks(const Membership& membership);

// This rank's host: its ranks in their order.
RankGroup ranks_of_host(const Membership& membership);

// The ranks that have this rank's place on their hosts, ordered by the hosts' first ranks. Nothing if the
// hosts have different numbers of ranks; the same answer on every rank.
std::optional<RankGroup> ranks_across_hosts(const Membership& membership);

}  // namespace ddprun::inline detail
