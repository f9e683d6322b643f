#include "collectives/session/split.hpp"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "collectives/session/bootstrap.hpp"
#include "collectives/session/join.hpp"
#include "collectives/wire/nonce.hpp"
#include "rendezvous/system/error.hpp"

namespace ddprun {
namespace {

constexpr std::size_t kTextOffset = 2 * sizeof(std::int32_t) + sizeof(Nonce);
constexpr std::size_t kMaxText = kSplitEntrySize - kTextOffset;
constexpr char kProblem = '!';

[[noreturn]] void fail_join(CollectiveErrorCode code, const std::string& what, int culprit) {
    throw CollectiveError(code, "join: " + what, {culprit}, "join");
}

// The rank's own entry; its listener goes to `listener` if it takes part.
SplitEntry make_entry(const Session& old, int color, int key, std::optional<TcpListener>& listener) {
    SplitEntry entry;
    entry.color = color;
    entry.key = key;
    if (color < 0 || old.world_size == 1) return entry;
    try {
        entry.nonce = random_nonce();
        listener.emplace(old.self.endpoint.host);
        entry.member = {listener->endpoint(), old.self.host, old.self.sockets, old.self.life};
    } catch (const boost::system::system_error& error) {
        // The others are told why, instead of waiting for this rank.
        entry.problem = error.what();
    }
    return entry;
}

std::vector<SplitEntry> exchange(Session& old, const SplitEntry& own) {
    const SplitBytes bytes = encode(own);
    std::vector<SplitBytes> all(static_cast<std::size_t>(old.world_size));
    old.executor->run(
        {{Operation::split, DataType::u8, ReduceOp::sum, -1, bytes.size()}, bytes.data(), all.data()});
    std::vector<SplitEntry> entries;
    for (const SplitBytes& theirs : all) {
        auto entry = decode_split_entry(theirs);
        const int rank = static_cast<int>(entries.size());
        if (!entry) {
            fail_join(CollectiveErrorCode::system,
                      "what rank " + std::to_string(rank) + " sent for split is no entry", rank);
        }
        entries.push_back(std::move(*entry));
    }
    return entries;
}

Membership membership_of(std::span<const SplitEntry> entries, const std::vector<int>& group, int rank) {
    Membership membership;
    for (const int old_rank : group) {
        const SplitEntry& entry = entries[static_cast<std::size_t>(old_rank)];
        if (!entry.problem.empty()) {
            fail_join(CollectiveErrorCode::system,
                      "rank " + std::to_string(old_rank) + " cannot take part in the split: " + entry.problem,
                      old_rank);
        }
        if (old_rank == rank) membership.rank = membership.world_size();
        membership.members.push_back(entry.member);
    }
    membership.nonce = entries[static_cast<std::size_t>(group[0])].nonce;
    return membership;
}

void await_end(Lifeline& lifeline) {
    const auto limit = PeerMesh::Clock::now() + kVerdictPatience;
    while (!lifeline.verdict() && PeerMesh::Clock::now() < limit) {
        const auto rest = std::chrono::ceil<std::chrono::milliseconds>(limit - PeerMesh::Clock::now());
        pollfd polled{lifeline.news_descriptor(), POLLIN, 0};
        ::poll(&polled, 1, static_cast<int>(std::max<std::int64_t>(rest.count(), 0)));
        lifeline.take_news();
    }
}

}  // namespace

SplitBytes encode(const SplitEntry& entry) {
    SplitBytes bytes{};
    std::string text;
    if (!entry.problem.empty()) {
        text = kProblem + entry.problem;
    } else if (entry.member.endpoint.port != 0) {
        text = to_string(entry.member);
    }
    std::memcpy(bytes.data(), &entry.color, sizeof(entry.color));
    std::memcpy(bytes.data() + sizeof(entry.color), &entry.key, sizeof(entry.key));
    std::memcpy(bytes.data() + 2 * sizeof(std::int32_t), entry.nonce.data(), entry.nonce.size());
    std::memcpy(bytes.data() + kTextOffset, text.data(), std::min(text.size(), kMaxText));
    return bytes;
}

std::optional<SplitEntry> decode_split_entry(std::span<const std::byte, kSplitEntrySize> bytes) {
    SplitEntry entry;
    std::memcpy(&entry.color, bytes.data(), sizeof(entry.color));
    std::memcpy(&entry.key, bytes.data() + sizeof(entry.color), sizeof(entry.key));
    std::memcpy(entry.nonce.data(), bytes.data() + 2 * sizeof(std::int32_t), entry.nonce.size());
    const auto* begin = reinterpret_cast<const char*>(bytes.data() + kTextOffset);
    const std::string text(begin, std::find(begin, begin + kMaxText, '\0'));
    if (text.empty()) return entry;
    if (text.front() == kProblem) {
        entry.problem = text.substr(1);
        return entry;
    }
    auto member = parse_member(text);
    if (!member) return std::nullopt;
    entry.member = std::move(*member);
    return entry;
}

std::vector<int> split_group(std::span<const SplitEntry> entries, int rank) {
    const auto entry = [&](int r) -> const SplitEntry& { return entries[static_cast<std::size_t>(r)]; };
    std::vector<int> group;
    for (int r = 0; r < static_cast<int>(entries.size()); ++r) {
        if (entry(r).color == entry(rank).color) group.push_back(r);
    }
    std::stable_sort(group.begin(), group.end(), [&](int a, int b) { return entry(a).key < entry(b).key; });
    return group;
}

std::unique_ptr<Session> open_split_session(Session& old, int color, int key) {
    std::optional<TcpListener> listener;
    const SplitEntry own = make_entry(old, color, key, listener);
    const std::vector<SplitEntry> entries = exchange(old, own);
    if (color < 0) return nullptr;
    const std::vector<int> group = split_group(entries, old.rank);
    if (group.size() == 1) return open_session_alone(old.nccl, old.options);
    const Descent descent{old.lifeline, group, old.lifeline->word()};
    Membership membership = membership_of(entries, group, old.rank);
    membership.generation = old.generation;
    for (std::size_t i = 0; i < group.size(); ++i) {
        if (group[i] != static_cast<int>(i)) membership.own_numbers = true;
    }
    membership.own_numbers = membership.own_numbers || old.own_numbers;
    const int own_rank = membership.rank;
    try {
        auto made = open_session(std::move(membership), std::move(*listener), old.transport, old.nccl,
                                 old.options, PeerMesh::Clock::now() + old.options.join_timeout, descent);
        made->room = old.room.later();
        return made;
    } catch (const CollectiveError& error) {
        // The dead, and a rank that only the old one has (no culprit then), end the old one, too; that says
        // who it was, and a rank that left the old one before it heard would look like the cause.
        if (error.code() == CollectiveErrorCode::peer_died || error.culprits().empty())
            await_end(*old.lifeline);
        if (old.executor->ended()) exchange(old, own);
        throw;
    } catch (const boost::system::system_error& error) {
        fail_join(CollectiveErrorCode::system, error.what(), own_rank);
    }
}

}  // namespace ddprun
