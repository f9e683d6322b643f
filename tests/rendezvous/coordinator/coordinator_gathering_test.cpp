// Who takes part in a job, who is refused, and what those who wait hear.
#include <algorithm>

#include "rendezvous/control/control_text.hpp"
#include "rendezvous/coordinator/admission.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/coordinator_fixture.hpp"

namespace ddprun {

using namespace std::chrono_literals;

TEST_CASE("the round begins when the last node joins, in whatever order") {
    Coordinator coordinator = make(3);
    CHECK(coordinator.receive(7, hello(2, 3, 5), kStart).empty());
    CHECK(coordinator.receive(8, hello(0, 3, 2), kStart).empty());
    auto out = coordinator.receive(9, hello(1, 3, 1), kStart);
    REQUIRE(out.size() == 3);
    std::map<std::uint64_t, RoundReady> ready;
    for (const auto& outgoing : out) ready[outgoing.to] = std::get<RoundReady>(outgoing.message);
    CHECK(ready.at(8).base_rank == 0);
    CHECK(ready.at(9).base_rank == 2);
    CHECK(ready.at(7).base_rank == 3);
    for (const auto& [connection, round] : ready) {
        CHECK(round.world_size == 8);
        CHECK(round.group_world_size == 3);
        CHECK(round.job_id == "job");
    }
    CHECK(ready.at(7).group_rank == 2);
}

TEST_CASE("an agent that does not fit is refused with both values, and nothing else changes") {
    Coordinator coordinator = make(2);
    coordinator.receive(1, hello(0, 2), kStart);

    struct Case {
        Hello hello;
        std::vector<std::string> words;
    };
    auto with = [](auto change) {
        Hello changed = hello(1, 2);
        change(changed);
        return changed;
    };
    const std::vector<Case> cases = {
        {with([](Hello& h) { h.nnodes = 3; }), {"--nnodes is 3", "--nnodes 2"}},
        {with([](Hello& h) { h.node_rank = 2; }), {"--node-rank 2", "out of range"}},
        {with([](Hello& h) { h.node_rank = -2; }), {"--node-rank -2", "out of range"}},
        {with([](Hello& h) { h.node_rank = 0; }), {"--node-rank 0", "already joined from gpu0", "pid 100"}},
        {with([](Hello& h) { h.min_nodes = 1; }), {"--nnodes is 1:2", "--nnodes 2"}},
    };
    std::uint64_t connection = 10;
    for (const Case& refused : cases) {
        auto out = coordinator.receive(++connection, refused.hello, kStart);
        REQUIRE(out.size() == 2);
        CHECK(out[0].to == connection);
        CHECK(out[0].close_after);
        const auto& message = std::get<Refused>(out[0].message);
        CHECK(message.exit_code == kExitNotAdmitted);
        // Node 0's user reads the same.
        CHECK(out[1].to == 1);
        CHECK_THAT(message.reason, Catch::StartsWith(std::get<PeerRefused>(out[1].message).reason));
        for (const std::string& word : refused.words) CHECK_THAT(message.reason, Catch::Contains(word));
        CHECK(coordinator.closed(connection, kStart).empty());
    }
    CHECK(of_type<RoundReady>(coordinator.receive(2, hello(1, 2), kStart)).size() == 2);
    CHECK(of_type<Refused>(coordinator.receive(30, hello(1, 2), kStart)).size() == 1);
}

TEST_CASE("node 0's agent hears once of each refusal, also of those before it came") {
    Coordinator coordinator = make(2);
    Hello stranger = hello(1, 2);
    stranger.run_id = "other";
    for (std::uint64_t connection = 10; connection < 20; ++connection)
        CHECK(coordinator.receive(connection, stranger, kStart).size() == 1);
    auto told = of_type<PeerRefused>(coordinator.receive(1, hello(0, 2), kStart));
    REQUIRE(told.size() == 1);
    CHECK(told[0].host == "gpu1");
    CHECK(told[0].pid == 101);
    CHECK(of_type<PeerRefused>(coordinator.receive(20, stranger, kStart)).empty());
    std::size_t heard = 0;
    for (std::uint64_t connection = 100; connection < 300; ++connection) {
        stranger.run_id = "other" + std::to_string(connection);
        heard += of_type<PeerRefused>(coordinator.receive(connection, stranger, kStart)).size();
    }
    CHECK(heard == Roster::kMaxRefusalsTold - 1);
}

TEST_CASE("agents with different commands do not join one job, those of different roles may") {
    Coordinator coordinator = make(3);
    const auto runs = [](int node_rank, const std::string& role, const std::string& program) {
        Hello agent = hello(node_rank, 3);
        agent.role = role;
        agent.command = describe_command({program});
        return agent;
    };
    coordinator.receive(1, runs(0, "trainer", "train"), kStart);
    CHECK(of_type<Refused>(coordinator.receive(2, runs(1, "trainer", "evaluate"), kStart)).size() == 1);
    CHECK(of_type<Refused>(coordinator.receive(3, runs(1, "evaluator", "evaluate"), kStart)).empty());
    CHECK(of_type<Refused>(coordinator.receive(4, runs(2, "evaluator", "train"), kStart)).size() == 1);
    CHECK(of_type<RoundReady>(coordinator.receive(5, runs(2, "trainer", "train"), kStart)).size() == 3);
}

TEST_CASE("who comes before node 0's own agent neither takes its place nor decides what the job runs") {
    const auto runs = [](Hello agent, const std::string& program) {
        agent.command = describe_command({program});
        return agent;
    };
    const Hello own = runs(hello(0, 2), "train");
    Coordinator coordinator = make_with_own_agent(own);
    Hello impostor = own;
    impostor.host = "gpu7";
    auto refused = of_type<Refused>(coordinator.receive(1, impostor, kStart));
    REQUIRE(refused.size() == 1);
    CHECK_THAT(refused[0].reason,
               Catch::Contains("--node-rank 0 has already joined from gpu0 (agent pid 100)"));
    refused = of_type<Refused>(coordinator.receive(2, runs(hello(1, 2), "evaluate"), kStart));
    REQUIRE(refused.size() == 1);
    CHECK_THAT(refused[0].reason, Catch::Contains("node 0 (gpu0) runs \"train\""));
    CHECK(of_type<Refused>(coordinator.receive(3, runs(hello(1, 2), "train"), kStart)).empty());
    const auto out = coordinator.receive(4, own, kStart);
    CHECK(of_type<RoundReady>(out).size() == 2);
    CHECK(of_type<Refused>(out).empty());
}

TEST_CASE("node 0 is told by which of its addresses it was reached") {
    Coordinator coordinator = make(2);
    Hello other = hello(1, 2);
    other.reached_at = "10.78.0.1";
    coordinator.receive(1, other, kStart);
    const auto out = coordinator.receive(2, hello(0, 2), kStart);
    for (const auto& outgoing : out) {
        const auto* ready = std::get_if<RoundReady>(&outgoing.message);
        if (ready != nullptr) CHECK(ready->reached_at == (ready->group_rank == 0 ? "10.78.0.1" : ""));
    }
    CHECK(of_type<RoundReady>(out).size() == 2);
}

TEST_CASE("who waits hears who is missing: after a while, then on changes, not too often") {
    Coordinator coordinator = make(3);
    coordinator.receive(1, hello(0, 3), kStart);
    REQUIRE(coordinator.next_deadline() == kStart + Roster::kFirstStatusDelay);
    CHECK(coordinator.tick(kStart + 1s).empty());

    auto out = coordinator.tick(kStart + Roster::kFirstStatusDelay);
    REQUIRE(of_type<Waiting>(out).size() == 1);
    CHECK(to_text(of_type<Waiting>(out)[0]) == "joined 1/3, missing node 1, node 2");
    CHECK(coordinator.next_deadline() == kStart + 900s);

    const TimePoint later = kStart + Roster::kFirstStatusDelay + 100ms;
    coordinator.receive(2, hello(2, 3), later);
    const TimePoint due = kStart + Roster::kFirstStatusDelay + Roster::kStatusPeriod;
    REQUIRE(coordinator.next_deadline() == due);
    out = coordinator.tick(due);
    REQUIRE(of_type<Waiting>(out).size() == 2);
    CHECK(to_text(of_type<Waiting>(out)[0]) == "joined 2/3, missing node 1");

    coordinator.closed(2, due + 10s);
    out = coordinator.tick(due + 11s);
    REQUIRE(of_type<Waiting>(out).size() == 1);
    CHECK(to_text(of_type<Waiting>(out)[0]) == "joined 1/3, missing node 1, node 2");
    CHECK(coordinator.receive(3, hello(2, 3), due + 12s).empty());
    CHECK(of_type<RoundReady>(coordinator.receive(4, hello(1, 3), due + 12s)).size() == 3);
    CHECK_FALSE(coordinator.next_deadline());
}

TEST_CASE("a long list of missing nodes is cut, with the rest counted") {
    Coordinator coordinator = make(1000);
    coordinator.receive(1, hello(0, 1000), kStart);
    auto waiting = of_type<Waiting>(coordinator.tick(kStart + 5s));
    REQUIRE(waiting.size() == 1);
    CHECK(waiting[0].missing.size() == kMaxMissingListed);
    CHECK_THAT(to_text(waiting[0]), Catch::EndsWith("node 64 and 935 more"));
}

TEST_CASE("who waits hears where the others are, while they are few") {
    Coordinator coordinator = make(20);
    const int few = static_cast<int>(kMaxPresentListed);
    for (int rank = 0; rank < few; ++rank)
        coordinator.receive(static_cast<std::uint64_t>(rank) + 1, hello(rank, 20), kStart);
    auto told = of_type<Waiting>(coordinator.tick(kStart + 5s));
    REQUIRE(told.size() == kMaxPresentListed);
    CHECK_THAT(present_text(told[0]), Catch::StartsWith("; there: node 0 (gpu0), node 1 (gpu1), ") &&
                                          Catch::EndsWith("node 7 (gpu7)"));
    coordinator.receive(100, hello(few, 20), kStart + 6s);
    told = of_type<Waiting>(coordinator.tick(kStart + 7s));
    REQUIRE(told.size() == kMaxPresentListed + 1);
    CHECK(present_text(told[0]).empty());
}

TEST_CASE("a stranger hears of its own value only, and node 0's user of both") {
    struct Case {
        std::string version, run_id;
        std::string answer, told;
    };
    const std::vector<Case> cases = {
        {"2", "none", "this agent is ddprun 2, and node 0 is of another version; install one on all nodes",
         "it is ddprun 2, and this node is ddprun 1; install one version on all nodes"},
        {"2", "b", "this agent is ddprun 2, and node 0 is of another version; install one on all nodes",
         "it is ddprun 2, and this node is ddprun 1; install one version on all nodes"},
        {"1", "b",
         "this agent's --rdzv-id is \"b\", and the port that it has reached belongs to another job; node 0 "
         "of "
         "that one says more",
         "its --rdzv-id is \"b\", and this job's is \"none\""},
    };
    for (const Case& one : cases) {
        // Also where its number is taken, and once the job runs.
        for (const bool runs : {false, true}) {
            Coordinator coordinator = make(2);
            coordinator.receive(1, hello(0, 2), kStart);
            if (runs) coordinator.receive(2, hello(1, 2), kStart);
            Hello stranger = hello(0, 3, 2);
            stranger.host = "elsewhere";
            stranger.version = one.version;
            stranger.run_id = one.run_id;
            const auto out = coordinator.receive(50, stranger, kStart);
            REQUIRE(of_type<Refused>(out).size() == 1);
            CHECK(of_type<Refused>(out)[0].reason == one.answer);
            REQUIRE(of_type<PeerRefused>(out).size() == 1);
            CHECK(of_type<PeerRefused>(out)[0].reason == one.told);
        }
    }
}

TEST_CASE("who seeks its job's port is told of the other job, and nobody else is") {
    Coordinator coordinator = make(2);
    coordinator.receive(1, hello(0, 2), kStart);
    Hello seeker = hello(1, 2);
    seeker.run_id = "other";
    for (const bool seeks : {true, false}) {
        seeker.seeks_port = seeks;
        const auto out = coordinator.receive(2, seeker, kStart);
        CHECK_THAT(of_type<Refused>(out).at(0).other_job, Catch::Equals(kPortOfAnotherJob));
        CHECK(of_type<PeerRefused>(out).empty() == seeks);
    }
    seeker = hello(1, 2);
    seeker.version = "another";
    CHECK(of_type<Refused>(coordinator.receive(3, seeker, kStart)).at(0).other_job.empty());
}

TEST_CASE("a coordinator whose job is elsewhere says so to nobody of another job") {
    CoordinatorOptions options;
    options.nnodes = 2;
    options.own_agent = hello(0, 2);
    options.version = options.own_agent->version;
    options.run_id = options.own_agent->run_id;
    Coordinator coordinator(options, kStart);
    const JobMoved moved{
        options.version, options.run_id, 2, 0, options.own_agent->command.digest, "10.0.0.2", 7};
    coordinator.receive(1, moved, kStart);
    Hello stranger = hello(1, 2);
    CHECK(of_type<JobMoved>(coordinator.receive(2, stranger, kStart)).size() == 1);
    stranger.run_id = "other";
    const auto out = coordinator.receive(3, stranger, kStart);
    CHECK(of_type<JobMoved>(out).empty());
    CHECK(of_type<Refused>(out).size() == 1);
}

TEST_CASE(
    "a coordinator whose round runs says once that another group of the job's nodes goes on elsewhere") {
    CoordinatorOptions options;
    options.own_agent = hello(0, 1);
    options.version = options.own_agent->version;
    options.run_id = options.own_agent->run_id;
    Coordinator coordinator(options, kStart);
    REQUIRE(of_type<RoundReady>(coordinator.receive(1, *options.own_agent, kStart)).size() == 1);
    JobMoved moved{options.version, "another", 1, 0, options.own_agent->command.digest, "10.0.0.2", 7};
    CHECK(coordinator.receive(2, moved, kStart).empty());
    moved.run_id = options.run_id;
    const auto told = of_type<Remark>(coordinator.receive(3, moved, kStart));
    REQUIRE(told.size() == 1);
    CHECK_THAT(told[0].text, Catch::Contains("led from 10.0.0.2:7"));
    CHECK(coordinator.receive(4, moved, kStart).empty());
}

TEST_CASE("the join timeout ends the job with the same facts") {
    Coordinator coordinator = make(2, 5s);
    coordinator.receive(1, hello(0, 2), kStart);
    auto refused = of_type<Refused>(coordinator.tick(kStart + 5s));
    REQUIRE(refused.size() == 1);
    CHECK(refused[0].exit_code == kExitUnavailable);
    CHECK(
        refused[0].reason ==
        "joined 1/2, missing node 1 after 5 s; there: node 0 (gpu0); --join-timeout SECONDS sets how long to "
        "wait");
    CHECK_FALSE(coordinator.empty());
    coordinator.closed(1, kStart + 5s);
    CHECK(coordinator.empty());
    auto late = of_type<Refused>(coordinator.receive(2, hello(1, 2), kStart + 6s));
    REQUIRE(late.size() == 1);
    CHECK(late[0].exit_code == kExitUnavailable);
}

TEST_CASE("what of the join timeout was over before the coordinator began is not waited again") {
    Coordinator coordinator(
        CoordinatorOptions{
            .version = "1", .job_id = "job", .nnodes = 2, .join_timeout = 6s, .join_spent = 2s},
        kStart);
    coordinator.receive(1, hello(0, 2), kStart);
    CHECK(of_type<Refused>(coordinator.tick(kStart + 3s)).empty());
    const auto refused = of_type<Refused>(coordinator.tick(kStart + 4s));
    REQUIRE(refused.size() == 1);
    CHECK_THAT(refused[0].reason, Catch::Contains(" after 6 s; "));
}

TEST_CASE("a newcomer without a number hears that the job runs without him, not that it is over") {
    Coordinator coordinator = make(2);
    coordinator.receive(1, hello(0, 2), kStart);
    REQUIRE(of_type<RoundReady>(coordinator.receive(2, hello(1, 2), kStart)).size() == 2);
    Hello newcomer = hello(kUnnumbered, 2);
    newcomer.host = "another";
    newcomer.pid = 4711;
    const auto refused = of_type<Refused>(coordinator.receive(3, newcomer, kStart));
    REQUIRE(refused.size() == 1);
    CHECK(refused[0].reason == "the job runs on all of its 2 nodes, and takes no others");
}

TEST_CASE("an agent that comes again takes its own place, another one does not") {
    Coordinator coordinator = make(2);
    coordinator.receive(1, hello(1, 2), kStart);
    const auto again = coordinator.receive(2, hello(1, 2), kStart);
    REQUIRE(again.size() == 1);
    CHECK(again[0].to == 1);
    CHECK(again[0].close_after);
    CHECK(of_type<GivenUp>(again).size() == 1);
    CHECK(coordinator.closed(1, kStart).empty());
    Hello other = hello(1, 2);
    other.pid = 999;
    CHECK(of_type<Refused>(coordinator.receive(3, other, kStart)).size() == 1);
    const auto ready = coordinator.receive(4, hello(0, 2), kStart);
    REQUIRE(of_type<RoundReady>(ready).size() == 2);
    CHECK(ready.back().to == 2);
    // Also of who was refused before it came, though the round begins at once.
    CHECK(of_type<PeerRefused>(ready).size() == 1);
}

// In containers, each of which calls its first process 1 and itself localhost.
TEST_CASE(
    "agents of one name and one pid are as many as have drawn a number, and each of them may come again") {
    const auto contained = [](std::uint64_t nonce, int node_rank) {
        Hello one = hello(node_rank, 3);
        one.host = "localhost";
        one.pid = 1;
        one.nonce = nonce;
        return one;
    };
    for (const bool numbered : {false, true}) {
        CAPTURE(numbered);
        const auto agent = [&](int node) {
            return contained(100 + static_cast<std::uint64_t>(node), numbered ? node : kUnnumbered);
        };
        Coordinator coordinator = make_with_own_agent(agent(0));
        coordinator.receive(1, agent(0), kStart);
        CHECK(coordinator.receive(2, agent(1), kStart).empty());
        const auto again = coordinator.receive(3, agent(1), kStart);
        CHECK(of_type<GivenUp>(again).size() == 1);
        CHECK(of_type<RoundReady>(coordinator.receive(4, agent(2), kStart)).size() == 3);
        if (numbered) CHECK(of_type<Refused>(coordinator.receive(5, contained(7, 1), kStart)).size() == 1);
    }
}

TEST_CASE("a refusal is the last word, also behind a welcome or a question of the same moment") {
    Hello other = hello(1, 2);
    other.traits = {{"NCCL_DEBUG", "INFO"}};
    CoordinatorOptions options{
        .version = "1", .job_id = "job", .nnodes = 2, .heartbeat = 6s, .strict_env = true};
    Coordinator strict(options, kStart);
    strict.receive(1, hello(0, 2), kStart);
    Coordinator slow(
        CoordinatorOptions{.version = "1", .job_id = "job", .nnodes = 2, .join_timeout = 2s, .heartbeat = 6s},
        kStart);
    slow.receive(2, hello(1, 2), kStart);
    for (const auto& out : {strict.receive(2, other, kStart), slow.tick(kStart + 2s)}) {
        std::vector<std::size_t> closing;
        for (std::size_t i = 0; i < out.size(); ++i) {
            CHECK(out[i].close_after == std::holds_alternative<Refused>(out[i].message));
            if (out[i].to == 2) closing.push_back(out[i].close_after);
        }
        REQUIRE(closing.size() >= 2);
        CHECK(closing.back() == 1);
        CHECK(std::count(closing.begin(), closing.end(), 1) == 1);
    }
}

TEST_CASE("nodes without numbers get them when all are there: own numbers, the host, names, arrival") {
    const auto named = [](const char* host, int pid, int node_rank, int workers) {
        Hello said = hello(node_rank, 5, workers);
        said.host = host;
        said.pid = pid;
        return said;
    };
    CoordinatorOptions options{.version = "1", .job_id = "job", .nnodes = 5, .heartbeat = 6s};
    options.own_agent = named("head", 1, kUnnumbered, 1);
    Coordinator coordinator(options, kStart);
    coordinator.receive(1, named("node10", 4, kUnnumbered, 2), kStart);
    coordinator.receive(2, named("node2", 3, kUnnumbered, 3), kStart);
    // One that comes again, and one whose agent is another one on the same machine.
    const auto again = coordinator.receive(3, named("node10", 4, kUnnumbered, 2), kStart);
    CHECK(of_type<GivenUp>(again).size() == 1);
    CHECK(of_type<Waiting>(coordinator.tick(kStart + 3s)) ==
          std::vector<Waiting>(2, Waiting{2, 5, {}, {"node2", "node10"}, 5}));
    coordinator.receive(4, named("node10", 5, kUnnumbered, 4), kStart);
    coordinator.receive(5, *options.own_agent, kStart);
    CHECK(of_type<Refused>(coordinator.receive(9, named("x", 9, 5, 1), kStart)).size() == 1);
    const auto out = coordinator.receive(6, named("zz", 6, 1, 5), kStart);
    std::map<std::uint64_t, RoundReady> ready;
    for (const auto& outgoing : out) {
        if (const auto* one = std::get_if<RoundReady>(&outgoing.message)) ready[outgoing.to] = *one;
    }
    REQUIRE(ready.size() == 5);
    const std::map<std::uint64_t, std::pair<int, int>> expected = {
        {5, {0, 0}}, {6, {1, 1}}, {2, {2, 6}}, {3, {3, 9}}, {4, {4, 11}}};
    for (const auto& [connection, place] : expected) {
        CHECK(std::pair(ready[connection].group_rank, ready[connection].base_rank) == place);
        CHECK(ready[connection].coordinator_rank == 0);
        CHECK(ready[connection].world_size == 15);
    }
    // From then on they are known by these numbers.
    const auto stops = of_type<Stop>(coordinator.receive(3, failed_with(7, 9), kStart));
    REQUIRE(stops.size() == 5);
    CHECK(stops[0].cause.node_rank == 3);
}

TEST_CASE("a host with a number of its own keeps it, and hears of refusals and differences") {
    CoordinatorOptions options{.version = "1", .job_id = "job", .nnodes = 2};
    options.own_agent = hello(1, 2);
    Coordinator coordinator(options, kStart);
    coordinator.receive(1, hello(kUnnumbered, 2), kStart);
    Hello other = *options.own_agent;
    other.traits = {{"NCCL_DEBUG", "INFO"}};
    const auto out = coordinator.receive(2, other, kStart);
    REQUIRE(of_type<NodesDiffer>(out).size() == 1);
    CHECK(out[0].to == 2);
    for (const RoundReady& ready : of_type<RoundReady>(out)) CHECK(ready.coordinator_rank == 1);
}

}  // namespace ddprun
