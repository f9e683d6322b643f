#include "collectives/liveness/lifeline_state.hpp"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <random>

#include "collectives/liveness/judgement.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun;

namespace {

const NamedTimeout kLateLimit{std::chrono::milliseconds(1500), "operation_timeout"};

Call all_reduce_call(std::uint64_t sequence, std::uint64_t count = 10) {
    return {Operation::all_reduce, DataType::f32, ReduceOp::sum, -1, count, sequence};
}

// A ring of ranks whose notices are delivered one at a time in a random order (in order on each connection).
class Ring {
  public:
    Ring(int world_size, std::mt19937& random) : random_(random), alive_(world_size, true) {
        for (int rank = 0; rank < world_size; ++rank) states_.emplace_back(rank, world_size);
    }

    LifelineState& at(int rank) { return states_[static_cast<std::size_t>(rank)]; }
    int size() const { return static_cast<int>(states_.size()); }
    bool alive(int rank) const { return alive_[static_cast<std::size_t>(rank)]; }

    void send(int from, const LifelineState::Sendings& sendings) {
        for (const auto& sending : sendings) {
            for (const int to : neighbours(from)) {
                if (to != sending.except) connections_[{from, to}].push_back(sending.notice);
            }
        }
    }

    // The rank's process ends; what it sent still arrives, then its neighbours see the connection close.
    void end(int rank) {
        alive_[static_cast<std::size_t>(rank)] = false;
        for (const int to : neighbours(rank)) connections_[{rank, to}].push_back(std::nullopt);
    }

    // Delivers everything, calling after(rank) for the receiver of each. Returns how many were delivered.
    int settle(const std::function<void(int)>& after = [](int) {}) {
        int delivered = 0;
        while (true) {
            std::vector<std::pair<int, int>> ready;
            for (const auto& [ends, queue] : connections_) {
                if (!queue.empty()) ready.push_back(ends);
            }
            if (ready.empty()) return delivered;
            const auto [from, to] = ready[random_() % ready.size()];
            auto notice = connections_[{from, to}].front();
            connections_[{from, to}].pop_front();
            if (!alive(to)) continue;
            ++delivered;
            send(to, notice ? at(to).heard(*notice, from) : at(to).lost(from));
            after(to);
        }
    }

  private:
    std::vector<int> neighbours(int rank) const {
        const int left = (rank + size() - 1) % size();
        const int right = (rank + 1) % size();
        return left == right ? std::vector<int>{left} : std::vector<int>{left, right};
    }

    std::mt19937& random_;
    std::vector<LifelineState> states_;
    std::vector<bool> alive_;
    std::map<std::pair<int, int>, std::deque<std::optional<Notice>>> connections_;
};

}  // namespace

TEST_CASE("when a rank dies, all others hear its name", "[lifeline]") {
    const auto seed = std::random_device{}();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    for (int round = 0; round < 300; ++round) {
        Ring ring(2 + static_cast<int>(random() % 12), random);
        const int victim = static_cast<int>(random() % static_cast<unsigned>(ring.size()));
        ring.end(victim);
        // Half of those that hear it give up and end too; nobody may take one of them for the culprit.
        const int delivered = ring.settle([&](int rank) {
            if (ring.alive(rank) && ring.at(rank).verdict() && random() % 2 == 0) ring.end(rank);
        });
        REQUIRE(delivered <= 4 * ring.size());
        for (int rank = 0; rank < ring.size(); ++rank) {
            if (rank == victim) continue;
            REQUIRE(ring.at(rank).verdict().has_value());
            REQUIRE(ring.at(rank).verdict()->code == CollectiveErrorCode::peer_died);
            REQUIRE(ring.at(rank).verdict()->culprits == std::vector<int>{victim});
        }
    }
}

TEST_CASE("a rank that gives up because of another and ends is never the culprit", "[lifeline]") {
    std::mt19937 random(1);
    Ring ring(5, random);
    ring.send(1, ring.at(1).declare({CollectiveErrorCode::timed_out, {3}, "rank 3 has not come"}));
    ring.end(1);
    ring.settle();
    for (const int rank : {0, 2, 3, 4}) REQUIRE(ring.at(rank).verdict()->culprits == std::vector<int>{3});
}

