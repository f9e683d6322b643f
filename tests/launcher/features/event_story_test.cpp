#include "launcher/features/event_story.hpp"

#include <boost/json.hpp>
#include <csignal>
#include <set>

#include "launcher/harmless_text.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

namespace json = boost::json;
using Names = std::vector<std::string>;

constexpr EventTime kTime{1'000, 7};

EventStory story() { return EventStory({.run_id = "job", .role = "default", .host = "a", .pid = 1}); }

std::vector<json::object> events_in(const std::string& lines) {
    std::vector<json::object> events;
    for (const std::string_view line : lines_of(lines)) events.push_back(json::parse(line).as_object());
    return events;
}

// Of torchrun's rendezvous events the state stands behind the name's last part.
Names names_in(const std::string& lines) {
    Names names;
    for (const json::object& event : events_in(lines)) {
        std::string name(event.at("name").as_string());
        if (event.contains("node_state"))
            name = "rendezvous " + std::string(event.at("node_state").as_string());
        if (event.contains("source")) name = std::string(event.at("source").as_string()) + " " + name;
        names.push_back(std::move(name));
    }
    return names;
}

// The metadata of the only one of ours with that name.
json::object own(const std::string& lines, std::string_view name) {
    std::vector<json::object> found;
    for (const json::object& event : events_in(lines)) {
        if (event.at("name").as_string() == name) found.push_back(event.at("metadata").as_object());
    }
    REQUIRE(found.size() == 1);
    for (const char* common : {"run_id", "hostname", "launcher_pid", "elapsed_ms"}) {
        CHECK(found[0].contains(common));
        found[0].erase(common);
    }
    return found[0];
}

RoundReady round_of(int nodes, int world_size, int resizes = 0) {
    return {.round = resizes,
            .job_id = "job-1",
            .group_world_size = nodes,
            .world_size = world_size,
            .resizes = resizes};
}

MemberList members(const std::vector<std::pair<std::string, int>>& hosts) {
    MemberList list;
    for (const auto& [host, pid] : hosts) list.members.push_back({.host = host, .pid = pid});
    return list;
}

Failure failed_rank(int rank) {
    return {.kind = Failure::Kind::worker_failed, .node_rank = 1, .host = "b", .rank = rank, .exit_code = 7};
}

}  // namespace

TEST_CASE("event story: from the options to the first round") {
    EventStory told = story();
    CHECK(names_in(told.did("options_read", {{"nodes", 2}}, kTime)) ==
          Names{"DDPRUN ddprun.start.options_read"});
    CHECK(names_in(told.begins(kTime)) == Names{"rendezvous RUNNING"});
    CHECK(names_in(told.learns(PlaceKnown{{"a", 29500}, true}, kTime)) ==
          Names{"DDPRUN ddprun.start.store_up", "rendezvous INIT"});
    CHECK(told.learns(PlaceKnown{{"a", 29500}, true}, kTime).empty());
    CHECK(told.learns(PlaceKnown{{"a", 0}, false}, kTime).empty());
    CHECK(own(told.learns(PlaceKnown{{"b", 29500}, false}, kTime), "ddprun.start.store_known") ==
          json::object{{"endpoint", "b:29500"}});
    const std::string waits = told.hears(Waiting{.joined = 1, .expected = 2}, kTime);
    CHECK(names_in(waits) == Names{"DDPRUN ddprun.start.joined", "DDPRUN ddprun.round.waiting"});
    CHECK(own(waits, "ddprun.round.waiting").at("joined") == 1);
    CHECK(names_in(told.hears(Parked{"later"}, kTime)) == Names{"DDPRUN ddprun.round.parked"});
    const std::string ready = told.hears(round_of(2, 4), kTime);
    CHECK(names_in(ready) == Names{"DDPRUN ddprun.round.ready", "rendezvous RUNNING"});
    CHECK(own(ready, "ddprun.round.ready") == json::object{{"round", 0},
                                                           {"job_id", "job-1"},
                                                           {"world_size", 4},
                                                           {"nodes", 2},
                                                           {"node_rank", 0},
                                                           {"first_rank", 0},
                                                           {"restart_count", 0},
                                                           {"max_restarts", 0},
                                                           {"resize_count", 0},
                                                           {"reason", ""}});
    CHECK(own(told.workers_run(round_of(2, 4), 3, kTime), "ddprun.round.started") ==
          json::object{{"round", 0}, {"workers", 3}});
}

