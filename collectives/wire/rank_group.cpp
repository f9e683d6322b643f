#include "collectives/wire/rank_group.hpp"

#include <algorithm>
#include <numeric>

namespace ddprun::inline detail {
namespace {

RankGroup group_of(int rank, std::vector<int> ranks) {
    const auto place = std::find(ranks.begin(), ranks.end(), rank) - ranks.begin();
    return {std::move(ranks), static_cast<int>(place)};
}

}  // namespace

std::vector<std::vector<int>> ranks_by_host(const Membership& membership) {
    std::vector<std::vector<int>> hosts;
    for (int rank = 0; rank < membership.world_size(); ++rank) {
        const auto same_host = [&](const std::vector<int>& ranks) {
            return membership.member(ranks.front()).host == membership.member(rank).host;
        };
        const auto host = std::find_if(hosts.begin(), hosts.end(), same_host);
        host == hosts.end() ? hosts.push_back({rank}) : host->push_back(rank);
    }
    return hosts;
}

RankGroup all_ranks(const Membership& membership) {
    std::vector<int> ranks(membership.members.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    return {std::move(ranks), membership.rank};
}

RankGroup ranks_of_host(const Membership& membership) {
    std::vector<int> ranks;
    for (int rank = 0; rank < membership.world_size(); ++rank) {
        if (membership.member(rank).host == membership.member(membership.rank).host) ranks.push_back(rank);
    }
    return group_of(membership.rank, std::move(ranks));
}

std::optional<RankGroup> ranks_across_hosts(const Membership& membership) {
    const auto hosts = ranks_by_host(membership);
    const RankGroup own = ranks_of_host(membership);
    std::vector<int> ranks;
    for (const auto& host : hosts) {
        if (host.size() != own.ranks.size()) return std::nullopt;
        ranks.push_back(host[static_cast<std::size_t>(own.index)]);
    }
    return group_of(membership.rank, std::move(ranks));
}

}  // namespace ddprun::inline detail
