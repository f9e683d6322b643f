#include "collectives/session/split.hpp"

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "collectives/call/backend.hpp"
#include "collectives/liveness/death_news.hpp"
#include "collectives/liveness/lifeline.hpp"
#include "collectives/session/bootstrap.hpp"
#include "collectives/session/session.hpp"
#include "collectives/wire/frame.hpp"
#include "rendezvous/system/error.hpp"
#include "rendezvous/system/machine.hpp"

namespace ddprun::inline detail {
namespace {

constexpr char kProblem = '!';

struct SplitFrame {
    std::int32_t color;
    std::int32_t key;
    Nonce nonce;
    std::array<char, kSplitEntrySize - 2 * sizeof(std::int32_t) - sizeof(Nonce)> text;
};

[[noreturn]] void fail_join(const std::string& what, int culprit) {
    throw CollectiveError(CollectiveErrorCode::system, "join: " + what, {culprit}, "join");
}

// The rank's own entry; its listener goes to `listener` if it takes part.
SplitEntry make_entry(const Session& old, int color, int key, std::optional<TcpListener>& listener) {
    SplitEntry entry;
    entry.color = color;
    entry.key = key;
    if (color < 0 || old.world_size == 1) return entry;
    try {
        entry.nonce = random_nonce();
        listener.emplace(old.self.endpoint.host, old.ports);
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
            fail_join(fmt::format("what rank {} sent for split is no entry", rank), rank);
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
            fail_join(fmt::format("rank {} cannot take part in the split: {}", old_rank, entry.problem),
                      old_rank);
        }
        if (old_rank == rank) membership.rank = membership.world_size();
        membership.members.push_back(entry.member);
    }
    membership.nonce = entries[static_cast<std::size_t>(group[0])].nonce;
    return membership;
}

void await_end(Lifeline& lifeline) {
    const Deadline deadline = Deadline::clock::now() + kVerdictTimeout;
    while (!lifeline.verdict() && !has_passed(deadline)) {
        pollfd polled{lifeline.news_descriptor(), POLLIN, 0};
        ::poll(&polled, 1, poll_timeout(deadline));
        lifeline.take_news();
    }
}

constexpr const char* kName = "shrink";
constexpr const char* kSubgroup = "subgroup";
// Names are parts of keys.
constexpr std::size_t kLongestGroupName = 256;

// Ascending, each once.
std::vector<int> checked(std::vector<int> excluded, const Session& old) {
    std::sort(excluded.begin(), excluded.end());
    excluded.erase(std::unique(excluded.begin(), excluded.end()), excluded.end());
    for (const int rank : excluded) {
        if (rank < 0 || rank >= old.world_size) {
            refuse(kName, fmt::format("rank {} is not a rank of this communicator (0..{})", rank,
                                      old.world_size - 1));
        }
        if (rank == old.rank) refuse(kName, fmt::format("rank {} cannot exclude itself", rank));
    }
    return excluded;
}

CollectiveError store_failure(const char* name, const boost::system::system_error& error) {
    const auto is = [&](Errc code) { return error.code() == make_error_code(code); };
    const bool store_lost =
        is(Errc::connection_lost) || is(Errc::closed) || is(Errc::unreachable) || is(Errc::timed_out);
    const std::string why = store_lost
                                ? "the store in which the ranks met cannot be used any more; it lives in the "
                                  "launcher, or in the process of rank 0: "
                                : "";
    return CollectiveError(CollectiveErrorCode::system, fmt::format("{}: {}{}", name, why, error.what()), {},
                           name);
}

}  // namespace

SplitBytes encode(const SplitEntry& entry) {
    SplitFrame frame{entry.color, entry.key, entry.nonce, {}};
    const bool listens = entry.member.endpoint.port != 0;
    const std::string text = !entry.problem.empty() ? kProblem + entry.problem
                             : listens              ? to_string(entry.member)
                                                    : "";
    text.copy(frame.text.data(), frame.text.size());
    return std::bit_cast<SplitBytes>(frame);
}

std::optional<SplitEntry> decode_split_entry(std::span<const std::byte, kSplitEntrySize> bytes) {
    SplitFrame frame;
    std::memcpy(&frame, bytes.data(), sizeof(frame));
    SplitEntry entry{frame.color, frame.key, frame.nonce, {}, {}};
    const std::string text(frame.text.begin(), std::find(frame.text.begin(), frame.text.end(), '\0'));
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
    const CommunicatorOptions options = old.current_options();
    if (group.size() == 1) return open_session_alone(old.nccl, options);
    const Origin origin{old.lifeline, group, old.lifeline->death_news()};
    Membership membership = membership_of(entries, group, old.rank);
    membership.round = old.round;
    membership.mesh_key = old.mesh_key;
    for (std::size_t i = 0; i < group.size(); ++i) {
        if (group[i] != static_cast<int>(i)) membership.own_numbers = true;
    }
    membership.own_numbers = membership.own_numbers || old.own_numbers;
    const int own_rank = membership.rank;
    try {
        // It looks at the old one's news, too.
        auto made = old.executor->hold(Operation::split, [&] {
            return open_session(std::move(membership), std::move(*listener), old.transport, old.nccl, options,
                                Deadline::clock::now() + options.join_timeout, origin);
        });
        made->ports = old.ports;
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
        fail_join(error.what(), own_rank);
    }
}

