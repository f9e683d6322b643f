#include "rendezvous/control/control_wire.hpp"

#include <boost/json.hpp>
#include <random>

#include "rendezvous/system/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random_values.hpp"

namespace ddprun {
namespace {

Failure sample_failure() {
    Failure failure{.kind = Failure::Kind::worker_failed, .node_rank = 3, .host = "gpu03"};
    failure.rank = 12;
    failure.local_rank = 4;
    failure.pid = 4'000'000'000;
    failure.exit_code = 139;
    failure.signal = 11;
    failure.core_dumped = true;
    failure.unix_time_ms = 1'700'000'000'123;
    failure.error_message = "ValueError: x";
    failure.traceback = "File a, line 1\n";
    failure.hint = "raise --shm-size";
    failure.last_lines = {"one", "", "three"};
    failure.witness = 2;
    failure.accusation = "does not answer";
    failure.testimony = "all_reduce: rank 12 does not answer";
    failure.message = "a \"quoted\" line\nand a second, with \xff no valid UTF-8";
    return failure;
}

RankEnd sample_end() {
    RankEnd end{.rank = 3, .local_rank = 1, .node_rank = 1, .host = "gpu01", .pid = 99, .exit_code = 143};
    end.signal = 15;
    end.outlasted_grace = true;
    end.manner = RankEnd::Manner::stopped;
    end.wall_ms = 123'456;
    return end;
}

MemberList sample_members() {
    MemberList list{
        .epoch = 2, .round = 5, .job_id = "none-ab12", .size = 3, .host_rank = 1, .heartbeat_ms = 5000};
    list.grace_ms = 30'000;
    list.members = {{1, 2, "gpu01", 99, 8, "10.0.0.1", 29500}, {0, 0, "gpu00", 98, 4, "10.0.0.7", 0}};
    list.restart_count = 1;
    list.resizes = 2;
    list.restarts = {{0, "rank 1 failed", 1'700'000'000'000}};
    list.resize_list = {{1, "a node (gpu02) has come", 1'700'000'000'000}};
    return list;
}

std::vector<ControlMessage> samples() {
    Hello hello{.version = "0.1.0", .run_id = "none", .node_rank = 1, .nnodes = 2, .local_world_size = 8};
    hello.command = describe_command({"train.py", "--lr", "0.1"});
    hello.allow_different = true;
    hello.reached_at = "10.0.0.1";
    hello.traits = {{"NCCL_DEBUG", "INFO"}, {"the executable", "/bin/train", true}};
    hello.host = "gpu01";
    hello.list_position = 7;
    hello.list_size = 9;
    hello.pid = 4711;
    hello.following =
        Following{.last = sample_members(), .group_rank = 2, .claim = 3, .cause = sample_failure()};
    RoundReady ready{
        .round = 2, .job_id = "none-ab12", .group_rank = 1, .group_world_size = 2, .base_rank = 8};
    ready.world_size = 16;
    ready.role_base_rank = 8;
    ready.role_world_size = 16;
    ready.restart_count = 1;
    ready.max_restarts = 3;
    ready.restart_reason = "rank 1 failed";
    ready.reached_at = "10.0.0.1";
    const PeerRefused peer_refused{"gpu07", 4711, "--node-rank 1 has already joined"};
    Finish finish{.exit_code = 139, .cause = sample_failure(), .message = "no restart"};
    finish.others = {sample_end()};
    finish.failed_too = 1;
    finish.restarts = {{0, "rank 1 failed", 1'700'000'000'000}};
    finish.resizes = {{1, "a node (gpu02) has come", 1'700'000'000'000}};
    finish.unknown_nodes = {"node 1 (gpu07)"};
    finish.unknown_node_count = 3;
    return {hello,
            WorkersSucceeded{2},
            WorkerFailed{2, sample_failure()},
            WorkerDying{2, 12, 0xffff'ffff'ffff'fffe, true},
            AgentSignalled{2, 15, "the time is over"},
            WorkersGone{2, true, true, sample_failure()},
            RankEnds{2, {sample_end(), sample_end()}},
            NoticeSignal{2, 10, true},
            Heartbeat{3, 2},
            Suspended{},
            RankSucceeded{2, 12},
            StillRunning{2, 3, {{4, 5}, {7, 7}}, 4711},
            Judgement{2, Judgement::Answer::exclude, 3},
            LeaseOver{},
            Goodbye{},
            Follow{3},
            JobMoved{"0.1.0", "none", 4, 2, 77, "10.0.0.2", 29500},
            Welcome{5000},
            Lead{3},
            Abdicated{"no majority", 1, 2, {0, 2}},
            MemberGone{1, 2, 1},
            sample_members(),
            GivenUp{"no heartbeat for 5 s"},
            Refused{"no", 77},
            peer_refused,
            NodesDiffer{{"nodes differ in NCCL_DEBUG", "nodes differ in OMP_NUM_THREADS"}},
            Waiting{1, 3, {1, 2}, {"node 0 (gpu00)"}, 4, 30'000, {"gpu01", "gpu02"}, 2},
            Parked{"the job has its 2 nodes"},
            ready,
            PeerDying{2, 17},
            WhoRuns{2},
            Remark{"they still run"},
            JudgeFailure{2, sample_failure()},
            Stop{2, sample_failure()},
            Restarting{sample_failure(), 1, 3, 500, 2, 4},
            finish};
}

std::string json_of(const std::string& frame) { return frame.substr(4); }

}  // namespace

TEST_CASE("every control message survives its own bytes") {
    auto messages = samples();
    REQUIRE(messages.size() == std::variant_size_v<ControlMessage>);
    for (const ControlMessage& message : messages) {
        auto back = decode_control(json_of(encode_control(message)));
        INFO(encode_control(message));
        REQUIRE(back.has_value());
        CHECK(*back == message);
    }
}

TEST_CASE("whatever a control message holds comes back, and no part of it does") {
    const unsigned seed = std::random_device()();
    INFO("seed " << seed);
    RandomValues values(seed);
    for (int i = 0; i < 2000; ++i) {
        const auto message = values.make<ControlMessage>();
        const std::string text = json_of(encode_control(message));
        INFO(text);
        const auto back = decode_control(text);
        REQUIRE(back.has_value());
        REQUIRE(*back == message);
        REQUIRE(decode_control(text.substr(0, values.below(text.size()))).has_error());
    }
}

TEST_CASE("a control message without one of its members, or with another type there, is refused") {
    for (const ControlMessage& message : samples()) {
        const auto object =
            boost::json::parse(json_of(encode_control(message)), {}, {.allow_invalid_utf8 = true})
                .as_object();
        for (const auto& member : object) {
            INFO(object << " without " << member.key());
            auto less = object;
            less.erase(member.key());
            CHECK(decode_control(boost::json::serialize(less)).has_error());
            if (member.key() == "following") continue;  // which may be nobody
            auto other = object;
            other[member.key()] = nullptr;
            CHECK(decode_control(boost::json::serialize(other)).has_error());
        }
    }
}

TEST_CASE("control frames come through any segmentation") {
    std::string stream;
    for (const ControlMessage& message : samples()) stream += encode_control(message);
    for (unsigned seed = 1; seed <= 50; ++seed) {
        INFO("seed " << seed);
        std::mt19937 random(seed);
        ControlFrames frames;
        std::vector<ControlMessage> received;
        for (std::size_t at = 0; at < stream.size();) {
            std::size_t count = std::min<std::size_t>(
                std::uniform_int_distribution<std::size_t>(1, 300)(random), stream.size() - at);
            frames.append(std::string_view(stream).substr(at, count));
            at += count;
            for (;;) {
                auto next = frames.next();
                REQUIRE(next.has_value());
                if (!*next) break;
                received.push_back(**next);
            }
        }
        CHECK(received == samples());
    }
}

TEST_CASE("what is no control message is refused") {
    const std::vector<std::string> bad = {
        "",
        "x",
        "[]",
        "{}",
        R"({"type":1})",
        R"({"type":"nonsense"})",
        R"({"type":"stop"})",
        R"({"type":"workers_gone","round":0})",
        R"({"type":"workers_gone","round":"0","all_zero":true,"progressed":false,"failed":false})",
        R"({"type":"workers_gone","round":99999999999,"all_zero":true,"progressed":false,"failed":false})",
        R"({"type":"workers_gone","round":1.5,"all_zero":true,"progressed":false,"failed":false})",
        R"({"type":"workers_gone","round":1,"all_zero":1,"progressed":false})",
        R"({"type":"rank_ends","round":0,"ends":[{}]})",
        R"({"type":"rank_ends","round":0,"ends":[1]})",
        R"({"type":"waiting","joined":1,"expected":2,"missing":[99999999999]})",
        R"({"type":"waiting","joined":1,"expected":2,"missing":["a"]})",
        R"({"type":"peer_dying","round":0,"life":-1})",
        R"({"type":"peer_dying","round":0,"life":18446744073709551616})",
        R"({"type":"peer_dying","round":0,"life":1.5})",
        R"({"type":"worker_dying","round":0,"rank":1,"life":2})",
        R"({"type":"goodbye"} trailing)",
    };
    for (const std::string& text : bad) {
        INFO(text);
        auto decoded = decode_control(text);
        REQUIRE_FALSE(decoded.has_value());
        CHECK(decoded.error() == Errc::protocol_violation);
    }
    CHECK(decode_control(R"({"type":"goodbye","newer_member":[1,2]})").has_value());
}

TEST_CASE("limits of control frames hold when bytes arrive") {
    ControlFrames zero;
    zero.append(std::string(4, '\0'));
    CHECK(zero.next().error() == Errc::limit_exceeded);

    ControlFrames huge;
    huge.append(std::string("\x01\x00\x10\x00", 4));  // kMaxControlFrame + 1, and not one byte more has come
    static_assert(kMaxControlFrame == 0x100000);
    CHECK(huge.next().error() == Errc::limit_exceeded);

    const std::string text(kMaxControlText + 1, 'x');
    CHECK_FALSE(decode_control(R"({"type":"refused","exit_code":1,"reason":")" + text + "\"}").has_value());
    Hello hello{.version = DDPRUN_VERSION};
    hello.traits.resize(kMaxNodeTraits);
    REQUIRE(decode_control(json_of(encode_control(hello))).has_value());
    auto traits = boost::json::parse(json_of(encode_control(hello))).as_object();
    traits["traits"].as_array().push_back(traits["traits"].as_array().front());
    CHECK_FALSE(decode_control(boost::json::serialize(traits)).has_value());
    const std::string list = [] {
        std::string items;
        for (std::size_t i = 0; i <= kMaxMissingListed; ++i) items += (i == 0 ? "" : ",") + std::to_string(i);
        return items;
    }();
    CHECK_FALSE(decode_control(R"({"type":"waiting","joined":1,"expected":200,"present":[],"missing":[)" +
                               list + "]}")
                    .has_value());
}

TEST_CASE("texts are cut so that what is sent can be read, even if every byte needs an escape") {
    const std::string controls(100'000, '\x01');
    Hello hello{.version = controls, .run_id = controls, .role = controls, .host = controls};
    auto back = decode_control(json_of(encode_control(hello)));
    REQUIRE(back.has_value());
    CHECK(std::get<Hello>(*back).run_id.size() == kMaxControlText);
    CHECK(std::get<Hello>(*back).host.size() == kMaxHostText);

    std::string umlauts = "x";
    while (umlauts.size() < kMaxControlText + 10) umlauts += "ü";
    auto refused = decode_control(json_of(encode_control(Refused{umlauts, 1})));
    REQUIRE(refused.has_value());
    CHECK(std::get<Refused>(*refused).reason.size() == kMaxControlText - 1);
}

TEST_CASE("the largest messages of every kind fit their frames") {
    const std::string text(100'000, '\x01');
    Failure failure{.host = text, .message = text, .error_message = text, .traceback = text, .hint = text};
    failure.last_lines.assign(kMaxLastLines, text);
    Finish finish{.cause = failure, .message = text};
    finish.others.assign(kMaxOthersListed, RankEnd{.host = text});
    finish.restarts.assign(kMaxRestartsListed, Restart{0, text, 0});
    RankEnds ends{0, std::vector<RankEnd>(kMaxEndsInMessage, RankEnd{.host = text})};
    Hello hello{.version = text, .run_id = text, .role = text, .host = text};
    hello.command.text = hello.reached_at = text;
    hello.traits.assign(kMaxNodeTraits, NodeTrait{text, text});
    NodesDiffer differ{std::vector<std::string>(kMaxDifferencesInMessage, text)};
    for (const ControlMessage& message : {ControlMessage(finish), ControlMessage(ends), ControlMessage(hello),
                                          ControlMessage(differ), ControlMessage(Stop{0, failure})}) {
        auto back = decode_control(json_of(encode_control(message)));
        CHECK(back.has_value());
    }
}

TEST_CASE("a Hello that another version has said in its own way is understood as far as it must be") {
    const auto foreign = decode_control(
        R"({"type":"hello","version":"9.0","run_id":"a","host":"gpu07","pid":17,"node_rank":"third","newer":[]})");
    REQUIRE(foreign.has_value());
    const auto& hello = std::get<Hello>(*foreign);
    CHECK(hello == Hello{.version = "9.0", .run_id = "a", .host = "gpu07", .pid = 17});
    CHECK(decode_control(R"({"type":"hello","version":"9.0"})").has_value());
    for (const char* bad :
         {R"({"type":"hello"})", R"({"type":"hello","version":9})", R"({"type":"goodby","version":"9.0"})",
          R"({"type":"hello","version":")" DDPRUN_VERSION R"("})"})
        CHECK_FALSE(decode_control(bad).has_value());
}

TEST_CASE("mutated control frames never do more than be refused") {
    const auto messages = samples();
    for (unsigned seed = 1; seed <= 3000; ++seed) {
        INFO("seed " << seed);
        std::mt19937 random(seed);
        auto pick = [&](std::size_t below) {
            return std::uniform_int_distribution<std::size_t>(0, below - 1)(random);
        };
        std::string frame = encode_control(messages[pick(messages.size())]);
        for (std::size_t i = 0; i < 1 + pick(4); ++i)
            frame[pick(frame.size())] = static_cast<char>(pick(256));
        ControlFrames frames;
        frames.append(frame);
        auto next = frames.next();
        if (next && *next) CHECK(decode_control(json_of(encode_control(**next))).has_value());
    }
}

}  // namespace ddprun
