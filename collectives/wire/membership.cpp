#include "collectives/wire/membership.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <concepts>
#include <numeric>

#include "rendezvous/system/machine.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace detail {
namespace {

constexpr std::string_view kOwn = " own";

// Returns what stands before the first `end`, and takes both away.
std::string_view take_until(char end, std::string_view& text) {
    const std::string_view taken = text.substr(0, text.find(end));
    text.remove_prefix(std::min(taken.size() + 1, text.size()));
    return taken;
}

// All of the text, of which each digit counts.
template <std::unsigned_integral Number>
std::optional<Number> parse_hex(std::string_view text) {
    if (text.size() != 2 * sizeof(Number)) return std::nullopt;
    return whole_number<Number>(text, 0, std::numeric_limits<Number>::max(), 16);
}

std::optional<Nonce> parse_nonce(std::string_view hex) {
    Nonce nonce;
    if (hex.size() != 2 * nonce.size()) return std::nullopt;
    for (std::size_t i = 0; i < nonce.size(); ++i) {
        const auto byte = parse_hex<std::uint8_t>(hex.substr(2 * i, 2));
        if (!byte) return std::nullopt;
        nonce[i] = *byte;
    }
    return nonce;
}

RankGroup group_of(int rank, std::vector<int> ranks) {
    const auto place = std::find(ranks.begin(), ranks.end(), rank) - ranks.begin();
    return {std::move(ranks), static_cast<int>(place)};
}

}  // namespace

std::string to_string(const Member& member) {
    return fmt::format("{} {} {} {:016x}{}{}{}", to_string(member.endpoint), member.host, member.sockets,
                       member.life, member.numbers.empty() ? "" : " ", member.numbers,
                       member.own_numbers ? kOwn : "");
}

std::optional<Member> parse_member(std::string_view text) {
    auto endpoint = parse_endpoint(take_until(' ', text), 0);
    const std::string_view host = take_until(' ', text);
    const std::string_view sockets = take_until(' ', text);
    const auto lanes = whole_number(sockets, 1, kMaxLanes);
    const bool own_numbers = text.ends_with(kOwn);
    if (own_numbers) text.remove_suffix(kOwn.size());
    const bool has_numbers = text.find(' ') != std::string_view::npos;
    const auto life = parse_hex<std::uint64_t>(take_until(' ', text));
    if (!endpoint || endpoint->port == 0 || host.empty() || sockets.size() != 1 || !lanes || !life ||
        has_numbers == text.empty() || text.find(' ') != std::string_view::npos)
        return std::nullopt;
    return Member{std::move(*endpoint), std::string(host), *lanes, *life, own_numbers, std::string(text)};
}

int Membership::local_rank() const {
    const auto self = members.begin() + rank;
    return static_cast<int>(
        std::count_if(members.begin(), self, [&](const Member& other) { return other.host == self->host; }));
}

int Membership::local_world_size() const {
    const std::string& host = member(rank).host;
    return static_cast<int>(std::count_if(members.begin(), members.end(),
                                          [&](const Member& other) { return other.host == host; }));
}

int Membership::lanes() const { return std::ranges::min(members, {}, &Member::sockets).sockets; }

std::string table_text(const Nonce& nonce, const std::vector<Member>& members) {
    std::string text = hex_text(nonce);
    for (const Member& member : members) text += '\n' + to_string(member);
    return text;
}

std::optional<Membership> parse_table(std::string_view text, int world_size) {
    Membership membership;
    const auto nonce = parse_nonce(take_until('\n', text));
    if (!nonce) return std::nullopt;
    membership.nonce = *nonce;
    while (!text.empty()) {
        auto member = parse_member(take_until('\n', text));
        if (!member) return std::nullopt;
        membership.members.push_back(std::move(*member));
    }
    if (membership.world_size() != world_size) return std::nullopt;
    return membership;
}

std::vector<std::vector<int>> ranks_by_host(const Membership& membership) {
    std::vector<std::vector<int>> hosts;
    for (int rank = 0; rank < membership.world_size(); ++rank) {
        const auto same_host = [&](const std::vector<int>& ranks) {
            return membership.member(ranks.front()).shares() == membership.member(rank).shares();
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
        if (membership.member(rank).shares() == membership.member(membership.rank).shares())
            ranks.push_back(rank);
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

}  // namespace detail
}  // namespace ddprun