std::string shrunk_prefix(std::uint32_t round, const Nonce& nonce, int shrinks) {
    return fmt::format("ddprun/shrunk/{}/{}/{}/", round, hex_text(nonce), shrinks);
}

std::unique_ptr<Session> open_shrunk_session(Session& old, std::vector<int> excluded) {
    excluded = checked(std::move(excluded), old);
    const CommunicatorOptions options = old.current_options();
    if (old.world_size == 1) return open_session_alone(old.nccl, options);
    const auto deadline = Deadline::clock::now() + options.join_timeout;
    const std::string prefix = shrunk_prefix(old.round, old.nonce, ++old.shrinks);
    try {
        MeetingRoom room = old.room.later();
        room.store = room.reopen(std::min(options.join_timeout, kReopenTimeout));
        TcpListener listener(old.self.endpoint.host, old.ports);
        Member self = old.self;
        self.endpoint = listener.endpoint();
        auto news = DeathNews::of_successor(old.lifeline->death_news());
        self.life = news ? news->life() : 0;
        Gathering gathering(*room.store, {kName, "survivors"}, prefix, old.rank,
                            {old.world_size, std::move(excluded)});
        Membership membership = gathering.run(self, deadline);
        membership.round = old.round;
        membership.mesh_key = old.mesh_key;
        membership.own_numbers = true;
        if (membership.world_size() == 1) return open_session_alone(old.nccl, options);
        auto session = open_session(std::move(membership), std::move(listener), old.transport, old.nccl,
                                    options, deadline, {.death_news = std::move(news)});
        if (room.rank_0_hosts) room.departure = std::make_unique<Departure>(gathering.departure());
        session->ports = old.ports;
        session->room = std::move(room);
        return session;
    } catch (const boost::system::system_error& error) {
        throw store_failure(kName, error);
    }
}

namespace {

// The ranks of the old one that are not among these. Throws invalid_argument.
std::vector<int> others_than(const std::vector<int>& ranks, const std::string& name, const Session& old) {
    if (name.empty() || name.size() > kLongestGroupName) {
        refuse(kSubgroup,
               fmt::format("a name of {} bytes is not between 1 and {}", name.size(), +kLongestGroupName));
    }
    std::vector<bool> is_member(static_cast<std::size_t>(old.world_size));
    for (const int rank : ranks) {
        if (rank < 0 || rank >= old.world_size) {
            refuse(kSubgroup, fmt::format("rank {} is not a rank of this communicator (0..{})", rank,
                                          old.world_size - 1));
        }
        if (is_member[static_cast<std::size_t>(rank)])
            refuse(kSubgroup, fmt::format("rank {} is named twice", rank));
        is_member[static_cast<std::size_t>(rank)] = true;
    }
    if (!is_member[static_cast<std::size_t>(old.rank)])
        refuse(kSubgroup, fmt::format("rank {} is not a member itself", old.rank));
    std::vector<int> others;
    for (int rank = 0; rank < old.world_size; ++rank) {
        if (!is_member[static_cast<std::size_t>(rank)]) others.push_back(rank);
    }
    return others;
}

// From the members by their old ranks to those in the order of `ranks`.
void put_in_order(Membership& membership, const std::vector<int>& ranks, int old_rank) {
    std::vector<int> ascending = ranks;
    std::sort(ascending.begin(), ascending.end());
    std::vector<Member> members;
    for (const int rank : ranks) {
        const auto place = std::lower_bound(ascending.begin(), ascending.end(), rank) - ascending.begin();
        if (rank == old_rank) membership.rank = static_cast<int>(members.size());
        membership.own_numbers = membership.own_numbers || rank != static_cast<int>(members.size());
        members.push_back(membership.members[static_cast<std::size_t>(place)]);
    }
    membership.members = std::move(members);
}

}  // namespace

std::string subgroup_prefix(std::uint32_t round, const Nonce& nonce, const std::string& name) {
    return fmt::format("ddprun/subgroups/{}/{}/{}/", round, hex_text(nonce), name);
}

std::unique_ptr<Session> open_subgroup_session(Session& old, const std::vector<int>& ranks,
                                               const std::string& name, const CommunicatorOptions& options) {
    std::vector<int> others = others_than(ranks, name, old);
    if (ranks.size() == 1) return open_session_alone(old.nccl, options);
    const auto deadline = Deadline::clock::now() + options.join_timeout;
    try {
        const auto store = old.room.reopen(std::min(options.join_timeout, kReopenTimeout));
        TcpListener listener(old.self.endpoint.host, old.ports);
        Member self = old.self;
        self.endpoint = listener.endpoint();
        Gathering gathering(*store, {kSubgroup, "members"}, subgroup_prefix(old.round, old.nonce, name),
                            old.rank, {old.world_size, std::move(others)});
        Membership membership = gathering.run(self, deadline);
        membership.round = old.round;
        membership.mesh_key = old.mesh_key;
        membership.own_numbers = old.own_numbers;
        put_in_order(membership, ranks, old.rank);
        const Origin origin{old.lifeline, ranks, old.lifeline->death_news()};
        // It looks at the old one's news, too.
        auto made = old.executor->hold(Operation::split, [&] {
            return open_session(std::move(membership), std::move(listener), old.transport, old.nccl, options,
                                deadline, origin);
        });
        made->ports = old.ports;
        made->room = old.room.later();
        return made;
    } catch (const boost::system::system_error& error) {
        throw store_failure(kSubgroup, error);
    }
}

}  // namespace ddprun::inline detail
