// Jobs whose nodes come and go, driven by random events from printed seeds.
#include <algorithm>
#include <array>
#include <random>
#include <set>

#include "tests/support/catch.hpp"
#include "tests/support/coordinator_fixture.hpp"
#include "tests/support/sanitized.hpp"

namespace ddprun {

using namespace std::chrono_literals;
namespace {

constexpr std::chrono::milliseconds kShortGrace = 3s;

// Each step one random thing happens to one agent: it comes, is killed, cut off, signalled, its workers fail
// or succeed. Agents that are lost come again as others, from the same machine.
struct Membership {
    explicit Membership(unsigned seed) : random(seed) {
        most = pick(1, 8);
        spares = pick(0, 3) == 0 ? pick(0, most - 1) : 0;
        min_nodes = pick(0, 3) == 0 && spares == 0 ? 0 : pick(1, most - spares);
        max_restarts = pick(0, 3);
        CoordinatorOptions options{.version = "1", .job_id = "job", .nnodes = most};
        if (min_nodes > 0) options.elasticity.min_nodes = min_nodes;
        options.elasticity.spares = min_nodes > 0 ? spares : 0;
        options.elasticity.last_call = std::chrono::milliseconds(pick(0, 500));
        options.elasticity.exclude_after = pick(0, 2);
        options.elasticity.resize = static_cast<Resize>(pick(0, 2));
        options.join_timeout = 20s;
        options.heartbeat = 600ms;
        options.restarts = {.max_restarts = max_restarts, .backoff_max = 1s, .min_uptime = 0ms};
        options.own_agent = hello_of(0);
        options.asks_about_failures = pick(0, 1) == 0;
        coordinator.emplace(std::move(options), kStart);
        agents.resize(static_cast<std::size_t>(most) + 2);
    }

    struct Agent {
        int life = 0;  // of the agent on this machine
        std::uint64_t connection = 0;
        bool excluded = false;  // its machine, for good
        bool silent = false, done = false, refused = false, signalled = false, finished = false;
        std::optional<RoundReady> round;
        bool stopping = false, said_gone = true, succeeded = false;
        // Of this machine's workers, whoever started them, as long as nobody can tell.
        std::optional<TimePoint> workers_until;
    };

    int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }

    Hello hello_of(int machine) const {
        Hello one = hello(kUnnumbered, most);
        one.min_nodes = min_nodes;
        one.host = "gpu" + std::to_string(machine);
        one.pid = 100 + (agents.empty() ? 0 : agents.at(static_cast<std::size_t>(machine)).life);
        one.grace_ms = static_cast<int>(kShortGrace.count());
        return one;
    }

    Agent* find(std::uint64_t connection) {
        const auto agent = std::find_if(agents.begin(), agents.end(), [connection](const Agent& one) {
            return one.connection == connection && !one.done;
        });
        return agent == agents.end() ? nullptr : &*agent;
    }

    void deliver(const Coordinator::Outbox& outbox) {
        begin_round(outbox);
        for (const auto& outgoing : outbox) {
            Agent* agent = find(outgoing.to);
            if (agent == nullptr) continue;
            if (std::holds_alternative<GivenUp>(outgoing.message)) lose(*agent, kShortGrace);
            if (std::holds_alternative<Refused>(outgoing.message)) agent->done = agent->refused = true;
            if (const auto* finish = std::get_if<Finish>(&outgoing.message)) {
                agent->finished = true;
                if (finish->message.starts_with("the job goes on without this node: "))
                    agent->excluded = true;
                // No job ends because a node comes.
                if (finish->cause) CHECK(finish->cause->kind != Failure::Kind::resized);
            }
            if (std::holds_alternative<Stop>(outgoing.message)) agent->stopping = true;
            if (const auto* asked = std::get_if<JudgeFailure>(&outgoing.message)) judge(*agent, *asked);
            if (const auto* question = std::get_if<Heartbeat>(&outgoing.message); question && !agent->silent)
                answers.emplace_back(outgoing.to, *question);
        }
    }

