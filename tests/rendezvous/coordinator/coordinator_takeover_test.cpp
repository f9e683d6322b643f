// What a coordinator takes over, and what takes part in a quorum.
#include <algorithm>
#include <functional>
#include <utility>

#include "rendezvous/link/host_lease.hpp"
#include "rendezvous/link/job_memory.hpp"
#include "rendezvous/membership/quorum.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/coordinator_fixture.hpp"

namespace ddprun {

using namespace std::chrono_literals;
namespace {

MemberList list_of(int nodes) {
    MemberList list{.epoch = 3,
                    .round = 5,
                    .job_id = "job",
                    .start_unix_s = 1234,
                    .size = nodes,
                    .host_rank = 0,
                    .heartbeat_ms = 600};
    for (int rank = 0; rank < std::min(nodes, static_cast<int>(kMaxMembersListed)); ++rank)
        list.members.push_back(
            {rank, rank, "gpu" + std::to_string(rank), 100 + rank, 0, 1, "10.0.0.1", 29500 + rank});
    return list;
}

Hello follower(int rank, int nodes) {
    Hello one = hello(kUnnumbered, nodes);
    one.min_nodes = 1;
    one.host = "gpu" + std::to_string(rank);
    one.pid = 100 + rank;
    one.following = Following{.last = list_of(nodes), .group_rank = rank, .base_rank = rank, .place = rank};
    one.following->dead = {0};
    return one;
}

CoordinatorOptions options_for(int nodes) {
    CoordinatorOptions options{.version = "1", .nnodes = nodes};
    options.elasticity.min_nodes = 1;
    options.heartbeat = 600ms;
    options.own_agent = follower(1, nodes);
    options.start_unix_s = 5678;  // of its own launcher
    options.failover = true;
    options.predecessor = list_of(nodes);
    return options;
}

// Agents 1 to nodes - 1 follow, over connections of those numbers; returns how many messages that took.
std::size_t take_over(Coordinator& coordinator, int nodes, std::vector<Coordinator::Outgoing>& heard) {
    std::size_t messages = 0;
    std::vector<std::pair<std::uint64_t, int>> asked;
    const auto take = [&](const Coordinator::Outbox& outbox) {
        messages += outbox.size() + 1;
        for (const auto& outgoing : outbox) {
            heard.push_back(outgoing);
            if (const auto* lead = std::get_if<Lead>(&outgoing.message))
                asked.emplace_back(outgoing.to, lead->epoch);
        }
    };
    for (int rank = 1; rank < nodes; ++rank)
        take(coordinator.receive(static_cast<std::uint64_t>(rank), follower(rank, nodes), kStart));
    for (const auto& [agent, epoch] : asked) {
        take(coordinator.receive(agent, gone(5, false), kStart));
        take(coordinator.receive(agent, Follow{epoch}, kStart));
    }
    return messages;
}

}  // namespace

TEST_CASE("a takeover's messages grow as the number of nodes does") {
    for (const int nodes : {10, 100, 1'000}) {
        Coordinator coordinator(options_for(nodes), kStart);
        std::vector<Coordinator::Outgoing> heard;
        const std::size_t messages = take_over(coordinator, nodes, heard);
        WARN(nodes << " nodes: " << messages << " messages");
        CHECK(messages < 10 * static_cast<std::size_t>(nodes));
        const auto announced = of_type<Restarting>(heard);
        REQUIRE(announced.size() == static_cast<std::size_t>(nodes) - 1);
        CHECK(announced[0].nodes == nodes - 1);
        CHECK(announced[0].cause.kind == Failure::Kind::node_lost);
        CHECK(announced[0].cause.host == "gpu0");
    }
}

TEST_CASE(
    "a host that has lost all others has its workers ended in time, also if it stands still from then on") {
    constexpr int kNodes = 3;
    CoordinatorOptions options{.version = "1", .run_id = "none", .nnodes = kNodes};
    options.elasticity.min_nodes = 1;
    options.heartbeat = 600ms;
    options.failover = true;
    const auto member = [](int rank) {
        Hello one = hello(rank, kNodes);
        one.min_nodes = 1;
        one.grace_ms = 3'000;
        return one;
    };
    options.own_agent = member(0);
    Coordinator coordinator(options, kStart);
    for (int rank = 0; rank < kNodes; ++rank)
        coordinator.receive(static_cast<std::uint64_t>(rank) + 1, member(rank), kStart);
    for (int rank = 0; rank < kNodes; ++rank)
        coordinator.receive(static_cast<std::uint64_t>(rank) + 1, Heartbeat{}, kStart);
    REQUIRE(coordinator.lease_end());
    TimePoint now = kStart;
    std::vector<Stop> stops;
    while (stops.empty()) {
        now = coordinator.next_deadline().value();
        REQUIRE(now < kStart + 60s);
        for (const Stop& stop : of_type<Stop>(coordinator.tick(now))) stops.push_back(stop);
    }
    for (int i = 0; i < 5; ++i) coordinator.tick(now += 300ms);
    REQUIRE(coordinator.lease_end());
    CHECK(*coordinator.lease_end() > kStart + 3s);
    CHECK(*coordinator.lease_end() <= now + 3s + Coordinator::kKillTime);
}

TEST_CASE("a coordinator that takes over keeps the job's id and start, and tells the next one of them") {
    Coordinator coordinator(options_for(3), kStart);
    std::vector<Coordinator::Outgoing> out;
    take_over(coordinator, 3, out);
    for (TimePoint now = kStart; of_type<RoundReady>(out).empty(); out = coordinator.tick(now)) {
        now = coordinator.next_deadline().value();
        REQUIRE(now < kStart + 60s);
    }
    for (const RoundReady& round : of_type<RoundReady>(out)) {
        CHECK(round.job_id == "job");
        CHECK(round.start_unix_s == 1234);
    }
    REQUIRE_FALSE(of_type<MemberList>(out).empty());
    CHECK(of_type<MemberList>(out).front().start_unix_s == 1234);
}

TEST_CASE("who has not heard of the last round has its place of that, and not one that is another's by now") {
    CoordinatorOptions options = options_for(3);
    options.predecessor->members[2].place = 7;
    options.own_agent->following->last = *options.predecessor;
    Coordinator coordinator(options, kStart);
    Hello late = follower(2, 3);
    --late.following->last.round;
    late.following->place = 1;
    coordinator.receive(1, *options.own_agent, kStart);
    coordinator.receive(2, late, kStart);
    coordinator.receive(1, gone(5, false), kStart);
    coordinator.receive(2, gone(4, false), kStart);
    coordinator.receive(1, Follow{4}, kStart);
    Coordinator::Outbox out = coordinator.receive(2, Follow{4}, kStart);
    REQUIRE(coordinator.is_elected());
    for (TimePoint now = kStart; of_type<RoundReady>(out).empty(); out = coordinator.tick(now)) {
        now = coordinator.next_deadline().value();
        REQUIRE(now < kStart + 60s);
        coordinator.receive(2, Heartbeat{}, now);
    }
    const auto ready = of_type<RoundReady>(out);
    REQUIRE(ready.size() == 2);
    CHECK(ready[0].place == 1);
    CHECK(ready[1].place == 7);
}

TEST_CASE("who takes over gives those who may live their time, though its own clock jumps ahead") {
    const std::chrono::milliseconds jump = GENERATE(0ms, 20'000ms);
    const bool jumps_before = GENERATE(true, false);  // it is elected
    CoordinatorOptions options = options_for(4);
    options.predecessor->grace_ms = 15'000;
    Coordinator coordinator(options, kStart);
    TimePoint now = kStart;
    bool has_begun = false;
    // Agent 3 never comes; the other guest answers whatever it is asked.
    std::function<void(const Coordinator::Outbox&)> take = [&](const Coordinator::Outbox& outbox) {
        for (const auto& [to, message, closes, ends] : outbox) {
            has_begun = has_begun || std::holds_alternative<RoundReady>(message);
            if (const auto* lead = std::get_if<Lead>(&message)) {
                take(coordinator.receive(to, gone(5, false), now));
                take(coordinator.receive(to, Follow{lead->epoch}, now));
            } else if (const auto* question = std::get_if<Heartbeat>(&message)) {
                take(coordinator.receive(to, Heartbeat{.number = question->number}, now));
            }
        }
    };
    for (const int rank : {1, 2}) {
        Hello one = follower(rank, 4);
        one.following->last = *options.predecessor;
        take(coordinator.receive(static_cast<std::uint64_t>(rank), one, now));
    }
    const HeartbeatTerms terms{options.heartbeat};
    const TimePoint earliest = kStart + terms.patience() + terms.period() + 15s;
    bool has_jumped = false;
    while (!has_begun) {
        now = coordinator.next_deadline().value();
        if (coordinator.is_elected() != jumps_before && !std::exchange(has_jumped, true)) now += jump;
        REQUIRE(now < kStart + 60s);
        take(coordinator.tick(now));
    }
    CHECK(now >= earliest + jump);
    CHECK(now <= earliest + jump + 2s);
}

TEST_CASE("the loss of the host's own agent is no word of the host's death") {
    CoordinatorOptions options = options_for(3);
    options.predecessor.reset();
    const auto member = [](int number) {
        Hello one = follower(number, 3);
        one.following.reset();
        return one;
    };
    options.own_agent = member(0);
    Coordinator coordinator(options, kStart);
    for (const int number : {0, 1, 2})
        coordinator.receive(static_cast<std::uint64_t>(number) + 1, member(number), kStart);
    for (const int number : {0, 1, 2})
        coordinator.receive(static_cast<std::uint64_t>(number) + 1, Heartbeat{}, kStart);
    CHECK(of_type<MemberGone>(coordinator.closed(1, kStart, true)).empty());
    CHECK(of_type<MemberGone>(coordinator.closed(3, kStart, true)).size() == 1);
}

TEST_CASE("no round begins on a host whose lease has ended, unless that moves on") {
    HostLease lease;
    CHECK_FALSE(lease.has_ended(1, kStart));
    lease.learn({1, kStart + 2s});
    lease.learn({1, kStart + 3s});
    CHECK_FALSE(lease.has_ended(1, kStart + 2s));
    CHECK(lease.has_ended(1, kStart + 3s));
    CHECK_FALSE(lease.has_ended(2, kStart + 3s));
    lease.learn({1, kStart + 9s});
    CHECK_FALSE(lease.has_ended(1, kStart + 4s));
    lease.learn({1, std::nullopt});
    CHECK_FALSE(lease.has_ended(1, kStart + 20s));
}

TEST_CASE("another epoch where somebody has followed that one already") {
    Coordinator coordinator(options_for(4), kStart);
    Hello one = follower(1, 4);
    CHECK(of_type<Lead>(coordinator.receive(1, one, kStart)).empty());
    const auto first = of_type<Lead>(coordinator.receive(2, follower(2, 4), kStart));
    REQUIRE(first.size() == 2);
    CHECK(first[0].epoch == 4);
    Hello third = follower(3, 4);
    third.following->followed = 9;
    const auto second = of_type<Lead>(coordinator.receive(3, third, kStart));
    REQUIRE(second.size() == 3);
    CHECK(second[0].epoch == 10);
    // An answer to the question before counts for nothing.
    for (const std::uint64_t agent : {1, 2, 3}) coordinator.receive(agent, Follow{4}, kStart);
    CHECK_FALSE(coordinator.is_elected());
    for (const std::uint64_t agent : {1, 2, 3}) coordinator.receive(agent, Follow{10}, kStart);
    CHECK(coordinator.is_elected());
}

TEST_CASE("who follows another job's coordinator is refused, and a newcomer waits") {
    Coordinator coordinator(options_for(4), kStart);
    Hello stranger = follower(2, 4);
    stranger.following->last.job_id = "another";
    const auto refused = of_type<Refused>(coordinator.receive(2, stranger, kStart));
    REQUIRE(refused.size() == 1);
    CHECK(refused[0].exit_code == kExitNotAdmitted);
    Hello newcomer = hello(kUnnumbered, 4);
    newcomer.min_nodes = 1;
    newcomer.host = "gpu9";
    CHECK(of_type<Parked>(coordinator.receive(3, newcomer, kStart)).size() == 1);
}

TEST_CASE("who comes to a job that was taken over is compared with those who followed") {
    CoordinatorOptions options = options_for(4);
    options.strict_env = true;
    Coordinator coordinator(options, kStart);
    const auto saying = [](Hello agent, const char* value) {
        agent.traits = {{"NCCL_DEBUG", value}};
        return agent;
    };
    Hello newcomer = hello(kUnnumbered, 4);
    newcomer.min_nodes = 1;
    newcomer.host = "gpu9";
    CHECK(of_type<Parked>(coordinator.receive(9, saying(newcomer, "INFO"), kStart)).size() == 1);
    for (const int agent : {1, 2, 3})
        coordinator.receive(static_cast<std::uint64_t>(agent), saying(follower(agent, 4), "WARN"), kStart);
    Coordinator::Outbox out;
    for (const std::uint64_t agent : {1, 2, 3}) {
        coordinator.receive(agent, gone(5, false), kStart);
        out = coordinator.receive(agent, Follow{4}, kStart);
    }
    CHECK(coordinator.is_elected());
    const auto refused = of_type<Refused>(out);
    REQUIRE(refused.size() == 1);
    CHECK_THAT(refused[0].reason, Catch::Contains(R"(gpu9 has "INFO", the others "WARN")"));
    newcomer.pid = 7;
    CHECK(of_type<Parked>(coordinator.receive(10, saying(newcomer, "WARN"), kStart)).size() == 1);
}

TEST_CASE("a quorum is more than half, or half with the first") {
    CHECK(is_quorum({.living = 3, .present = 2, .has_first = false}));
    CHECK_FALSE(is_quorum({.living = 3, .present = 1, .has_first = true}));
    CHECK(is_quorum({.living = 4, .present = 2, .has_first = true}));
    CHECK_FALSE(is_quorum({.living = 4, .present = 2, .has_first = false}));
    CHECK(is_quorum({.living = 1, .present = 1, .has_first = false}));
    Quorum quorum(4, {1, 2, 3, 4}, 1);
    quorum.lose(4, true);
    CHECK(quorum.living() == 3);
    quorum.lose(3, false);
    CHECK(quorum.holds());
    quorum.lose(2, false);
    CHECK_FALSE(quorum.holds());
    quorum.lose(2, true);  // once is enough
    CHECK(quorum.living() == 3);
}

TEST_CASE("no two halves that cannot see each other go on, whatever they know of the dead") {
    constexpr int kNodes = 6, kSets = 1 << kNodes;
    const auto first_of = [](int living) { return living & -living; };
    for (int dead = 0; dead < kSets; ++dead) {
        for (int known = 0; known < kSets; ++known) {
            if ((known & ~dead) != 0) continue;
            for (int side = 0; side < kSets; ++side) {
                const int other = ~side & ~dead & (kSets - 1);
                if ((side & dead) != 0) continue;
                const auto goes_on = [&](int members, int known_dead) {
                    const int living = (kSets - 1) & ~known_dead;
                    return is_quorum(
                        {static_cast<std::size_t>(__builtin_popcount(static_cast<unsigned>(living))),
                         static_cast<std::size_t>(__builtin_popcount(static_cast<unsigned>(members))),
                         (members & first_of(living)) != 0});
                };
                REQUIRE_FALSE((goes_on(side, known) && goes_on(other, dead)));
            }
        }
    }
}

TEST_CASE("who has heard of a later round without it has no voice") {
    JobMemory memory(kUnnumbered);
    const MemberList list = list_of(3);
    memory.learn(list);
    CHECK_FALSE(memory.following());
    memory.learn(RoundReady{.round = list.round, .job_id = "job", .group_rank = 2, .group_world_size = 3});
    REQUIRE(memory.following());
    CHECK(memory.following()->group_rank == 2);
    memory.learn(list);  // again, from one that has taken over
    CHECK(memory.following());
    MemberList later = list;
    ++later.round;
    memory.learn(later);
    CHECK_FALSE(memory.following());
    memory.learn(RoundReady{.round = later.round, .job_id = "job", .group_rank = 1, .group_world_size = 2});
    REQUIRE(memory.following());
    CHECK(memory.following()->last.version() == later.version());
}

TEST_CASE("an agent calls at one after the other, hosts in its turn, and ends when its time is over") {
    Following own{.last = list_of(4), .group_rank = 2};
    own.dead = {1};
    own.last.members.back().port = 0;
    Succession succession(own, kStart);
    CHECK(succession.next(kStart).kind == Succession::Kind::host);
    CHECK(succession.next(kStart).kind == Succession::Kind::pause);
    CHECK(succession.next(succession.deadline() - 1ms).member.group_rank == 2);
    CHECK(succession.next(succession.deadline()).kind == Succession::Kind::end);
    CHECK(succession.promise(4));
    CHECK_FALSE(succession.promise(4));
    CHECK(succession.promise(5));
    Following last{.last = list_of(4), .group_rank = 3};
    Succession other(last, kStart);
    CHECK(other.next(kStart).member.group_rank == 1);
    other.note_gone(2);
    CHECK(other.next(kStart).kind == Succession::Kind::host);
}

}  // namespace ddprun
