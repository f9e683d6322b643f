#include "launcher/verdict/observation_text.hpp"

#include <algorithm>

#include "launcher/verdict/look_json.hpp"
#include "tests/launcher/verdict/observed.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

std::vector<Observation> full_look() {
    const Observed made(Program::own_backend);
    std::vector<Observation> look{made.meets(0, "all_reduce", 140, {1}), made.away(1, WaitKind::file),
                                  made.ended(2)};
    look[0].wait->own = SocketEnd{"10.0.0.1:4000", 1, 2, 3, 4};
    look[0].wait->is_listening = look[0].wait->is_timed = true;
    look[0].peers = {1, 2};
    look[0].is_collecting = true;
    look[1].threads = {{77, "pt_data", wait_of(WaitKind::poll), look[0].frames}, {78, "x", {}, {}}};
    look[1].own = {5, 6, true};
    look[2].why_unreadable = "process 12 has ended";
    look[2].wait.reset();
    return look;
}

std::string text_with(const std::string& from, const std::string& to) {
    std::string text = to_json(full_look());
    const auto place = text.find(from);
    REQUIRE(place != std::string::npos);
    return text.replace(place, from.size(), to);
}

}  // namespace

TEST_CASE("observations: what is told to another node comes back") {
    CHECK(parse_observations(to_json(full_look())) == full_look());
    CHECK(parse_observations(to_json(std::vector<Observation>())) == std::vector<Observation>());
}

TEST_CASE("observations: what no node says is refused") {
    const std::pair<const char*, const char*> kChanges[] = {
        {"\"rank\":1", "\"rank\":0"},
        {"\"rank\":1", "\"rank\":-1"},
        {"\"rank\":1", "\"rank\":409600000"},
        {"\"rank\":1", "\"rank\":1.5"},
        {"\"rank\":1", "\"rank\":\"1\""},
        {"\"rank\":1,", ""},
        {"\"node\":0", "\"node\":-1"},
        {"\"pid\":1000", "\"pid\":-1"},
        {"\"pid\":1000", "\"pid\":99999999999"},
        {"\"kind\":\"file\"", "\"kind\":\"nothing\""},
        {"\"source\":\"python\"", "\"source\":\"perl\""},
        {"\"line\":140", "\"line\":-1"},
        {"\"peers\":[1,2]", "\"peers\":[1,-2]"},
        {"\"awaited\":[1]", "\"awaited\":[-1]"},
        {"\"awaited\":[1]", "\"awaited\":[1,2,3,4,5,6,7,8,9]"},
        {"\"for_ms\":31000", "\"for_ms\":-1"},
        {"\"exit_code\":0", "\"exit_code\":256"},
        {"\"exit_code\":0", "\"exit_code\":-1"},
        {"\"process\":0", "\"process\":-5"},
        {"{\"ranks\":[", "{\"ranks\":{"},
        {"{\"ranks\":[", "[["},
        {"\"threads\":[]", "\"threads\":[[[[[[[[[[[[]]]]]]]]]]]]"},
    };
    for (const auto& [from, to] : kChanges) {
        INFO(from << " -> " << to);
        CHECK(!parse_observations(text_with(from, to)));
    }
    CHECK(!parse_observations(""));
    CHECK(!parse_observations(std::string(kMaxObservationsText, ' ') + to_json(full_look())));
    CHECK(!parse_observations(text_with("train.py", std::string(600, 'x'))));
}

TEST_CASE("observations: lists and texts are within their limits, and what does not fit is left out") {
    const Observed made(Program::gloo);
    Observation one = made.meets(0);
    one.frames.resize(300, python("f", "/x.py", 1));
    one.threads.resize(100, {77, std::string(600, 'x'), {}, one.frames});
    one.peers.resize(5000, 3);
    one.host = "\x1b[31m\xff\n";
    one.call = CollectiveCall{"all_reduce", "", 1, 1, std::vector<int>(100, 2)};
    const auto back = parse_observations(to_json({one}));
    REQUIRE(back);
    CHECK(back->at(0).frames.size() == kMaxFrames);
    CHECK(back->at(0).threads.size() == kMaxTold);
    CHECK(back->at(0).peers.size() == kMaxPeers);
    CHECK(back->at(0).call->awaited.size() == kMaxAwaited);
    CHECK(back->at(0).host.find('\x1b') == std::string::npos);

    std::vector<Observation> many(1100, made.meets(0));
    for (std::size_t i = 0; i < many.size(); ++i) many[i].rank = static_cast<int>(i);
    const std::string text = to_json(many, 600'000);
    CHECK(text.size() <= 600'000);
    const auto less = parse_observations(text);
    REQUIRE(less);
    CHECK(less->size() == kMaxObservations);
    CHECK(less->at(7).wait->kind == WaitKind::lock);
    const auto few = parse_observations(to_json({one}, 20'000));
    REQUIRE(few);
    CHECK(few->at(0).threads.empty());
    CHECK(!few->at(0).frames.empty());
}

TEST_CASE("observations: kinds of waits have one name each") {
    for (int kind = 0; kind <= static_cast<int>(WaitKind::starting); ++kind)
        CHECK(name_of_value(static_cast<WaitKind>(kind)) == name_of(static_cast<WaitKind>(kind)));
}

}  // namespace ddprun