TEST_CASE("event story: a restart has its cause") {
    EventStory told = story();
    told.hears(round_of(2, 4), kTime);
    const std::string stops = told.hears(Stop{0, failed_rank(3)}, kTime);
    CHECK(own(stops, "ddprun.round.stopping").at("cause") ==
          json::object{{"kind", "worker_failed"},
                       {"node_rank", 1},
                       {"host", "b"},
                       {"rank", 3},
                       {"exit_code", 7},
                       {"signal", nullptr},
                       {"text", "rank 3 on node 1 (b): exit code 7"}});
    Failure killed = failed_rank(2);
    killed.signal = SIGKILL;
    const json::object restart = own(told.hears(Restarting{killed, 1, 3, 250}, kTime), "ddprun.restart");
    CHECK(restart.at("restart") == 1);
    CHECK(restart.at("max_restarts") == 3);
    CHECK(restart.at("delay_ms") == 250);
    CHECK(restart.at("cause").at("signal") == "SIGKILL");
    RoundReady next = round_of(2, 4);
    next.round = 1;
    CHECK(names_in(told.hears(next, kTime)) == Names{"DDPRUN ddprun.round.ready", "rendezvous RUNNING"});
}

TEST_CASE("event story: a resize tells the sizes, and who left and came as far as that is known") {
    EventStory told = story();
    told.hears(members({{"a", 1}, {"b", 2}}), kTime);
    told.hears(round_of(2, 4), kTime);
    const Failure lost{.kind = Failure::Kind::node_lost, .node_rank = 1, .host = "b", .exit_code = 69};
    const std::string resizing = told.hears(Restarting{.cause = lost, .resize = 1, .nodes = 2}, kTime);
    CHECK(own(resizing, "ddprun.resizing").at("nodes") == 2);
    told.hears(members({{"a", 1}, {"b", 3}}), kTime);
    CHECK(own(told.hears(round_of(2, 3, 1), kTime), "ddprun.resize") ==
          json::object{{"round", 1},
                       {"resize", 1},
                       {"from_world_size", 4},
                       {"to_world_size", 3},
                       {"from_nodes", 2},
                       {"to_nodes", 2},
                       {"left", json::array{"b (2)"}},
                       {"came", json::array{"b (3)"}},
                       {"cause", "node 1 (b) was lost"}});
    const json::object unknown = own(told.hears(round_of(1, 2, 2), kTime), "ddprun.resize");
    CHECK(unknown.at("left").is_null());
    CHECK(unknown.at("came").is_null());
}

TEST_CASE("event story: what happens to the agent itself") {
    const std::tuple<AgentNews, const char*, json::object> kNews[] = {
        {StateChanged{AgentState::running, AgentEvent::worker_failed, AgentState::stopping},
         "ddprun.state",
         {{"from", "running"}, {"to", "stopping"}, {"by", "worker_failed"}}},
        {SignalReceived{SIGTERM}, "ddprun.signal.received", {{"signal", "SIGTERM"}}},
        {TimeWarning{SIGUSR1, "soon"}, "ddprun.time.warning", {{"signal", "SIGUSR1"}, {"text", "soon"}}},
        {CoordinatorLost{"gone"}, "ddprun.coordinator.lost", {{"cause", "gone"}}},
        {RefusedCaller{"10.0.0.9", -1, "no key", 7},
         "ddprun.caller.refused",
         {{"address", "10.0.0.9"}, {"user", -1}, {"reason", "no key"}, {"calls", 7}}},
        {TookOver{}, "ddprun.coordinator.taken_over", {}},
        {LedAgain{}, "ddprun.coordinator.found", {}},
        {WorkerEnded{2,
                     {.rank = 3,
                      .local_rank = 1,
                      .pid = 9,
                      .exit_code = 139,
                      .signal = SIGSEGV,
                      .core_dumped = true,
                      .manner = RankEnd::Manner::failed,
                      .wall_ms = 20},
                     {1'500'499, 499, 4096, 1}},
         "ddprun.worker.ended",
         {{"round", 2},
          {"rank", 3},
          {"local_rank", 1},
          {"pid", 9},
          {"manner", "failed"},
          {"exit_code", 139},
          {"signal", "SIGSEGV"},
          {"core_dumped", true},
          {"wall_ms", 20},
          {"user_cpu_ms", 1500},
          {"system_cpu_ms", 0},
          {"max_rss_bytes", 4096},
          {"major_page_faults", 1}}},
        {TimerExpired{2, 3, 1, 9, "step", 300, SIGKILL},
         "ddprun.timer.expired",
         {{"round", 2},
          {"rank", 3},
          {"local_rank", 1},
          {"pid", 9},
          {"scope", "step"},
          {"length_ms", 300},
          {"signal", "SIGKILL"}}},
        {TimerExpired{.round = 2, .pid = 9, .scope = "a stranger's"},
         "ddprun.timer.expired",
         {{"round", 2},
          {"rank", nullptr},
          {"local_rank", nullptr},
          {"pid", 9},
          {"scope", "a stranger's"},
          {"length_ms", 0},
          {"signal", nullptr}}}};
    for (const auto& [news, name, facts] : kNews) {
        EventStory told = story();
        CHECK(own(told.learns(news, kTime), name) == facts);
    }
    EventStory told = story();
    CHECK(told.learns(StateChanged{AgentState::running, AgentEvent::round_ready, AgentState::running}, kTime)
              .empty());
    CHECK(own(told.hears(NoticeSignal{4, SIGUSR2}, kTime), "ddprun.signal.forwarded") ==
          json::object{{"signal", "SIGUSR2"}, {"round", 4}});
    CHECK(told.hears(Heartbeat{}, kTime).empty());
}

