#include "collectives/session/split.hpp"

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "collectives/call/checked_task.hpp"
#include "collectives/liveness/death_news.hpp"
#include "collectives/liveness/lifeline.hpp"
#include "collectives/liveness/origin.hpp"
#include "collectives/messages/messenger.hpp"
#include "collectives/session/bootstrap.hpp"
#include "collectives/session/departure.hpp"
#include "collectives/session/gathering.hpp"
#include "collectives/session/host_identity.hpp"
#include "collectives/session/session.hpp"
#include "collectives/wire/frame.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/system/machine.hpp"

namespace ddprun {
inline namespace detail {
namespace {

[[noreturn]] void fail_join(const std::string& what, int culprit) {
    throw CollectiveError(CollectiveErrorCode::system, "join: " + what, {culprit}, "join");
}

// Every rank's word, by all ranks of the old one.
template <class T>
std::vector<T> exchange(Session& old, const T& own) {
    std::vector<T> all(static_cast<std::size_t>(old.world_size));
    old.executor->run({{Operation::split, DataType::u8, ReduceOp::sum, -1, sizeof(T)}, &own, all.data()});
    return all;
}

Membership membership_of(const Session& old, const std::vector<int>& ranks, const Nonce& nonce) {
    const Membership& whole = old.lifeline->membership();
    Membership membership = whole;
    membership.nonce = nonce;
    membership.members.clear();
    for (const int rank : ranks) {
        if (rank == old.rank) membership.rank = membership.world_size();
        membership.own_numbers = membership.own_numbers || rank != membership.world_size();
        membership.members.push_back(whole.member(rank));
    }
    join_containers(membership);
    return membership;
}

// Circle: the members of a new communicator tell each other words by messages of the old one. Who gives up
// tells why instead. Throws CollectiveError with the ranks' numbers in the old one.
class Circle {
  public:
    Circle(Session& old, const std::vector<int>& ranks, const Nonce& nonce, const char* name,
           Deadline deadline)
        : old_(old), ranks_(ranks), name_(name), deadline_(deadline) {
        std::memcpy(&tag_, nonce.data(), sizeof(tag_));
    }

    // Whether all can be told of by each; the same answer on all.
    bool is_open() const {
        return old_.messenger && (ranks_.size() <= kMostByMessages ||
                                  ranks_by_host(membership_of(old_, ranks_, {})).size() == 1);
    }

    // Every member's word, by rank in the new one. `same`: all must have this one.
    template <class T>
    std::vector<T> gather(const T& own, bool same = false) const {
        const Frame mine{0, std::bit_cast<Word>(own)};
        std::vector<T> all;
        std::vector<int> late;
        try {
            for (const int rank : ranks_) tell(rank, mine);
            for (const int rank : ranks_) {
                const auto word = hear(rank);
                if (!word) late.push_back(rank);
                all.push_back(std::bit_cast<T>(word.value_or(Word{})));
                if (same && word && *word != mine.word) {
                    fail(CollectiveErrorCode::mismatch,
                         {std::min(rank, old_.rank), std::max(rank, old_.rank)},
                         fmt::format("ranks {} and {} have other lists of members", old_.rank, rank));
                }
            }
            if (!late.empty()) {
                fail(CollectiveErrorCode::timed_out, late,
                     fmt::format("of {} members these have not come in time "
                                 "(CommunicatorOptions::join_timeout): {}",
                                 ranks_.size(), list_of_ranks(late)));
            }
        } catch (const CollectiveError& error) {
            for (const int rank : ranks_) {
                if (rank != old_.rank) tell(rank, {1 + static_cast<int>(error.code()), {}});
            }
            throw;
        }
        return all;
    }

    [[noreturn]] void fail(CollectiveErrorCode code, const std::vector<int>& culprits,
                           const std::string& text) const {
        throw CollectiveError(code, fmt::format("{}: {}", name_, text), culprits, name_);
    }

  private:
    using Word = std::array<std::byte, 16>;
    struct Frame {
        std::int32_t given_up = 0;  // 1 and the error's code
        Word word{};
    };

    // One that cannot be told is not heard either.
    void tell(int rank, const Frame& frame) const {
        const auto rest = frame.given_up == 0 ? time_until(deadline_) : std::chrono::milliseconds(0);
        try {
            old_.messenger->run({true, &frame, nullptr, sizeof(frame), rank, tag_, rest});
        } catch (const CollectiveError&) {
        }
    }

    // Nothing if its time is over.
    std::optional<Word> hear(int rank) const {
        Frame frame;
        try {
            old_.messenger->run({false, nullptr, &frame, sizeof(frame), rank, tag_, time_until(deadline_)});
        } catch (const CollectiveError& error) {
            if (error.code() == CollectiveErrorCode::timed_out) return std::nullopt;
            fail(error.code(), error.culprits(), error.what());
        }
        if (frame.given_up == 0) return frame.word;
        const auto code = static_cast<CollectiveErrorCode>(std::int64_t{frame.given_up} - 1);
        if (name_of(code) == "unknown")
            fail(CollectiveErrorCode::mismatch, {rank},
                 fmt::format("rank {} wrote a reason that is none", rank));
        fail(code, {rank}, fmt::format("rank {} has given up", rank));
    }

    Session& old_;
    const std::vector<int>& ranks_;
    const char* name_;
    Deadline deadline_;
    std::uint64_t tag_ = 0;  // no program has it but by a chance of 2^-64
};

// Makes the new session of this rank, one of `ranks`; `meet` returns when all of them can be dialled.
std::unique_ptr<Session> open_part(Session& old, const std::vector<int>& ranks, const Nonce& nonce,
                                   const CommunicatorOptions& options, const Circle& circle,
                                   Deadline deadline, const std::function<void()>& meet) {
    const Origin origin{old.lifeline, ranks, nullptr, [&](const Membership&) { meet(); }};
    ShmGather gather;
    if (circle.is_open()) gather = [&](const ShmWord& word) { return circle.gather(word); };
    auto made = open_session(membership_of(old, ranks, nonce), std::nullopt, old.transport, old.nccl, options,
                             deadline, origin, gather);
    made->ports = old.ports;
    made->room = old.room.later();
    return made;
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
    const std::vector<SplitEntry> entries = exchange(old, SplitEntry{color, key});
    const std::vector<int> group = color < 0 ? std::vector<int>() : split_group(entries, old.rank);
    const int number = ++old.splits;
    bool met = false;
    // The others are told what keeps this rank from taking part, instead of waiting for it.
    const auto meet = [&](int problem) {
        met = true;
        const std::vector<int> problems = exchange(old, problem);
        for (const int rank : group) {
            if (const int theirs = problems[static_cast<std::size_t>(rank)]; theirs != 0)
                fail_join(
                    fmt::format("rank {} cannot take part in the split: {}", rank, std::strerror(theirs)),
                    rank);
        }
    };
    const CommunicatorOptions options = old.current_options();
    if (group.size() < 2) meet(0);
    if (group.empty()) return nullptr;
    if (group.size() == 1) return open_session_alone(old.nccl, options);
    const Nonce nonce =
        derived_nonce(old.lifeline->membership().nonce, fmt::format("split/{}/{}", number, color));
    const auto deadline = Deadline::clock::now() + options.join_timeout;
    const Circle circle(old, group, nonce, "join", deadline);
    try {
        return open_part(old, group, nonce, options, circle, deadline, [&] { meet(0); });
    } catch (const CollectiveError& error) {
        // The dead, and a rank that only the old one has (no culprit then), end the old one, too; that says
        // who it was, and a rank that left the old one before it heard would look like the cause.
        if (error.code() == CollectiveErrorCode::peer_died || error.culprits().empty())
            await_end(*old.lifeline);
        if (old.executor->ended()) exchange(old, color);
        throw;
    } catch (const boost::system::system_error& error) {
        if (!met) meet(error.code().value());
        fail_join(error.what(), membership_of(old, group, nonce).rank);
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
    const Membership& whole = old.lifeline->membership();
    const std::string prefix = shrunk_prefix(whole.round, whole.nonce, ++old.shrinks);
    try {
        MeetingRoom room = old.room.later();
        room.store = room.reopen(std::min(options.join_timeout, kReopenTimeout));
        Member self = whole.member(old.rank);
        TcpListener listener(self.endpoint.host, old.ports);
        self.endpoint = listener.endpoint();
        auto news = DeathNews::of_successor(old.lifeline->death_news());
        self.life = news ? news->life() : 0;
        Gathering gathering(*room.store, {kName, "survivors"}, prefix, old.rank,
                            {old.world_size, std::move(excluded)});
        Membership membership = gathering.run(self, deadline);
        membership.round = whole.round;
        membership.mesh_key = whole.mesh_key;
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

}  // namespace

std::unique_ptr<Session> open_subgroup_session(Session& old, const std::vector<int>& ranks,
                                               const std::string& name, const CommunicatorOptions& options) {
    const std::vector<int> others = others_than(ranks, name, old);
    if (ranks.size() == 1) return open_session_alone(old.nccl, options);
    const auto deadline = Deadline::clock::now() + options.join_timeout;
    const Membership& whole = old.lifeline->membership();
    const Nonce nonce = derived_nonce(whole.nonce, "subgroup/" + name);
    const Circle circle(old, ranks, nonce, kSubgroup, deadline);
    const auto meet = [&] {
        if (circle.is_open()) {
            circle.gather(derived_nonce(nonce, encode_ranks(ranks)), true);
            return;
        }
        const auto store = old.room.reopen(std::min(options.join_timeout, kReopenTimeout));
        Gathering(*store, {kSubgroup, "members"},
                  fmt::format("ddprun/subgroups/{}/{}/", whole.round, hex_text(nonce)), old.rank,
                  {old.world_size, others})
            .run(whole.member(old.rank), deadline);
    };
    try {
        return open_part(old, ranks, nonce, options, circle, deadline, meet);
    } catch (const boost::system::system_error& error) {
        throw store_failure(kSubgroup, error);
    }
}

}  // namespace detail
}  // namespace ddprun