TEST_CASE("a rank that leaves in order is not dead, and all know how far it came", "[lifeline]") {
    std::mt19937 random(1);
    Ring ring(6, random);
    ring.at(2).enter(all_reduce_call(7));
    ring.send(2, ring.at(2).leave());
    ring.end(2);
    ring.settle();
    for (const int rank : {0, 1, 3, 4, 5}) {
        REQUIRE_FALSE(ring.at(rank).verdict().has_value());
        REQUIRE(ring.at(rank).left_after(2) == 7);
        REQUIRE(ring.at(rank).left_before(7) == -1);
        REQUIRE(ring.at(rank).left_before(8) == 2);
    }
}

TEST_CASE("the first verdict is final", "[lifeline]") {
    LifelineState state(0, 3);
    const Verdict first{CollectiveErrorCode::aborted, {1}, "rank 1 aborted"};
    REQUIRE(state.heard(first, 1).size() == 1);
    REQUIRE(state.declare({CollectiveErrorCode::peer_died, {2}, "later"}).empty());
    REQUIRE(state.lost(2).empty());
    REQUIRE(*state.verdict() == first);
}

TEST_CASE("a neighbour that connects late hears what has happened before", "[lifeline]") {
    LifelineState state(0, 4);
    REQUIRE(state.for_new_neighbour().empty());
    state.heard(LeftNotice{3, 5}, 3);
    state.declare({CollectiveErrorCode::aborted, {0}, "enough"});
    REQUIRE(state.for_new_neighbour().size() == 2);
}

TEST_CASE("every rank answers an inquiry once, also when several ask", "[lifeline]") {
    std::mt19937 random(3);
    Ring ring(7, random);
    for (int rank = 0; rank < 7; ++rank) ring.at(rank).enter(all_reduce_call(rank == 4 ? 1 : 2));
    ring.send(0, ring.at(0).inquire());
    ring.send(5, ring.at(5).inquire());
    REQUIRE(ring.settle() <= 2 * 7 * (7 + 1) + 14);
    for (const int asker : {0, 5}) {
        REQUIRE(ring.at(asker).all_answered());
        const auto progress = ring.at(asker).progress();
        for (int rank = 0; rank < 7; ++rank) {
            REQUIRE(progress[static_cast<std::size_t>(rank)]->sequence == (rank == 4 ? 1U : 2U));
        }
    }
}

TEST_CASE("a question finds whoever made another call, now or earlier, and nobody else", "[lifeline]") {
    const auto seed = std::random_device{}();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    int found = 0;
    for (int round = 0; round < 500; ++round) {
        Ring ring(2 + static_cast<int>(random() % 9), random);
        const int deviator = static_cast<int>(random() % static_cast<unsigned>(ring.size()));
        const std::uint64_t deviation = 1 + random() % 100;
        const std::uint64_t first = deviation > 2 ? deviation - 2 : 1;
        std::vector<std::uint64_t> reached;
        for (int rank = 0; rank < ring.size(); ++rank) {
            reached.push_back(first + random() % 4);
            for (std::uint64_t call = 1; call <= reached.back(); ++call) {
                ring.at(rank).enter(all_reduce_call(call, rank == deviator && call == deviation ? 11 : 10));
            }
        }
        bool disagree = false;
        for (int rank = 0; rank < ring.size(); ++rank) {
            const std::uint64_t theirs = reached[static_cast<std::size_t>(rank)];
            const std::uint64_t deviators = reached[static_cast<std::size_t>(deviator)];
            disagree |= rank != deviator && std::min(theirs, deviators) == deviation;
        }
        // Where it is not known what most ranks call, it takes some questions more.
        for (std::uint32_t question = 1; question <= 1 + kQuestionsToJudge; ++question) {
            for (int rank = 0; rank < ring.size(); ++rank) ring.send(rank, ring.at(rank).ask(question));
            ring.settle();
        }
        found += disagree ? 1 : 0;
        for (int rank = 0; rank < ring.size(); ++rank) {
            const auto& verdict = ring.at(rank).verdict();
            REQUIRE(verdict.has_value() == disagree);
            if (!disagree) continue;
            REQUIRE(verdict->code == CollectiveErrorCode::mismatch);
            REQUIRE(std::count(verdict->culprits.begin(), verdict->culprits.end(), deviator) == 1);
        }
    }
    REQUIRE(found > 50);
}

