#include "launcher/start/start_tree.hpp"

#include <algorithm>
#include <random>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

StartPlan some_plan() {
    return {
        .nodes = {{.rank = 3, .target = "u@a", .workers = 2, .devices = "0,2", .is_here = true}, {.rank = 4}},
        .fan_out = 32,
        .directory = "/a b",
        .environment = {{"A", "b\nc"}, {"E", ""}},
        .clean_environment = true,
        .options = {"-r3"},
        .program = {"prog", ""},
        .nnodes = "2:5",
        .master_addr = "a",
        .master_port = 29500,
        .secret = "00ff",
        .rsh = {"ssh"},
        .ships = false,
        .run_record = "{}"};
}

std::vector<UpMessage> messages_up() {
    return {AgentOutput{7, true, std::string("a\0b\n", 4)}, PortTaken{65535}, AgentRuns{1},
            AgentEnded{2, 137, true}, HostFailed{{1, 2, 3}, "b: no", true}};
}

std::string body_of(const std::string& frame) { return frame.substr(4, frame.size() - 5); }

// The bodies that come out of a stream that is cut into pieces of this size.
std::vector<std::string> bodies(FrameReader& reader, std::string_view stream, std::size_t piece) {
    std::vector<std::string> found;
    while (!stream.empty()) {
        reader.push(stream.substr(0, piece));
        stream.remove_prefix(std::min(piece, stream.size()));
        while (const auto body = reader.next()) found.emplace_back(*body);
    }
    return found;
}

}  // namespace

TEST_CASE("messages of a start come back as they were, however the stream is cut", "[start]") {
    std::string stream;
    for (const UpMessage& message : messages_up()) stream += frame_of(message);
    for (const std::size_t piece : {std::size_t{1}, std::size_t{3}, std::size_t{50}, stream.size()}) {
        FrameReader reader(kMaxFrameUp);
        std::vector<UpMessage> back;
        for (const std::string& body : bodies(reader, stream, piece)) back.push_back(*parse_up(body));
        CHECK(back == messages_up());
    }
    const DownMessage plan = some_plan();
    FrameReader reader(kMaxFrameDown);
    reader.push(frame_of(plan) + frame_of(DownMessage(EndAgents{})));
    CHECK(parse_down(*reader.next()) == plan);
    CHECK(parse_down(*reader.next()) == DownMessage(EndAgents{}));
    CHECK_FALSE(reader.next());
    CHECK_FALSE(reader.is_broken());
}

TEST_CASE("a frame that is longer than any is refused before it is held", "[start]") {
    FrameReader reader(8);
    reader.push(std::string("\x08\0\0\0", 4));
    CHECK_FALSE(reader.next());
    CHECK_FALSE(reader.is_broken());
    FrameReader too_long(8);
    too_long.push(std::string("\x09\0\0\0", 4));
    CHECK_FALSE(too_long.next());
    CHECK(too_long.is_broken());
    FrameReader endless(8);
    endless.push(std::string("\x01\0\0\0ab", 6));
    CHECK_FALSE(endless.next());
    CHECK(endless.is_broken());
}

TEST_CASE("no bytes make a message of a start out of nothing", "[start]") {
    const auto seed = std::random_device{}();
    CAPTURE(seed);
    std::mt19937 random(seed);
    std::vector<std::string> samples{body_of(frame_of(DownMessage(some_plan())))};
    for (const UpMessage& message : messages_up()) samples.push_back(body_of(frame_of(message)));
    for (int i = 0; i < 20'000; ++i) {
        std::string body = samples[random() % samples.size()];
        for (auto changes = 1 + random() % 4; changes > 0; --changes)
            body[random() % body.size()] = static_cast<char>(random());
        body.resize(random() % 4 == 0 ? random() % (body.size() + 1) : body.size());
        // What is accepted can be sent again.
        if (const auto up = parse_up(body)) CHECK(parse_up(body_of(frame_of(*up))) == up);
        if (const auto down = parse_down(body)) CHECK(parse_down(body_of(frame_of(*down))) == down);
    }
    CHECK_FALSE(parse_up(""));
    CHECK_FALSE(parse_up(samples[1] + "x"));
}

}  // namespace ddprun
