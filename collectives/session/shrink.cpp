#include "collectives/session/shrink.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "collectives/call/checked_task.hpp"
#include "collectives/liveness/death_news.hpp"
#include "collectives/liveness/lifeline.hpp"
#include "collectives/session/bootstrap.hpp"
#include "collectives/session/gathering.hpp"
#include "rendezvous/system/error.hpp"

namespace ddprun::inline detail {
namespace {

constexpr const char* kName = "shrink";

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

CollectiveError store_failure(const boost::system::system_error& error) {
    const auto is = [&](Errc code) { return error.code() == make_error_code(code); };
    const bool store_lost =
        is(Errc::connection_lost) || is(Errc::closed) || is(Errc::unreachable) || is(Errc::timed_out);
    const std::string why = store_lost
                                ? "the store in which the ranks met cannot be used any more; it lives in the "
                                  "launcher, or in the process of rank 0: "
                                : "";
    return CollectiveError(CollectiveErrorCode::system, "shrink: " + why + error.what(), {}, kName);
}

}  // namespace

std::string shrunk_prefix(std::uint32_t round, const Nonce& nonce, int shrinks) {
    return fmt::format("ddprun/shrunk/{}/{}/{}/", round, hex_of(nonce), shrinks);
}

std::unique_ptr<Session> open_shrunk_session(Session& old, std::vector<int> excluded) {
    excluded = checked(std::move(excluded), old);
    if (old.world_size == 1) return open_session_alone(old.nccl, old.options);
    const auto deadline = Deadline::clock::now() + old.options.join_timeout;
    const std::string prefix = shrunk_prefix(old.round, old.nonce, ++old.shrinks);
    try {
        MeetingRoom room = old.room.later();
        room.store = room.reopen(std::min(old.options.join_timeout, kReopenTimeout));
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
        if (membership.world_size() == 1) return open_session_alone(old.nccl, old.options);
        auto session = open_session(std::move(membership), std::move(listener), old.transport, old.nccl,
                                    old.options, deadline, {.death_news = std::move(news)});
        room.departure = std::make_unique<Departure>(gathering.departure());
        session->ports = old.ports;
        session->room = std::move(room);
        return session;
    } catch (const boost::system::system_error& error) {
        throw store_failure(error);
    }
}

}  // namespace ddprun::inline detail
