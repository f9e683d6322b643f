#include "rendezvous/coordinator/node_comparison.hpp"

#include <algorithm>

#include "tests/support/catch.hpp"
#include "tests/support/coordinator_fixture.hpp"

namespace ddprun {
namespace {

using Values = std::vector<std::optional<std::string>>;

// One node for each value, on gpu0, gpu1, …
JobNodes nodes_with(const std::string& name, const Values& values, bool of_program = false) {
    JobNodes nodes;
    const int nnodes = static_cast<int>(values.size());
    for (int rank = 0; rank < nnodes; ++rank) {
        JobNode& node = nodes[rank];
        node.hello = hello(rank, nnodes);
        if (const auto& value = values[static_cast<std::size_t>(rank)])
            node.hello.traits.push_back({name, *value, of_program});
    }
    return nodes;
}

std::vector<std::string> differences_of(JobNodes nodes) { return NodeComparison().learn(nodes); }

// What is said of the variable X.
std::string of(const Values& values) {
    const auto differences = differences_of(nodes_with("X", values));
    if (differences.empty()) return {};
    REQUIRE(differences.size() == 1);
    REQUIRE(differences[0].starts_with("nodes differ in X: "));
    return differences[0].substr(std::string("nodes differ in X: ").size());
}

Hello with_trait(int node_rank, int nnodes, const std::string& value) {
    Hello agent = hello(node_rank, nnodes);
    agent.traits = {{"NCCL_DEBUG", value}};
    return agent;
}

// Grows from the host on, which says "WARN".
struct GrowingJob {
    explicit GrowingJob(bool strict) {
        CoordinatorOptions options{.version = "1", .job_id = "job", .nnodes = 3};
        options.elasticity = {.min_nodes = 1, .last_call = std::chrono::seconds(1)};
        options.strict_env = strict;
        options.own_agent = saying(1, "WARN");
        coordinator.emplace(options, kStart);
        come(1, *options.own_agent);
    }
    static Hello saying(int agent, const std::string& value) {
        Hello one = with_trait(kUnnumbered, 3, value);
        one.min_nodes = 1;
        one.host = "gpu" + std::to_string(agent);
        one.pid = agent;
        return one;
    }
    void come(std::uint64_t agent, const Hello& hello) { out = coordinator->receive(agent, hello, now); }
    void wait() {
        now = *coordinator->next_deadline();
        out = coordinator->tick(now);
    }
    void stopped(std::initializer_list<std::uint64_t> agents) {
        for (const std::uint64_t agent : agents)
            out = coordinator->receive(agent, gone(coordinator->round(), false), now);
    }
    std::vector<std::string> told() const {
        const auto differ = of_type<NodesDiffer>(out);
        return differ.empty() ? std::vector<std::string>() : differ[0].differences;
    }

