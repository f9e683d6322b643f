#include "launcher/view/routes.hpp"

#include <csignal>
#include <memory>
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

// A stream that only has its terms.
class Named final : public ViewStream {
  public:
    explicit Named(StreamTerms terms) : of(std::move(terms)) {}
    std::string take() override { return {}; }
    bool is_over() const override { return true; }
    void await(std::function<void()>) override {}
    void close() override {}

    StreamTerms of;
};

const ViewSource kSource{.status = some_status,
                         .job = [](const auto& done) { done(some_view()); },
                         .stream = [](const StreamTerms& terms) { return std::make_shared<Named>(terms); },
                         .stacks =
                             [](const StacksTerms& terms, const auto& done) {
                                 if (terms.rank == 7) return done({"the job has 2 ranks", {}});
                                 done({{}, to_text(terms) + "\n"});
                             },
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
        {own_user, get, "/output?rank=3&follow=1", 200, "", 0},
        {own_user, get, "/output?rank=-1", 400, "", 0},
        {own_user, get, "/output?rank=99999999999999999999", 400, "", 0},
        {own_user, get, "/output?rank=", 400, "", 0},
        {own_user, get, "/output?rank=99999999999", 400, "", 0},
        {own_user, get, "/output?follow=2", 400, "", 0},
        {own_user, get, "/output?line=1", 400, "", 0},
        {own_user, post, "/output", 405, "GET, HEAD", 0},
        {anybody, get, "/output", 200, "", 0},
        {own_user, get, "/events", 200, "", 0},
        {own_user, get, "/events?follow=1", 200, "", 0},
        {own_user, get, "/events?rank=1", 400, "", 0},
        {own_user, post, "/events", 405, "GET, HEAD", 0},
        {own_user, get, "/stacks?rank=1&threads=1&native=1&text=1", 200, "", 0},
        {own_user, get, "/stacks?rank=7", 409, "", 0},
        {own_user, get, "/stacks?rank=x", 400, "", 0},
        {own_user, get, "/stacks?threads=2", 400, "", 0},
        {own_user, post, "/stacks", 405, "GET, HEAD", 0},
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
        CHECK((answer.stream != nullptr) == (answer.status == 200 && one.caller == own_user &&
                                             (std::string_view(one.target).starts_with("/output") ||
                                              std::string_view(one.target).starts_with("/events"))));
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
    for (const StreamTerms& terms : {StreamTerms{"output", {}, false}, StreamTerms{"output", 0, true},
                                     StreamTerms{"events", {}, true}}) {
        const ViewAnswer answer = asked(Verb::get, stream_target(terms));
        REQUIRE(answer.stream);
        CHECK((answer.text.empty() && dynamic_cast<const Named&>(*answer.stream).of == terms));
    }
    for (const StacksTerms& terms :
         {StacksTerms{}, StacksTerms{0, true, false, true}, StacksTerms{.rank = 6, .native = true}}) {
        const ViewAnswer answer = asked(Verb::get, stacks_target(terms));
        CHECK(parse_stacks_terms(answer.text.substr(0, answer.text.size() - 1)) == terms);
    }
    CHECK(refusal_in(asked(Verb::get, stacks_target({.rank = 7})).text) == "the job has 2 ranks");
    for (const char* text : {"", "{", "[1]", "{}", "{\"error\":1}"}) CHECK_FALSE(refusal_in(text));
    const StreamLine line{.node = 1,
                          .host = "gpu01",
                          .trouble = "no",
                          .blocks = {{3, "stdout", 7, "a\n"}},
                          .has_caught_up = true,
                          .exit_code = 3};
    CHECK(parse_stream_line(to_json(line)) == line);
    CHECK(to_json(line).find('\n') == std::string::npos);
}

TEST_CASE("view: what one launcher asks another comes as it was said") {
    for (const KeptQuestion& question :
         {KeptQuestion{}, KeptQuestion{3, 5, true, "4711-17"}, KeptQuestion{0, UINT64_MAX, false, ""}}) {
        const auto read = parse_kept_question(to_text(question));
        REQUIRE(read);
        CHECK((read->rank == question.rank && read->from == question.from && read->waits == question.waits));
        CHECK(read->launcher == question.launcher);
    }
    for (const std::string& text :
         {std::string("from=-1"), std::string("from="), std::string("rank=x"), std::string("wait=2"),
          std::string("line=1"), "of=" + std::string(1000, 'x')}) {
        INFO(text);
        CHECK_FALSE(parse_kept_question(text));
    }
    const KeptPiece piece{5, false, {{1, "stdout", 7, "a\n"}}, "4711-17", "/logs"};
    CHECK(parse_kept_piece(to_json(piece)) == piece);
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
        parse_kept_question(text);
        parse_stream_line(text);
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