TEST_CASE("events: what this node's ranks did before they were told to end") {
    EventStory told = story();
    const RanksSeen seen{2, true, {{{{0, 2}}, RanksDoing::Manner::waited, "waited in f (a.py:1)"}}};
    const boost::json::object ranks{{"first", 0}, {"last", 2}};
    const boost::json::object group{
        {"ranks", boost::json::array{ranks}}, {"manner", "waited"}, {"doing", "waited in f (a.py:1)"}};
    CHECK(own(told.learns(seen, kTime), "ddprun.stacks") ==
          boost::json::object{{"round", 2}, {"half_of_grace", true}, {"groups", boost::json::array{group}}});
}

TEST_CASE("event story: the end has torchrun's event of each worker of this node, and of the agent") {
    EventStory told = story();
    RoundReady round = round_of(2, 4);
    round.role_base_rank = 2;
    round.role_world_size = 4;
    told.hears(round, kTime);
    JobResult result{.node_rank = 1, .outcome = Outcome::failed, .exit_code = 7};
    result.first_failure = failed_rank(3);
    result.first_failure->error_message = "no";
    using Manner = RankEnd::Manner;
    // In the order in which they have ended.
    result.ranks = {
        {.rank = 0, .node_rank = 0},
        {.rank = 3, .local_rank = 1, .node_rank = 1, .pid = 9, .exit_code = 7, .manner = Manner::failed},
        {.rank = 2, .local_rank = 0, .node_rank = 1, .pid = 8, .exit_code = 143, .manner = Manner::stopped}};
    result.restart_count = 1;
    const std::string lines = told.ends(result, kTime);
    CHECK(names_in(lines) ==
          Names{"WORKER torchelastic.worker.status.TERMINATED", "WORKER torchelastic.worker.status.FAILED",
                "AGENT torchelastic.worker.status.SUCCEEDED", "rendezvous SUCCEEDED", "DDPRUN ddprun.ended"});
    const auto metadata = events_in(lines)[1].at("metadata").as_object();
    CHECK(metadata.at("global_rank") == 3);
    CHECK(metadata.at("worker_id") == "9");
    CHECK(metadata.at("agent_restarts") == 1);
    CHECK(json::parse(metadata.at("metadata").as_string()) ==
          json::parse(R"({"group_world_size": 2, "entry_point": "", "local_rank": [1], "role_rank": [3],
                          "role_world_size": [4]})"));
    CHECK(metadata.at("raw_error").as_string().find("no") != json::string::npos);
    CHECK(own(lines, "ddprun.ended").at("first_failure").at("rank") == 3);
    // The cause is another node's, whose error this node does not have.
    result.first_failure = failed_rank(0);
    CHECK(events_in(told.ends(result, kTime))[1].at("metadata").at("raw_error") == R"({"message":"<NONE>"})");
}

TEST_CASE("event story: an agent that was signalled or never took part has failed") {
    for (const Outcome outcome :
         {Outcome::signalled, Outcome::preempted, Outcome::not_admitted, Outcome::node_lost}) {
        const std::string lines =
            story().ends({.outcome = outcome, .exit_code = 69, .message = "why"}, kTime);
        CHECK(names_in(lines) ==
              Names{"AGENT torchelastic.worker.status.FAILED", "rendezvous FAILED", "DDPRUN ddprun.ended"});
        CHECK(events_in(lines)[1].at("error_trace") == "why");
    }
    const std::string lines = story().fails(71, "the port is taken", kTime);
    CHECK(names_in(lines) == Names{"AGENT torchelastic.worker.status.FAILED", "DDPRUN ddprun.ended"});
    CHECK(own(lines, "ddprun.ended").at("text") == "the port is taken");
}

TEST_CASE("event story: a hang, and that it is over") {
    EventStory told = story();
    HangFound found{
        {.kind = VerdictKind::deadlock, .suspects = {2}, .waiting = {}, .sentence = "rank 2 sleeps"},
        500,
        1500};
    for (int rank = 3; rank < 100; ++rank) found.verdict.waiting.push_back(rank);
    const json::object hang = own(told.learns(found, kTime), "ddprun.hang");
    CHECK(hang.size() == 6);
    CHECK((hang.at("kind") == "deadlock" && hang.at("text") == "rank 2 sleeps"));
    CHECK((hang.at("since_unix_ms") == 500 && hang.at("quiet_ms") == 1500));
    CHECK(hang.at("suspects") == json::array{2});
    CHECK((hang.at("waiting").as_array().size() == 64 && hang.at("waiting").at(0) == 3));
    const json::object over =
        own(told.learns(HangOver{9000, ProgressSign::woken}, kTime), "ddprun.hang.over");
    CHECK((over.size() == 2 && over.at("quiet_ms") == 9000 && over.at("sign") == "woken"));
}

}  // namespace ddprun