    TimePoint now = kStart;
    std::optional<Coordinator> coordinator;
    Coordinator::Outbox out;
};

}  // namespace

TEST_CASE("a difference names the nodes that are alone with a value, and what the others have") {
    const std::optional<std::string> none;
    const std::vector<std::pair<Values, std::string>> cases = {
        {{"a"}, ""},
        {{"a", "a"}, ""},
        {{none, none}, ""},
        {{"a", "a", "b"}, R"(node 2 (gpu2) has "b", the others "a")"},
        {{"b", "a", "a"}, R"(node 0 (gpu0) has "b", the others "a")"},
        // As many of each: node 0 is right.
        {{"a", "b"}, R"(node 1 (gpu1) has "b", node 0 (gpu0) "a")"},
        {{"a", "b", "b", "a"}, R"(node 1 (gpu1) and node 2 (gpu2) have "b", the others "a")"},
        {{"a", none}, R"(node 1 (gpu1) has it not set, node 0 (gpu0) "a")"},
        {{none, "a", none}, R"(node 1 (gpu1) has "a", the others not set)"},
        {{"", none, ""}, R"(node 1 (gpu1) has it not set, the others "")"},
        {{"a", "a", "b", "c"}, R"(node 2 (gpu2) has "b", node 3 (gpu3) "c", the others "a")"},
        {{"a", "\x1b[2J\n"}, R"(node 1 (gpu1) has "?[2J?", node 0 (gpu0) "a")"},
    };
    for (const auto& [values, expected] : cases) CHECK(of(values) == expected);
}

TEST_CASE("of many nodes and values the first are named, and the rest counted") {
    Values values(20, "a");
    values.insert(values.end(), 6, "b");
    CHECK(of(values) ==
          "node 20 (gpu20), node 21 (gpu21), node 22 (gpu22), node 23 (gpu23) and 2 more have "
          "\"b\", the others \"a\"");
    values = {"a", "a", "b", "c", "d", "e", "f"};
    CHECK(of(values) ==
          R"(node 2 (gpu2) has "b", node 3 (gpu3) "c", node 4 (gpu4) "d", 2 other values, the others "a")");

    JobNodes nodes = nodes_with("X", {"a", "b"});
    nodes[1].hello.host = std::string(kMaxHostText, 'h');
    nodes[1].hello.traits[0].value = std::string(kMaxTraitValue, 'v');
    nodes[0].hello.traits[0].value = std::string(kMaxTraitValue, 'w');
    REQUIRE(differences_of(nodes).size() == 1);
    CHECK(differences_of(nodes)[0].size() == kMaxDifferenceText);

    nodes = nodes_with("X", {"a", "a"});
    for (std::size_t i = 0; i < 3 * kMaxDifferencesTold; ++i)
        nodes[1].hello.traits.push_back({"Y" + std::to_string(i), "v"});
    const auto told = differences_of(nodes);
    REQUIRE(told.size() == kMaxDifferencesTold);
    CHECK(told.back() == "nodes differ in 33 more");
}

TEST_CASE("no more names are looked at than there may be") {
    JobNodes nodes = nodes_with("X", Values(kMaxTraitsCompared / kMaxNodeTraits + 2));
    int name = 0;
    for (auto& [rank, node] : nodes) {
        for (std::size_t i = 0; i < kMaxNodeTraits; ++i)
            node.hello.traits.push_back({std::to_string(++name), "v"});
    }
    const std::size_t more = kMaxTraitsCompared - kMaxDifferencesTold + 1;
    CHECK(differences_of(nodes).back() == "nodes differ in " + std::to_string(more) + " more");
}

TEST_CASE("nodes are compared with those of their role, and programs only where they must be one") {
    JobNodes nodes = nodes_with("X", {"a", "b"});
    nodes[1].hello.role = "evaluator";
    CHECK(differences_of(nodes).empty());

    nodes = nodes_with("the executable", {"a", "b"}, true);
    CHECK(differences_of(nodes).size() == 1);
    nodes[1].hello.allow_different = true;
    CHECK(differences_of(nodes).empty());
    nodes[1].hello.traits.push_back({"X", "b"});
    CHECK(differences_of(nodes).size() == 1);
}

TEST_CASE("node 0 hears of the differences before the first round, once") {
    Coordinator coordinator = make(3);
    coordinator.receive(5, with_trait(2, 3, "INFO"), kStart);
    coordinator.receive(6, with_trait(1, 3, "WARN"), kStart);
    const auto out = coordinator.receive(7, with_trait(0, 3, "WARN"), kStart);
    REQUIRE(out.size() == 4);
    CHECK(out[0].to == 7);
    CHECK(std::get<NodesDiffer>(out[0].message).differences ==
          std::vector<std::string>{
              R"(nodes differ in NCCL_DEBUG: node 2 (gpu2) has "INFO", the others "WARN")"});
    CHECK(of_type<RoundReady>(out).size() == 3);
}

TEST_CASE("nodes that are alike are not spoken of") {
    Coordinator coordinator = make(2);
    coordinator.receive(1, with_trait(1, 2, "WARN"), kStart);
    const auto out = coordinator.receive(2, with_trait(0, 2, "WARN"), kStart);
    CHECK(of_type<NodesDiffer>(out).empty());
    CHECK(of_type<RoundReady>(out).size() == 2);
}

TEST_CASE("with --strict-env a difference ends the job for all, and says which") {
    Coordinator coordinator({.version = "1", .job_id = "job", .nnodes = 2, .strict_env = true}, kStart);
    coordinator.receive(1, with_trait(1, 2, "INFO"), kStart);
    const auto out = coordinator.receive(2, with_trait(0, 2, "WARN"), kStart);
    const auto refused = of_type<Refused>(out);
    REQUIRE(refused.size() == 2);
    REQUIRE(out.size() == 2);
    for (const auto& outgoing : out) CHECK(outgoing.close_after);
    CHECK(refused[0].exit_code == kExitNotAdmitted);
    CHECK(refused[0].reason ==
          "the job is refused by --strict-env on node 0: nodes differ in NCCL_DEBUG: node 1 (gpu1) has "
          "\"INFO\", node 0 (gpu0) \"WARN\"");
    CHECK_FALSE(coordinator.next_deadline());
    coordinator.closed(1, kStart);
    coordinator.closed(2, kStart);
    CHECK(coordinator.empty());
}

TEST_CASE("with --strict-env nodes that are alike run") {
    Coordinator coordinator({.version = "1", .job_id = "job", .nnodes = 2, .strict_env = true}, kStart);
    coordinator.receive(1, with_trait(1, 2, "WARN"), kStart);
    CHECK(of_type<RoundReady>(coordinator.receive(2, with_trait(0, 2, "WARN"), kStart)).size() == 2);
}

TEST_CASE("who comes later is compared with what most had before, each once") {
    NodeComparison comparison;
    JobNodes nodes = nodes_with("X", {"a", "b", "a"});
    CHECK(comparison.learn(nodes).size() == 1);
    CHECK(nodes[0].hello.traits.empty());
    CHECK(comparison.learn(nodes).empty());

    JobNodes more = nodes_with("X", {"a", "a", "a", "c", "a", std::nullopt});
    for (int rank = 0; rank < 3; ++rank) more[rank] = nodes[rank];
    CHECK(comparison.learn(more) ==
          std::vector<std::string>{
              R"(nodes differ in X: node 3 (gpu3) has "c", node 5 (gpu5) not set, the others "a")"});
    CHECK(comparison.learn(more).empty());
}

TEST_CASE("a newcomer is held against those of its role who have workers") {
    NodeComparison comparison;
    JobNodes nodes = nodes_with("the executable", {"a", "a"}, true);
    comparison.learn(nodes);
    Hello newcomer = nodes_with("the executable", {"b"}, true)[0].hello;
    newcomer.node_rank = kUnnumbered;
    newcomer.host = "gpu07";
    CHECK(comparison.against(newcomer) ==
          std::vector<std::string>{R"(nodes differ in the executable: gpu07 has "b", the others "a")"});
    Hello other = newcomer;
    other.allow_different = true;
    CHECK(comparison.against(other).empty());
    other = newcomer;
    other.role = "evaluator";
    CHECK(comparison.against(other).empty());
    other = newcomer;
    other.local_world_size = 0;
    CHECK(comparison.against(other).empty());
    newcomer.traits = nodes_with("the executable", {"a"}, true)[0].hello.traits;
    CHECK(comparison.against(newcomer).empty());
}

TEST_CASE("a newcomer that differs is told of at its round, once") {
    GrowingJob job(false);
    job.wait();
    REQUIRE(of_type<RoundReady>(job.out).size() == 1);
    job.come(2, GrowingJob::saying(2, "INFO"));
    CHECK(job.told().empty());
    job.stopped({1});
    REQUIRE(of_type<RoundReady>(job.out).size() == 2);
    CHECK(job.told() == std::vector<std::string>{
                            R"(nodes differ in NCCL_DEBUG: node 1 (gpu2) has "INFO", the others "WARN")"});
    job.come(3, GrowingJob::saying(3, "WARN"));
    job.stopped({1, 2});
    REQUIRE(of_type<RoundReady>(job.out).size() == 3);
    CHECK(job.told().empty());
}

TEST_CASE("with --strict-env a newcomer that differs is refused, and the job runs on") {
    GrowingJob job(true);
    job.wait();
    job.come(2, GrowingJob::saying(2, "INFO"));
    REQUIRE(job.out.size() == 2);
    CHECK(job.out[0].to == 2);
    CHECK(job.out[0].close_after);
    const std::string reason =
        R"(--strict-env lets in no node that differs: nodes differ in NCCL_DEBUG: gpu2 has "INFO", the others "WARN")";
    CHECK(std::get<Refused>(job.out[0].message) == Refused{reason, kExitNotAdmitted});
    CHECK(job.out[1].to == 1);
    CHECK(std::get<PeerRefused>(job.out[1].message).reason == reason);
    job.come(3, GrowingJob::saying(3, "WARN"));
    CHECK(of_type<Stop>(job.out).size() == 1);
}

TEST_CASE("with --strict-env a spare that differs is refused when the first round shows it") {
    CoordinatorOptions options{.version = "1", .job_id = "job", .nnodes = 3};
    options.elasticity = {.min_nodes = 1, .spares = 1};
    options.strict_env = true;
    options.own_agent = GrowingJob::saying(1, "WARN");
    Coordinator coordinator(options, kStart);
    coordinator.receive(2, GrowingJob::saying(2, "WARN"), kStart);
    coordinator.receive(3, GrowingJob::saying(3, "INFO"), kStart);
    const auto out = coordinator.receive(1, *options.own_agent, kStart);
    CHECK(of_type<RoundReady>(out).size() == 2);
    const auto refused =
        std::find_if(out.begin(), out.end(), [](const auto& one) { return one.close_after; });
    REQUIRE(refused != out.end());
    CHECK(refused->to == 3);
}

TEST_CASE("other arguments are told by the words that differ, unless programs may") {
    const auto nodes_of = [](const std::vector<std::string>& outs) {
        JobNodes nodes;
        for (int rank = 0; rank < static_cast<int>(outs.size()); ++rank) {
            nodes[rank].hello = hello(rank, static_cast<int>(outs.size()));
            nodes[rank].hello.command = describe_command(
                {"train.py", "--lr", "1", "--out", outs[static_cast<std::size_t>(rank)]}, {"train.py"});
        }
        return nodes;
    };
    using Texts = std::vector<std::string>;
    CHECK(differences_of(nodes_of({"/n0", "/n0"})) == Texts{});
    CHECK(differences_of(nodes_of({"/n0", "/n1"})) ==
          Texts{"nodes differ in arguments: node 1 (gpu1) has \"--out /n1\", node 0 (gpu0) \"--out /n0\""});
    CHECK(differences_of(nodes_of({"/n0", "/n1", "/n1"})) ==
          Texts{"nodes differ in arguments: node 0 (gpu0) has \"--out /n0\", the others \"--out /n1\""});
    JobNodes lenient = nodes_of({"/n0", "/n1"});
    lenient[1].hello.allow_different = true;
    CHECK(differences_of(lenient) == Texts{});

    NodeComparison comparison;
    JobNodes first = nodes_of({"/n0", "/n0"});
    CHECK(comparison.learn(first) == Texts{});
    CHECK(comparison.against(nodes_of({"", "", "/n2"})[2].hello) ==
          Texts{"nodes differ in arguments: node 2 (gpu2) has \"--out /n2\", the others \"--out /n0\""});
    CHECK(comparison.against(nodes_of({"/n0"})[0].hello) == Texts{});
}

TEST_CASE("arguments that differ in what is not shown are told without anything made of them") {
    JobNodes nodes;
    for (int rank = 0; rank < 2; ++rank) {
        nodes[rank].hello = hello(rank, 2);
        nodes[rank].hello.command = describe_command({"train.py", "--token", "secret" + std::to_string(rank)},
                                                     {"train.py"}, {"train.py", "--token", "(not shown)"});
        CHECK(nodes[rank].hello.command.text == "train.py --token '(not shown)'");
    }
    CHECK(nodes[0].hello.command.digest == nodes[1].hello.command.digest);
    const auto told = differences_of(nodes);
    CHECK(told ==
          std::vector<std::string>{"nodes differ in arguments: node 1 (gpu1) has a word that is not shown, "
                                   "node 0 (gpu0) a word that is not shown"});
    for (int rank = 0; rank < 2; ++rank) {
        nodes[rank].is_compared = false;
        nodes[rank].hello.command = {};
        nodes[rank].hello.traits = {{"NCCL_TOKEN", hidden_value(static_cast<std::uint64_t>(rank))}};
    }
    CHECK(differences_of(nodes) ==
          std::vector<std::string>{"nodes differ in NCCL_TOKEN: node 1 (gpu1) has a value that is not shown, "
                                   "node 0 (gpu0) a value that is not shown"});
}

}  // namespace ddprun