    // Now and then nobody answers.
    void judge(const Agent& agent, const JudgeFailure& asked) {
        CHECK(&agent == &agents.front());
        ++judged;
        if (pick(0, 4) == 0) return;
        // Mostly one that lets the job go on.
        const auto answer =
            static_cast<Judgement::Answer>(pick(0, 9) == 0 ? 2 : std::array{0, 1, 3}[pick(0, 2)]);
        judgement = {asked.round, answer, pick(-1, most)};
    }

    // One membership: everybody who is told of the round is told of the same one.
    void begin_round(const Coordinator::Outbox& outbox) {
        std::map<int, Agent*> members;
        for (const auto& outgoing : outbox) {
            const auto* ready = std::get_if<RoundReady>(&outgoing.message);
            if (ready == nullptr) continue;
            Agent* agent = find(outgoing.to);
            REQUIRE(agent != nullptr);
            CHECK(agent->said_gone);
            CHECK_FALSE(agent->finished);
            CHECK_FALSE(agent->excluded);
            CHECK(members.emplace(ready->group_rank, agent).second);
            CHECK(ready->base_rank == ready->group_rank);
            CHECK(ready->round == rounds);
            agent->round = *ready;
            agent->stopping = agent->said_gone = agent->succeeded = false;
            answers.emplace_back(outgoing.to, Heartbeat{});
        }
        if (members.empty()) return;
        ++rounds;
        const int size = static_cast<int>(members.size());
        CHECK(members.rbegin()->first == size - 1);
        CHECK(size >= (min_nodes > 0 ? min_nodes : most));
        CHECK(size <= (min_nodes > 0 ? most - spares : most));
        for (const auto& [rank, agent] : members) {
            CHECK(agent->round->group_world_size == size);
            CHECK(agent->round->world_size == size);
            CHECK(agent->round->restart_count <= max_restarts);
            CHECK(agent->round->restart_count + agent->round->resizes == rounds - 1);
        }
        for (const Agent& agent : agents) {
            if (agent.workers_until) CHECK(now >= *agent.workers_until);
        }
        check_order(members);
    }

    // Who stays keeps his order.
    void check_order(const std::map<int, Agent*>& members) {
        std::vector<std::pair<std::uint64_t, int>> now_there;
        int last = -1;
        for (const auto& [rank, agent] : members) {
            const auto before = ranks.find(agent->connection);
            if (before != ranks.end()) {
                CHECK(before->second > last);
                last = before->second;
            }
            now_there.emplace_back(agent->connection, rank);
        }
        ranks = {now_there.begin(), now_there.end()};
    }

    // Another agent may come from that machine; the workers are there for so long.
    void lose(Agent& agent, std::chrono::milliseconds workers) {
        if (!agent.said_gone && !agent.succeeded) agent.workers_until = now + workers;
        const int life = agent.life + 1;
        const auto until = agent.workers_until;
        excluded += agent.excluded ? 1 : 0;
        agent = {.life = life, .excluded = agent.excluded, .workers_until = until};
    }

