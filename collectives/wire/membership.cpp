#include "collectives/wire/membership.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace ddprun {
namespace {

std::string_view take_line(std::string_view& text) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return line;
}

std::string_view take_word(std::string_view& text) {
    const auto end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return word;
}

constexpr char kDigits[] = "0123456789abcdef";

// Two digits for each byte, the highest first.
template <class Bytes>
std::string hex_text(const Bytes& bytes) {
    std::string text;
    for (const std::uint8_t byte : bytes) {
        text += kDigits[byte >> 4];
        text += kDigits[byte & 15];
    }
    return text;
}

template <class Bytes>
bool parse_hex(std::string_view hex, Bytes& bytes) {
    if (hex.size() != 2 * bytes.size()) return false;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        const char* begin = hex.data() + 2 * i;
        auto [end, error] = std::from_chars(begin, begin + 2, bytes[i], 16);
        if (error != std::errc{} || end != begin + 2) return false;
    }
    return true;
}

using LifeBytes = std::array<std::uint8_t, sizeof(std::uint64_t)>;

LifeBytes bytes_of(std::uint64_t life) {
    LifeBytes bytes{};
    for (std::size_t i = bytes.size(); i-- > 0; life >>= 8) bytes[i] = static_cast<std::uint8_t>(life);
    return bytes;
}

std::uint64_t life_of(const LifeBytes& bytes) {
    std::uint64_t life = 0;
    for (const std::uint8_t byte : bytes) life = life << 8 | byte;
    return life;
}

}  // namespace

std::string to_string(const Member& member) {
    return to_string(member.endpoint) + ' ' + member.host + ' ' + std::to_string(member.sockets) + ' ' +
           hex_text(bytes_of(member.life));
}

std::optional<Member> parse_member(std::string_view text) {
    auto endpoint = parse_endpoint(take_word(text), 0);
    if (!endpoint || endpoint->port == 0) return std::nullopt;
    const std::string_view host = take_word(text);
    if (host.empty()) return std::nullopt;
    const std::string_view sockets = take_word(text);
    if (sockets.size() != 1 || sockets[0] < '1' || sockets[0] > '0' + kMaxLanes) return std::nullopt;
    LifeBytes life{};
    if (!parse_hex(text, life)) return std::nullopt;
    return Member{std::move(*endpoint), std::string(host), sockets[0] - '0', life_of(life)};
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

std::string hex_of(const Nonce& nonce) { return hex_text(nonce); }

std::string table_text(const Nonce& nonce, const std::vector<Member>& members) {
    std::string text = hex_of(nonce);
    for (const Member& member : members) text += '\n' + to_string(member);
    return text;
}

std::optional<Membership> parse_table(std::string_view text, int world_size) {
    Membership membership;
    if (!parse_hex(take_line(text), membership.nonce)) return std::nullopt;
    while (!text.empty()) {
        auto member = parse_member(take_line(text));
        if (!member) return std::nullopt;
        membership.members.push_back(std::move(*member));
    }
    if (membership.world_size() != world_size) return std::nullopt;
    return membership;
}

}  // namespace ddprun
