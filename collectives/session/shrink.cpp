#include "collectives/session/shrink.hpp"

#include <algorithm>
#include <utility>

#include "collectives/call/checked_task.hpp"
#include "collectives/liveness/agent_word.hpp"
#include "collectives/liveness/lifeline.hpp"
#include "collectives/session/bootstrap.hpp"
#include "collectives/session/gathering.hpp"
#include "rendezvous/system/error.hpp"

namespace ddprun {
namespace {

constexpr const char* kName = "shrink";

// Ascending, each once.
std::vector<int> checked(std::vector<int> excluded, const Session& old) {
    std::sort(excluded.begin(), excluded.end());
    excluded.erase(std::unique(excluded.begin(), excluded.end()), excluded.end());
    for (const int rank : excluded) {
        const std::string name = "rank " + std::to_string(rank);
        if (rank < 0 || rank >= old.world_size) {
            refuse(kName, name + " is not a rank of this communicator (0.." +
                              std::to_string(old.world_size - 1) + ')');
        }
        if (rank == old.rank) refuse(kName, name + " cannot exclude itself");
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

std::string shrunk_prefix(std::uint32_t generation, const Nonce& nonce, int attempt) {
    return "ddprun/shrunk/" + std::to_string(generation) + '/' + hex_of(nonce) + '/' +
           std::to_string(attempt) + '/';
}

std::unique_ptr<Session> open_shrunk_session(Session& old, std::vector<int> excluded) {
    excluded = checked(std::move(excluded), old);
    if (old.world_size == 1) return open_session_alone(old.nccl, old.options);
    const auto deadline = Gathering::Clock::now() + old.options.join_timeout;
    const std::string prefix = shrunk_prefix(old.generation, old.nonce, ++old.shrinks);
    try {
        MeetingRoom room = old.room.another(std::min(old.options.join_timeout, kReopenPatience));
        TcpListener listener(old.self.endpoint.host);
        Member self = old.self;
        self.endpoint = listener.endpoint();
        auto word = AgentWord::of_successor(old.lifeline->word());
        self.life = word ? word->life() : 0;
        Gathering gathering(*room.store, {kName, "survivors"}, prefix, old.rank,
                            {old.world_size, std::move(excluded)});
        Membership membership = gathering.run(self, deadline);
        membership.generation = old.generation;
        membership.own_numbers = true;
        if (membership.world_size() == 1) return open_session_alone(old.nccl, old.options);
        auto session = open_session(std::move(membership), std::move(listener), old.transport, old.nccl,
                                    old.options, deadline, {.word = std::move(word)});
        room.farewell = std::make_unique<Farewell>(gathering.farewell());
        session->room = std::move(room);
        return session;
    } catch (const boost::system::system_error& error) {
        throw store_failure(error);
    }
}

}  // namespace ddprun
