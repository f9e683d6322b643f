#include "launcher/view/routes.hpp"

#include <csignal>
#include <optional>
#include <random>

#include "tests/support/catch.hpp"

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

JobView some_view() { return job_view({.id = "train-7f3a", .name = "train.py"}, some_status(), {}, {}); }

const ViewSource kSource{
    .status = some_status,
    .job = [](const auto& done) { done(some_view()); },
    .output =
        [](const KeptQuestion& question, const auto& done) {
            done({question.from, question.waits, {{question.rank.value_or(-1), "stdout", 7, "a\xff"}}});
        },
    .events = [] { return std::string("{}\n"); },
    .effect_of =
        [](int signal) {
            return signal == SIGUSR1 ? SignalEffect{.refusal = "no\n\"such\" thing"}
                                     : SignalEffect{.ends_job = signal == SIGTERM};
        }};

ViewAnswer asked(Verb verb, const std::string& target, Caller caller = Caller::own_user) {
    std::optional<ViewAnswer> answer;
    answer_to({caller, verb, target}, kSource, [&answer](ViewAnswer said) {
        REQUIRE_FALSE(answer);
        answer = std::move(said);
    });
    REQUIRE(answer);
    return *answer;
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
        {own_user, get, "/output", 200, "", 0},
        {own_user, get, "/output?rank=3&from=5&wait=1", 200, "", 0},
        {own_user, get, "/output?from=-1", 400, "", 0},
        {own_user, get, "/output?from=99999999999999999999", 400, "", 0},
        {own_user, get, "/output?rank=", 400, "", 0},
        {own_user, get, "/output?rank=99999999999", 400, "", 0},
        {own_user, get, "/output?wait=2", 400, "", 0},
        {own_user, get, "/output?line=1", 400, "", 0},
        {own_user, post, "/output", 405, "GET, HEAD", 0},
        {anybody, get, "/output", 200, "", 0},
        {own_user, get, "/events", 200, "", 0},
        {own_user, post, "/events", 405, "GET, HEAD", 0},
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
    CHECK(parse_job_view(asked(Verb::get, "/status").text) == some_view());
    for (const KeptQuestion& question :
         {KeptQuestion{}, KeptQuestion{3, 5, true}, KeptQuestion{0, UINT64_MAX, false}}) {
        CHECK(parse_kept_piece(asked(Verb::get, output_target(question)).text) ==
              KeptPiece{question.from,
                        question.waits,
                        {{question.rank.value_or(-1), "stdout", 7, "a\xef\xbf\xbd"}}});
    }
}

TEST_CASE("view: what is no answer is none, whatever was changed in one") {
    for (const char* text : {"", "{}", "[]", R"({"state":"x"})", R"({"refusal":""})"}) {
        INFO(text);
        CHECK_FALSE(parse_signal_effect(text));
    }
    const auto seed = std::random_device()();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::string good = asked(Verb::post, signal_target(SIGTERM)).text;
    for (int i = 0; i < 2000; ++i) {
        std::string text = good;
        for (int changes = 0; changes < 3; ++changes)
            text[random() % text.size()] = static_cast<char>(random() % 256);
        parse_signal_effect(text);  // must neither throw nor read outside
        parse_kept_piece(text);
        asked(Verb::get, text);
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
