#include "launcher/view/routes.hpp"

#include <csignal>
#include <random>

#include "tests/support/catch.hpp"
#include "tests/support/random_values.hpp"

namespace ddprun {
namespace {

AgentStatus some_status() {
    AgentStatus status{.state = "running", .job_id = "none-1f", .round = 2, .restart_count = 1};
    status.max_restarts = 3;
    status.world_size = 16;
    status.workers = {{.rank = 8, .local_rank = 0, .pid = 4711},
                      {.rank = 9, .local_rank = 1, .pid = 4712, .exit_code = 137}};
    return status;
}

const ViewSource kSource{.status = some_status, .effect_of = [](int signal) {
                             return signal == SIGUSR1 ? SignalEffect{.refusal = "no\n\"such\" thing"}
                                                      : SignalEffect{.ends_job = signal == SIGTERM};
                         }};

ViewAnswer asked(Verb verb, const std::string& target, Caller caller = Caller::own_user) {
    return answer_to({caller, verb, target}, kSource);
}

}  // namespace

TEST_CASE("view: each caller has routes of its own") {
    struct Case {
        Caller caller;
        Verb verb;
        const char* target;
        unsigned status;
        const char* allowed;
        int signal;
    };
    using enum Caller;
    using enum Verb;
    const Case cases[] = {
        {own_user, get, "/status", 200, "", 0},
        {own_user, get, "/status?x", 200, "", 0},
        {own_user, post, "/status", 405, "GET, HEAD", 0},
        {own_user, other, "/status", 405, "GET, HEAD", 0},
        {own_user, get, "/signal?name=SIGTERM", 405, "POST", 0},
        {own_user, post, "/signal?name=SIGTERM", 200, "", SIGTERM},
        {own_user, post, "/signal?name=USR2", 200, "", SIGUSR2},
        {own_user, post, "/signal?name=SIGUSR1", 409, "", 0},
        {own_user, post, "/signal?name=", 400, "", 0},
        {own_user, post, "/signal?name=0", 400, "", 0},
        {own_user, post, "/signal?name=SIGNAL", 400, "", 0},
        {own_user, post, "/signal?signal=SIGTERM", 400, "", 0},
        {own_user, post, "/signal", 400, "", 0},
        {own_user, get, "/", 404, "", 0},
        {own_user, get, "", 404, "", 0},
        {own_user, get, "/statuses", 404, "", 0},
        {own_user, get, "?", 404, "", 0},
        {anybody, get, "/healthz", 200, "", 0},
        {anybody, get, "", 200, "", 0},
        {anybody, get, "/status", 200, "", 0},
        {anybody, post, "/signal?name=SIGTERM", 405, "GET, HEAD", 0},
        {anybody, post, "/status", 405, "GET, HEAD", 0},
        {anybody, other, "/", 405, "GET, HEAD", 0},
    };
    for (const Case& one : cases) {
        CAPTURE(one.target, one.status);
        const ViewAnswer answer = asked(one.verb, one.target, one.caller);
        CHECK(answer.status == one.status);
        CHECK(answer.allowed == one.allowed);
        CHECK(answer.signal == one.signal);
        CHECK((answer.text.empty() || answer.text.find('\n') == answer.text.size() - 1));
        // What anybody may read is the health port's text, whatever was asked for.
        if (one.caller == anybody && one.status == 200) CHECK(answer.text == health_text(some_status()));
    }
    CHECK(asked(get, "/a\x1b[31m\nb").text == "{\"error\":\"no such path: '/a?b'\"}\n");
}

TEST_CASE("view: what is asked of a job's own launcher comes back as it was answered") {
    CHECK(signal_target(SIGTERM) == "/signal?name=SIGTERM");
    for (int signal : {SIGTERM, SIGUSR2, SIGRTMIN + 3, SIGRTMAX}) {
        const ViewAnswer answer = asked(Verb::post, signal_target(signal));
        CHECK(answer.signal == signal);
        CHECK(parse_signal_effect(answer.text) == SignalEffect{.ends_job = signal == SIGTERM});
    }
    CHECK(parse_signal_effect(asked(Verb::post, signal_target(SIGUSR1)).text) ==
          SignalEffect{.refusal = "no\n\"such\" thing"});
    CHECK(parse_agent_status(asked(Verb::get, "/status").text) == some_status());
}

TEST_CASE("view: whatever a status holds comes back, and no part of it does") {
    const unsigned seed = std::random_device()();
    INFO("seed " << seed);
    RandomValues values(seed, false);
    for (int i = 0; i < 500; ++i) {
        const auto status = values.make<AgentStatus>();
        const std::string text = to_json(status);
        INFO(text);
        REQUIRE(parse_agent_status(text) == status);
        REQUIRE_FALSE(parse_agent_status(text.substr(0, values.below(text.size()))));
    }
    const auto parsed = [](const std::string& worker) {
        return parse_agent_status(R"({"state":"x","job_id":"j","round":0,"restart_count":0,)"
                                  R"("max_restarts":0,"world_size":1,"workers":[)" +
                                  worker + "]}");
    };
    CHECK(parsed(R"({"rank":0,"local_rank":0,"pid":1,"running":true,"exit_code":null})"));
    CHECK_FALSE(parsed(R"({"rank":0,"local_rank":0,"pid":1,"running":true})"));
    CHECK_FALSE(parsed(R"({"rank":0,"local_rank":0,"pid":99999999999,"running":false,"exit_code":1})"));
    CHECK_FALSE(parsed(R"({"rank":0,"local_rank":0,"pid":"1","running":false,"exit_code":1})"));
    CHECK_FALSE(parsed("\"\xff\""));
    CHECK(to_json(AgentStatus{.workers = {{.rank = 1, .pid = 5}}}) ==
          R"({"state":"","job_id":"","round":0,"restart_count":0,"max_restarts":0,)"
          R"("world_size":0,"workers":[{"rank":1,"local_rank":0,"pid":5,"running":true,"exit_code":null}]})");
}

TEST_CASE("view: a status of a large node fits into an answer") {
    AgentStatus status = some_status();
    status.workers.assign(10'000, {.rank = 2'000'000'000, .local_rank = 9'999, .pid = 4'194'304});
    CHECK(to_json(status).size() < kMaxAnswer);
}

TEST_CASE("view: what is no answer is none, whatever was changed in one") {
    for (const char* text : {"", "{}", "[]", R"({"state":"x"})", R"({"refusal":""})"}) {
        INFO(text);
        CHECK_FALSE(parse_agent_status(text));
        CHECK_FALSE(parse_signal_effect(text));
    }
    const auto seed = std::random_device()();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::string good = to_json(some_status());
    for (int i = 0; i < 2000; ++i) {
        std::string text = good;
        for (int changes = 0; changes < 3; ++changes)
            text[random() % text.size()] = static_cast<char>(random() % 256);
        parse_agent_status(text);  // must neither throw nor read outside
        parse_signal_effect(text);
        asked(Verb::post, text);
    }
}

TEST_CASE("view: the health port says where the agent is, and whose job it is to nobody") {
    CHECK(
        health_text({.state = "joining"}) ==
        R"({"status":"alive","state":"joining","round":null,"restart_count":null,"world_size":null,"workers":0})"
        "\n");
    CHECK(health_text({.state = "running",
                       .job_id = "secret",
                       .round = 2,
                       .restart_count = 1,
                       .max_restarts = 3,
                       .world_size = 8,
                       .workers = {{}, {}}}) ==
          R"({"status":"alive","state":"running","round":2,"restart_count":1,"world_size":8,"workers":2})"
          "\n");
}

}  // namespace ddprun
