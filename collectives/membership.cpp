#include "collectives/membership.hpp"

#include <algorithm>
#include <charconv>

namespace ddprun {
namespace {

std::string_view take_line(std::string_view& text) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return line;
}

bool parse_nonce(std::string_view hex, Nonce& nonce) {
    if (hex.size() != 2 * nonce.size()) return false;
    for (std::size_t i = 0; i < nonce.size(); ++i) {
        const char* begin = hex.data() + 2 * i;
        auto [end, error] = std::from_chars(begin, begin + 2, nonce[i], 16);
        if (error != std::errc{} || end != begin + 2) return false;
    }
    return true;
}

}  // namespace

std::string to_string(const Member& member) {
    return to_string(member.endpoint) + ' ' + member.host + ' ' + std::to_string(member.sockets);
}

std::optional<Member> parse_member(std::string_view text) {
    const auto first = text.find(' ');
    const auto last = text.rfind(' ');
    if (first == std::string_view::npos || first + 1 >= last) return std::nullopt;
    auto endpoint = parse_endpoint(text.substr(0, first), 0);
    if (!endpoint || endpoint->port == 0) return std::nullopt;
    const std::string_view sockets = text.substr(last + 1);
    if (sockets.size() != 1 || sockets[0] < '1' || sockets[0] > '0' + kMaxLanes) return std::nullopt;
    return Member{std::move(*endpoint), std::string(text.substr(first + 1, last - first - 1)),
                  sockets[0] - '0'};
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

int Membership::lanes() const {
    const auto fewest =
        std::min_element(members.begin(), members.end(),
                         [](const Member& a, const Member& b) { return a.sockets < b.sockets; });
    return fewest->sockets;
}

std::string hex_of(const Nonce& nonce) {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    for (const std::uint8_t byte : nonce) {
        text += kDigits[byte >> 4];
        text += kDigits[byte & 15];
    }
    return text;
}

std::string table_text(const Nonce& nonce, const std::vector<Member>& members) {
    std::string text = hex_of(nonce);
    for (const Member& member : members) text += '\n' + to_string(member);
    return text;
}

std::optional<Membership> parse_table(std::string_view text, int world_size) {
    Membership membership;
    if (!parse_nonce(take_line(text), membership.nonce)) return std::nullopt;
    while (!text.empty()) {
        auto member = parse_member(take_line(text));
        if (!member) return std::nullopt;
        membership.members.push_back(std::move(*member));
    }
    if (membership.world_size() != world_size) return std::nullopt;
    return membership;
}

}  // namespace ddprun