TEST_CASE("questions of all ranks about one call cost two notices a rank, each round again", "[lifeline]") {
    std::mt19937 random(5);
    Ring ring(9, random);
    for (int rank = 0; rank < 9; ++rank) ring.at(rank).enter(all_reduce_call(2));
    for (const std::uint32_t round : {1U, 2U, 3U}) {
        for (int rank = 0; rank < 9; ++rank) ring.send(rank, ring.at(rank).ask(round));
        REQUIRE(ring.settle() == 2 * 9);
    }
}

TEST_CASE("who makes another call only after the first question is found by the next", "[lifeline]") {
    std::mt19937 random(5);
    Ring ring(4, random);
    for (const int rank : {0, 1, 2}) ring.at(rank).enter(all_reduce_call(2));
    ring.send(1, ring.at(1).ask(1));
    ring.settle();
    ring.at(3).enter(all_reduce_call(2, 11));
    ring.at(3).enter(all_reduce_call(3));
    REQUIRE_FALSE(ring.at(0).verdict().has_value());
    ring.send(1, ring.at(1).ask(2));
    ring.settle();
    for (int rank = 0; rank < 4; ++rank) REQUIRE(ring.at(rank).verdict()->culprits == std::vector<int>{3});
}

TEST_CASE("send and recv are no matter of questions", "[lifeline]") {
    LifelineState state(0, 2);
    state.enter({Operation::recv, DataType::f32, ReduceOp::sum, 1, 10, 4});
    REQUIRE(state.ask(1).empty());
    state.enter(all_reduce_call(5));
    REQUIRE(state.heard(QuestionNotice{7, 1, all_reduce_call(5, 11)}, 1).empty());
}

TEST_CASE("a rank that does not answer stays open", "[lifeline]") {
    std::mt19937 random(3);
    Ring ring(4, random);
    LifelineState alone(0, 4);
    alone.inquire();
    REQUIRE_FALSE(alone.all_answered());
    REQUIRE(alone.progress()[0].has_value());
    REQUIRE_FALSE(alone.progress()[1].has_value());
}

TEST_CASE("notices about ranks that do not exist are ignored", "[lifeline]") {
    LifelineState state(0, 2);
    REQUIRE(state.heard(LeftNotice{9, 1}, 1).empty());
    REQUIRE(state.heard(LeftNotice{-1, 1}, 1).empty());
    REQUIRE(state.heard(ProgressNotice{7, 1, {}}, 1).empty());
}

TEST_CASE("what a communicator's errors say of a rank can be read again", "[lifeline]") {
    const auto blamed = [](const Verdict& verdict) -> std::optional<std::pair<Charge, int>> {
        const auto found = find_accusation(error_of(verdict, all_reduce_call(5)).what());
        if (!found) return std::nullopt;
        return std::pair(found->charge, found->rank);
    };
    CHECK(blamed(death_verdict(2, kProcessEnded)) == std::pair(Charge::died, 2));
    CHECK(blamed(abort_verdict(3, "enough")) == std::pair(Charge::aborted, 3));
    CHECK_FALSE(blamed(mismatch_verdict(0, all_reduce_call(5), 1, all_reduce_call(5, 11))));
    CHECK(find_accusation(error_of(death_verdict(2, kProcessEnded), "finalize").what())->rank == 2);
    const std::vector<std::optional<Call>> progress = {all_reduce_call(5), all_reduce_call(4), std::nullopt,
                                                       Call{}};
    CHECK(blamed(blame_for_deadline(progress, all_reduce_call(5), 0, {1}, kLateLimit)) ==
          std::pair(Charge::does_not_answer, 2));
    const auto notice = notice_of_wait(progress, all_reduce_call(5), 0, {1}, kLateLimit);
    REQUIRE(notice);
    CHECK_FALSE(find_accusation(*notice));
}

