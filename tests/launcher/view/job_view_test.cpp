#include "launcher/view/job_view.hpp"

#include <csignal>
#include <random>

#include "launcher/view/routes.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random_values.hpp"

namespace ddprun {
namespace {

AgentStatus status_of(int node, int nodes) {
    AgentStatus status{.state = "running", .job_id = "none-1f", .node = node};
    status.host = "gpu" + std::to_string(node);
    status.pid = 100 + node;
    status.round = 2;
    status.group_world_size = nodes;
    status.world_size = 2 * nodes;
    status.first_rank = 2 * node;
    status.workers = {{.rank = 2 * node, .local_rank = 0, .pid = 10 + node},
                      {.rank = 2 * node + 1, .local_rank = 1, .pid = 20 + node}};
    return status;
}

NodeAnswer answer_of(int node, int nodes) {
    return {node, "gpu" + std::to_string(node), to_json(status_of(node, nodes)), ""};
}

std::vector<int> ranks_of(const JobView& view) {
    std::vector<int> ranks;
    for (const RankView& rank : view.ranks) ranks.push_back(rank.rank);
    return ranks;
}

}  // namespace

TEST_CASE("job view: all nodes and ranks stand in order, whoever was asked") {
    const JobView view = job_view({.id = "train-7f3a", .name = "train.py", .run_id = "r"}, status_of(1, 3),
                                  {answer_of(2, 3), answer_of(0, 3)}, "");
    CHECK(ranks_of(view) == std::vector{0, 1, 2, 3, 4, 5});
    CHECK(view.ranks[4] ==
          RankView{.rank = 4, .local_rank = 0, .node = 2, .host = "gpu2", .pid = 12, .state = "running"});
    CHECK(view.nodes.at(2) ==
          NodeView{.node = 2, .host = "gpu2", .pid = 102, .state = "running", .first_rank = 4, .ranks = 2});
    CHECK((view.id == "train-7f3a" && view.name == "train.py" && view.run_id == "r"));
    CHECK((view.round == 2 && view.world_size == 6 && view.state == "running"));
}

TEST_CASE("job view: a node without an answer is in it, with the reason") {
    struct Case {
        const char* what;
        std::vector<NodeAnswer> others;
        std::string why;
    };
    const Case cases[] = {
        {"it said nothing", {}, "late"},
        {"it was lost", {{1, "gpu1", "", "its connection broke"}}, "its connection broke"},
        {"it talks nonsense", {{1, "gpu1", "{", ""}}, "its answer is not understood"},
        {"another has its number", {{7, "gpu7", to_json(status_of(7, 8)), ""}}, "late"},
        {"it has the number of the node that was asked", {answer_of(0, 2)}, "late"},
        {"it says more than any node has",
         {{1, "gpu1", to_json(status_of(1, 2)) + std::string(2 << 20, ' '), ""}},
         "its answer is not understood"},
    };
    CHECK(job_view({}, status_of(0, 2), {}, "").nodes.at(1).why == "its launcher is not connected");
    for (const Case& one : cases) {
        INFO(one.what);
        const JobView view = job_view({}, status_of(0, 2), one.others, "late");
        CHECK(ranks_of(view) == std::vector{0, 1});
        REQUIRE(view.nodes.size() == 2);
        CHECK(view.nodes[1].node == 1);
        CHECK(view.nodes[1].state == "unknown");
        CHECK(view.nodes[1].why == one.why);
        CHECK_FALSE(view.nodes[1].ranks);
    }
}

TEST_CASE("job view: a node speaks of its own ranks only") {
    const auto why_not = [](const WorkerStatus& worker, int first_rank, int round, std::size_t times = 1) {
        AgentStatus status = status_of(1, 3);
        status.first_rank = first_rank;
        status.round = round;
        status.workers.assign(times, worker);
        const std::vector<NodeAnswer> said{{1, "gpu1", to_json(status), ""}, answer_of(2, 3)};
        const JobView view = job_view({}, status_of(0, 3), said, "late");
        REQUIRE(view.nodes.size() == 3);
        CHECK(view.nodes[0].state == "running");
        return view.nodes[1].why.value_or("") + view.nodes[2].why.value_or("");
    };
    const std::string lie = "its answer is not understood";
    CHECK(why_not({.rank = 3, .local_rank = 1}, 2, 2).empty());
    CHECK(why_not({.rank = 1, .local_rank = 1}, 0, 2) == "rank 1 is claimed by node 0 as well");
    CHECK(why_not({.rank = 3, .local_rank = 0}, 2, 2) == lie);
    CHECK(why_not({.rank = 6, .local_rank = 0}, 6, 2) == lie);
    CHECK(why_not({.rank = 2'147'483'647, .local_rank = 0}, 2'147'483'647, 2) == lie);
    CHECK(why_not({.rank = -1, .local_rank = 0}, -1, 2) == lie);
    CHECK(why_not({.rank = 2, .local_rank = -1}, 3, 2) == lie);
    CHECK(why_not({.rank = 2, .local_rank = 0}, 2, 2, 2) == lie);
    // Of two that claim one rank neither is believed, unless one tells of another round.
    CHECK(why_not({.rank = 4, .local_rank = 0}, 4, 2) ==
          "rank 4 is claimed by node 2 as wellrank 4 is claimed by node 1 as well");
    CHECK(why_not({.rank = 4, .local_rank = 0}, 4, 1) == "it tells of another round");
    CHECK(why_not({.rank = 1, .local_rank = 0}, 1, 1) == "it tells of another round");
    // The same ranks in another round are the node's as well.
    CHECK(why_not({.rank = 2, .local_rank = 0}, 2, 1).empty());
}

TEST_CASE("job view: a node's number and host are those that the coordinator knows") {
    AgentStatus status = status_of(1, 2);
    status.node = 0;
    status.host = "another";
    const JobView view = job_view({}, status_of(0, 2), {{1, "gpu1", to_json(status), ""}}, "");
    REQUIRE((view.nodes.size() == 2 && view.ranks.size() == 4));
    CHECK((view.nodes[1].node == 1 && view.nodes[1].host == "gpu1"));
    CHECK((view.ranks[2].node == 1 && view.ranks[2].host == "gpu1"));
}

TEST_CASE("job view: how a worker ended") {
    const auto ranks = rank_views({{.rank = 0, .exit_code = 0, .signal = 0},
                                   {.rank = 1, .exit_code = 137, .signal = SIGKILL},
                                   {.rank = 2, .exit_code = 137, .signal = 0},
                                   {.rank = 3}},
                                  4, "gpu4");
    CHECK((ranks[0].state == "exited" && ranks[0].exit_code == 0 && !ranks[0].signal));
    CHECK((ranks[1].state == "signaled" && ranks[1].exit_code == 137 && ranks[1].signal == SIGKILL));
    CHECK((ranks[2].state == "exited" && ranks[2].exit_code == 137 && !ranks[2].signal));
    CHECK((ranks[3].state == "running" && !ranks[3].exit_code && ranks[3].node == 4));
}

TEST_CASE("job view: the state of a job is that of its agent, in a user's words") {
    const std::pair<const char*, const char*> states[] = {
        {"joining", "joining"},         {"rejoining", "joining"}, {"running", "running"},
        {"draining", "running"},        {"stopping", "stopping"}, {"seeking", "stopping"},
        {"awaiting_others", "stopping"}};
    for (const auto& [agent, job] : states) {
        AgentStatus status = status_of(0, 1);
        status.state = agent;
        CHECK(job_view({}, status, {}, "").state == job);
    }
}

TEST_CASE("job view: schema 1, with null for what is not known") {
    AgentStatus status = status_of(0, 1);
    status.workers.resize(1);
    CHECK(
        to_json(job_view({.id = "train-7f3a", .name = "train.py", .run_id = "none", .started_unix_ms = 5},
                         status, {}, "")) ==
        R"({"schema":1,"id":"train-7f3a","name":"train.py","job_id":"none-1f","run_id":"none",)"
        R"("state":"running","round":2,"restarts":0,"max_restarts":0,"resizes":0,"started_unix_ms":5,)"
        R"("world_size":2,"url":null,"nodes":[{"node":0,"host":"gpu0","pid":100,"state":"running",)"
        R"("why":null,"first_rank":0,"ranks":1,"kill_unix_ms":null}],"ranks":[{"rank":0,"local_rank":0,"node":0,)"
        R"("host":"gpu0","pid":10,"state":"running","exit_code":null,"signal":null,"doing":null,)"
        R"("call":null,"cpu":null,"cpu_seconds":null,"resident_memory_bytes":null,"threads":null,)"
        R"("gpu":null,"output_age_s":null,"output_bytes":null,"last_line":null,"waiting_ratio":null}],)"
        R"("verdict":null,"progress":null,"lost_time":null})");
}

TEST_CASE("job view: each node says when what has not ended there is killed") {
    AgentStatus stopping = status_of(1, 2);
    stopping.kill_unix_ms = 1700000000123;
    const JobView view = job_view(
        {}, status_of(0, 2), {{.node = 1, .host = "gpu1", .text = to_json(stopping), .trouble = ""}}, "");
    CHECK((!view.nodes.at(0).kill_unix_ms && view.nodes.at(1).kill_unix_ms == 1700000000123));
}

TEST_CASE("job view: before the first round there are no numbers of one") {
    const JobView view = job_view({}, {.state = "joining"}, {}, "");
    CHECK((!view.id && !view.name && !view.job_id && !view.run_id));
    CHECK((!view.round && !view.restarts && !view.max_restarts && !view.resizes && !view.world_size));
}

TEST_CASE("job view: whatever it holds comes back, and no part of it does") {
    const unsigned seed = std::random_device()();
    INFO("seed " << seed);
    RandomValues values(seed, false);
    std::mt19937 random(seed);
    for (int i = 0; i < 500; ++i) {
        const auto view = values.make<JobView>();
        const std::string text = to_json(view);
        INFO(text);
        REQUIRE(parse_job_view(text) == view);
        REQUIRE_FALSE(parse_job_view(text.substr(0, values.below(text.size()))));
        const auto status = values.make<AgentStatus>();
        std::string words = to_json(status);
        REQUIRE(parse_agent_status(words) == status);
        for (int changes = 0; changes < 3; ++changes)
            words[random() % words.size()] = static_cast<char>(random() % 256);
        parse_agent_status(words);  // must neither throw nor read outside
        job_view({}, status_of(0, 2), {{1, "gpu1", words, ""}}, "");
    }
    for (const char* text : {"", "{}", "[]", R"({"state":"x"})", "\"\xff\""}) {
        INFO(text);
        CHECK_FALSE(parse_agent_status(text));
        CHECK_FALSE(parse_job_view(text));
    }
}

TEST_CASE("job view: a large job fits into an answer") {
    AgentStatus status = status_of(0, 1);
    status.host = std::string(255, 'h');
    status.workers.assign(10'000, {.rank = 2'000'000'000, .local_rank = 9'999, .pid = 4'194'304});
    CHECK(to_json(job_view({}, status, {}, "")).size() * 8 < kMaxAnswer);
}

TEST_CASE("job view: the verdict is the own one, or what node 0 tells") {
    const HangVerdict hang{VerdictKind::hang, {3}, {0, 1}, "rank 3 sleeps", {"no progress for 31 s"}};
    const VerdictView verdict = verdict_view(hang, 1'000, 32'999);
    CHECK((verdict.age_s == 31 && verdict.since_unix_ms == 1'000 && verdict.suspects == std::vector{3}));
    AgentStatus own = status_of(1, 2);
    const auto told = [&](const std::optional<VerdictView>& of_node_0, int node) {
        return job_view({}, own, {{node, "gpu0", to_json(status_of(0, 2), of_node_0), ""}}, "").verdict;
    };
    CHECK(told(verdict, 0) == verdict);
    CHECK_FALSE(told({}, 0));
    const JobView view = job_view({}, own, {}, "", verdict);
    CHECK(view.verdict == verdict);
    CHECK(parse_job_view(to_json(view)) == view);
}

}  // namespace ddprun
