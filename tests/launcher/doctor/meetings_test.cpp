#include "launcher/doctor/meetings.hpp"

#include <sys/socket.h>

#include <thread>

#include "rendezvous/net/socket.hpp"
#include "rendezvous/store/tcp_store.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

const std::string kOurToken(kMeetingTokenSize, 'a');
// Generous: what is seen here does not depend on it.
constexpr MeetingLimits kLongLimits{std::chrono::seconds(20), std::chrono::milliseconds(20),
                                    std::chrono::seconds(40)};
constexpr MeetingLimits kShortLimits{std::chrono::milliseconds(50), std::chrono::milliseconds(20),
                                     std::chrono::milliseconds(200)};

MeetingNode at_port(int rank, int port) { return {rank, "here", "127.0.0.1", port}; }

// A port that nobody listens at.
int closed_port() {
    boost::asio::io_context context;
    return listen_tcp(context.get_executor(), ListenScope::loopback, 0).local_endpoint().port();
}

}  // namespace

TEST_CASE("two nodes meet, and the lower one measures the way both ways") {
    Meetings low, high;
    low.begin(kOurToken, 0);
    high.begin(kOurToken, 1);
    for (int round = 0; round < 3; ++round) {
        PairReach of_high;
        std::thread other([&] { of_high = high.meet(round, at_port(0, low.port()), kLongLimits); });
        const PairReach of_low = low.meet(round, at_port(1, high.port()), kLongLimits);
        other.join();
        CHECK(of_low.reach == Reach::reached);
        CHECK(of_high.reach == Reach::reached);
        CHECK(of_low.from == 0);
        CHECK(of_low.to == 1);
        CHECK(of_high.from == 1);
        CHECK(of_low.sent_mbit_s.value_or(0) > 0);
        CHECK(of_low.received_mbit_s.value_or(0) > 0);
        CHECK_FALSE(of_high.sent_mbit_s);
        CHECK(of_low.latency_us);
        CHECK(of_high.clock_offset_us);
    }
}

TEST_CASE("a node that nobody answers is said to be so, in the time of a round") {
    Meetings node;
    node.begin(kOurToken, 0);
    CHECK(node.meet(0, at_port(1, closed_port()), kShortLimits).reach == Reach::refused);
    CHECK(node.meet(1, {1, "here", "no address", 9}, kShortLimits).reach == Reach::unreachable);
    // The system takes the call, but nobody answers it.
    boost::asio::io_context context;
    const auto silent = listen_tcp(context.get_executor(), ListenScope::loopback, 0);
    CHECK(node.meet(2, at_port(1, silent.local_endpoint().port()), kShortLimits).reach == Reach::no_answer);
}

TEST_CASE("strangers are hung up on, and do not keep the others from each other") {
    Meetings low, high;
    low.begin(kOurToken, 0);
    high.begin(kOurToken, 1);
    const auto call_as = [&high](const Greeting& greeting) {
        BlockingStream stream(connect_tcp({"127.0.0.1", high.port()}, std::chrono::seconds(20)));
        stream.send(bytes_of(greeting), std::chrono::steady_clock::now() + std::chrono::seconds(20));
        return stream;
    };
    // Another token, another round, another node than the one that is expected; and one who says nothing.
    std::vector<BlockingStream> strangers;
    strangers.push_back(call_as({std::string(kMeetingTokenSize, 'b'), 0, 0}));
    strangers.push_back(call_as({kOurToken, 0, 1}));
    strangers.push_back(call_as({kOurToken, 2, 0}));
    BlockingStream silent(connect_tcp({"127.0.0.1", high.port()}, std::chrono::seconds(20)));
    PairReach of_high;
    std::thread other([&] { of_high = high.meet(0, at_port(0, low.port()), kLongLimits); });
    const PairReach of_low = low.meet(0, at_port(1, high.port()), kLongLimits);
    other.join();
    CHECK(of_low.reach == Reach::reached);
    CHECK(of_high.reach == Reach::reached);
    for (BlockingStream& stranger : strangers) {
        char byte = 0;
        CHECK(stranger.receive(&byte, 1, std::chrono::steady_clock::now() + std::chrono::seconds(20)) ==
              BlockingStream::Outcome::lost);
    }
}

TEST_CASE("who was not reached at once is called again, all at one time") {
    Meetings one, two;
    one.begin(kOurToken, 0);
    two.begin(kOurToken, 1);
    std::vector<PairReach> of_two;
    constexpr std::chrono::seconds kTime{2};
    std::thread other([&] { of_two = two.look_again(9, {at_port(0, one.port())}, kTime); });
    const auto of_one = one.look_again(9, {at_port(1, two.port()), at_port(2, closed_port())}, kTime);
    other.join();
    REQUIRE(of_one.size() == 2);
    CHECK(of_one[0].reach == Reach::reached);
    CHECK(of_one[1].reach == Reach::refused);
    REQUIRE(of_two.size() == 1);
    CHECK(of_two[0].reach == Reach::reached);
}

}  // namespace ddprun