    void step() {
        now += std::chrono::milliseconds(pick(0, 40));
        for (const auto& [from, answer] : std::exchange(answers, {})) {
            if (find(from) != nullptr) deliver(coordinator->receive(from, answer, now));
        }
        if (const auto said = std::exchange(judgement, {}))
            deliver(coordinator->receive(agents.front().connection, *said, now));
        deliver(coordinator->tick(now));
        const int machine = pick(0, static_cast<int>(agents.size()) - 1);
        Agent& agent = agents[static_cast<std::size_t>(machine)];
        if (agent.silent) {
            // The system gives it up, too.
            if (pick(0, 500) == 0) deliver(coordinator->closed(agent.connection, now, false));
            return;
        }
        if (agent.done) {
            if ((agent.refused || agent.excluded) && !ending && pick(0, 5) == 0) lose(agent, 0ms);
            return;
        }
        if (agent.connection == 0) {
            if (machine != 0 && (ending || pick(0, 3) != 0)) return;
            if (machine == 0 && agent.life > 0) return;
            agent.connection = ++last_connection;
            return deliver(coordinator->receive(agent.connection, hello_of(machine), now));
        }
        const std::uint64_t connection = agent.connection;
        if (agent.finished) {
            agent.done = true;
            deliver(coordinator->receive(connection, Goodbye{}, now));
            return deliver(coordinator->closed(connection, now));
        }
        if (machine != 0 && pick(0, 150) == 0) return vanish(agent);
        if (!agent.round || agent.said_gone) return;
        if (agent.stopping) {
            if (pick(0, 2) != 0) return;
            agent.said_gone = true;
            return deliver(coordinator->receive(connection, gone(agent.round->round, pick(0, 1) == 0), now));
        }
        if (!agent.succeeded) work(agent, machine);
    }

    void vanish(Agent& agent) {
        const std::uint64_t connection = agent.connection;
        const int how = pick(0, 2);
        if (how == 0) {
            agent.silent = true;
            return;
        }
        lose(agent, how == 1 ? 500ms : kShortGrace);
        deliver(coordinator->closed(connection, now, how == 1));
    }

    void work(Agent& agent, int machine) {
        const int what = pick(0, ending ? 5 : 200);
        const int round = agent.round->round;
        if (what == 0) {
            WorkerFailed failed = failed_with(3, agent.round->base_rank);
            failed.round = round;
            agent.stopping = true;
            deliver(coordinator->receive(agent.connection, failed, now));
        } else if (what == 1 && !agent.signalled && (machine != 0 || ending)) {
            agent.signalled = agent.stopping = true;
            deliver(coordinator->receive(agent.connection, AgentSignalled{round, 15}, now));
        } else if (what < (ending ? 6 : 3)) {
            agent.succeeded = true;
            deliver(coordinator->receive(agent.connection, WorkersSucceeded{round}, now));
        }
    }

    bool over() const {
        return std::all_of(agents.begin(), agents.end(), [](const Agent& agent) {
            return agent.done || agent.connection == 0 || agent.silent;
        });
    }

    std::mt19937 random;
    int most = 1, min_nodes = 0, spares = 0, max_restarts = 0;
    bool ending = false;  // nobody comes any more
    std::optional<Coordinator> coordinator;
    std::vector<Agent> agents;
    std::map<std::uint64_t, int> ranks;  // of the last round
    int rounds = 0;
    int judged = 0;
    std::optional<Judgement> judgement;  // on its way
    int excluded = 0;                    // agents that come again from machines that are left out
    std::uint64_t last_connection = 0;
    TimePoint now{};
    std::vector<std::pair<std::uint64_t, Heartbeat>> answers;
};

}  // namespace

TEST_CASE(
    "nodes that come and go: one membership at a time, no two rounds at once, and an end for everybody") {
    int most_rounds = 0, resized = 0, excluded = 0, judged = 0;
    for (unsigned seed = 1; seed <= seed_count(1500); ++seed) {
        INFO("seed " << seed);
        Membership job(seed);
        constexpr int kBusySteps = 2'000, kSteps = 200'000;
        for (int i = 0; i < kSteps; ++i) {
            job.ending = i >= kBusySteps;
            job.step();
            if (job.ending && job.over() && job.coordinator->empty()) break;
        }
        REQUIRE(job.over());
        REQUIRE(job.coordinator->empty());
        most_rounds = std::max(most_rounds, job.rounds);
        resized += job.rounds > 4 ? 1 : 0;
        excluded += job.excluded > 0 ? 1 : 0;
        judged += job.judged;
    }
    if (kIsSanitized) return;
    // Else this has shown little.
    CHECK(most_rounds > 10);
    CHECK(resized > 50);
    CHECK(excluded > 50);
    CHECK(judged > 500);
}

}  // namespace ddprun
