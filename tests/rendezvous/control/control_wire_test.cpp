#include "rendezvous/control/control_wire.hpp"

#include <boost/json.hpp>
#include <random>

#include "rendezvous/base/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/control_samples.hpp"
#include "tests/support/random_values.hpp"

namespace ddprun {
namespace {

std::string json_of(const std::string& frame) { return frame.substr(4); }

}  // namespace

TEST_CASE("every control message survives its own bytes") {
    auto messages = sample_messages();
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
    RandomValues values(seed, true, kCountRange);
    for (int i = 0; i < 2000; ++i) {
        const auto message = values.make<ControlMessage>();
        const std::string text = json_of(encode_control(message));
        INFO(text);
        const auto back = decode_control(text);
        REQUIRE(back.has_value());
        REQUIRE(*back == message);
        REQUIRE_FALSE(decode_control(text.substr(0, values.below(text.size()))).has_value());
    }
}

TEST_CASE("a control message without one of its members, or with another type there, is refused") {
    for (const ControlMessage& message : sample_messages()) {
        const auto object =
            boost::json::parse(json_of(encode_control(message)), {}, {.allow_invalid_utf8 = true})
                .as_object();
        for (const auto& member : object) {
            INFO(object << " without " << member.key());
            auto less = object;
            less.erase(member.key());
            CHECK_FALSE(decode_control(boost::json::serialize(less)).has_value());
            if (member.key() == "following") continue;  // which may be nobody
            auto other = object;
            other[member.key()] = nullptr;
            CHECK_FALSE(decode_control(boost::json::serialize(other)).has_value());
        }
    }
}

TEST_CASE("control frames come through any segmentation") {
    std::string stream;
    for (const ControlMessage& message : sample_messages()) stream += encode_control(message);
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
                const auto next = frames.next();
                REQUIRE_FALSE(frames.is_broken());
                if (!next) break;
                received.push_back(*next);
            }
        }
        CHECK(received == sample_messages());
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
        CHECK_FALSE(decode_control(text).has_value());
    }
    CHECK(decode_control(R"({"type":"goodbye","newer_member":[1,2]})").has_value());
}

// As large as machines and users make it: names of hosts have at most 64 bytes, and the rest all that its
// limits allow.
TEST_CASE("an agent's first message fits the frame that is heard of one who is not let in yet") {
    const std::string host(64, 'h'), address = "fd00:1111:2222:3333:4444:5555:6666:7777";
    Hello hello{.version = DDPRUN_VERSION, .run_id = std::string(200, 'r'), .host = host, .pid = 4'194'304};
    hello.command.text = std::string(kMaxJobCommandText, 'c');
    hello.reached_at = hello.meeting_address = address;
    hello.traits.assign(kMaxNodeTraits, {std::string(kMaxTraitName, 'n'), std::string(kMaxTraitValue, 'v')});
    hello.addresses.assign(kMaxAddresses, address);
    hello.rank_order = std::string(kMaxRankOrderText, 'o');
    Following& following = hello.following.emplace();
    following.last.size = static_cast<int>(kMaxMembersListed);
    following.last.members.assign(kMaxMembersListed, {63, 63, host, 4'194'304, ~0ULL, 4096, address, 65'535});
    for (auto* list : {&following.last.restarts, &following.last.resize_list})
        list->assign(kMaxRestartsCarried, {1000, std::string(kMaxReasonText, 'r'), 1'800'000'000'000});
    following.dead.assign(kMaxMembersListed, 63);
    Failure& cause = following.cause.emplace();
    for (std::string* text :
         {&cause.message, &cause.error_message, &cause.hint, &cause.accusation, &cause.testimony})
        *text = std::string(kMaxCauseCarried, 't');
    const std::string said = encode_control(hello);
    CHECK(said.size() <= kMaxFirstFrame);
    CHECK(has_first_message(said).value());
    CHECK_FALSE(has_first_message(said.substr(0, said.size() - 1)).value());
    CHECK_FALSE(has_first_message("").value());
    CHECK_FALSE(has_first_message(std::string("\xfd\xff\0\0", 4)).has_value());
    CHECK_FALSE(has_first_message(std::string("\xfc\xff\0\0", 4)).value());
    static_assert(kMaxFirstFrame == 0x10000);
}

TEST_CASE("limits of control frames hold when bytes arrive") {
    ControlFrames zero;
    zero.append(std::string(4, '\0'));
    CHECK_FALSE(zero.next().has_value());
    CHECK(zero.is_broken());

    ControlFrames huge;
    huge.append(std::string("\x01\x00\x10\x00", 4));  // kMaxControlFrame + 1, and not one byte more has come
    static_assert(kMaxControlFrame == 0x100000);
    CHECK_FALSE(huge.next().has_value());
    CHECK(huge.is_broken());

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
    failure.exit_code = 1;
    Finish finish{.exit_code = 1, .cause = failure, .message = text};
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
    const auto messages = sample_messages();
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
        if (next) CHECK(decode_control(json_of(encode_control(*next))).has_value());
    }
}

}  // namespace ddprun