TEST_CASE("ranks that have other numbers than the launcher gave are blamed by nobody", "[lifeline]") {
    for (const bool own_numbers : {false, true}) {
        LifelineState state(0, 3, own_numbers);
        state.lost(1);
        const std::string text = error_of(*state.verdict(), all_reduce_call(5)).what();
        CHECK_THAT(text, Catch::Contains("rank 1 died"));
        CHECK(find_accusation(text).has_value() == !own_numbers);
        // Another way told of it as well.
        LifelineState other(2, 3, own_numbers);
        other.declare(*state.verdict());
        CHECK(other.verdict() == state.verdict());
    }
}

TEST_CASE("lateness: those who have not come or do not answer are to blame", "[lateness]") {
    std::vector<std::optional<Call>> progress{all_reduce_call(5), all_reduce_call(5), all_reduce_call(4),
                                              std::nullopt};
    const Verdict verdict = blame_for_deadline(progress, all_reduce_call(5), 0, {1}, kLateLimit);
    REQUIRE(verdict.code == CollectiveErrorCode::timed_out);
    REQUIRE(verdict.culprits == std::vector<int>{2, 3});
    REQUIRE(verdict.text ==
            "after 1.500 s (operation_timeout) rank 2 is at all_reduce(sum, 10 f32) as call 4, rank 3 does "
            "not answer");
}

TEST_CASE("lateness: ranks in another call of the same number disagree", "[lateness]") {
    std::vector<std::optional<Call>> progress{all_reduce_call(5), all_reduce_call(5, 11), all_reduce_call(4)};
    const Verdict verdict = blame_for_deadline(progress, all_reduce_call(5), 0, {1}, kLateLimit);
    REQUIRE(verdict.code == CollectiveErrorCode::mismatch);
    REQUIRE(verdict.culprits == std::vector<int>{1, 0});
}

TEST_CASE("lateness: when all have come, the rank that was waited for is named", "[lateness]") {
    std::vector<std::optional<Call>> progress(3, all_reduce_call(5));
    REQUIRE(blame_for_deadline(progress, all_reduce_call(5), 0, {2}, kLateLimit).culprits ==
            std::vector<int>{2});
    const Call recv{Operation::recv, DataType::f32, ReduceOp::sum, 1, 10, 4};
    const Verdict verdict = blame_for_deadline(progress, recv, 0, {1}, kLateLimit);
    REQUIRE(verdict.code == CollectiveErrorCode::timed_out);
    REQUIRE(verdict.culprits == std::vector<int>{1});
}

TEST_CASE("lateness: of the ranks that a group waits for, those are named that exchange nothing",
          "[lateness]") {
    const Call group{Operation::group, DataType::f32, ReduceOp::sum, -1, 3, 4};
    const Call recv{Operation::recv, DataType::f32, ReduceOp::sum, 2, 10, 4};
    std::vector<std::optional<Call>> progress{group, group, all_reduce_call(4), recv};
    REQUIRE(blame_for_deadline(progress, group, 0, {3, 2, 1, 2}, kLateLimit).culprits == std::vector<int>{2});
    const Verdict verdict = blame_for_deadline(progress, group, 0, {3, 1, 3}, kLateLimit);
    REQUIRE(verdict.code == CollectiveErrorCode::timed_out);
    REQUIRE(verdict.culprits == std::vector<int>{1, 3});
    REQUIRE(
        verdict.text ==
        "after 1.500 s (operation_timeout) rank 1 is at group of 3, rank 3 is at recv(10 f32 from rank 2)");
    progress[1] = std::nullopt;
    REQUIRE(blame_for_deadline(progress, group, 0, {1, 3}, kLateLimit).culprits == std::vector<int>{1});
}

TEST_CASE("lateness where all have come tells who has gone on", "[lifeline]") {
    const std::vector<std::optional<Call>> progress{all_reduce_call(5), all_reduce_call(5),
                                                    all_reduce_call(6)};
    const Verdict verdict = blame_for_deadline(progress, all_reduce_call(5), 0, {1}, kLateLimit);
    REQUIRE(verdict.code == CollectiveErrorCode::timed_out);
    REQUIRE(verdict.culprits == std::vector<int>{1});
    REQUIRE(verdict.text.find("; rank 2 is at all_reduce") != std::string::npos);
}
