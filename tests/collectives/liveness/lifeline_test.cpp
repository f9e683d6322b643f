// The lifeline of one live rank, as connections from outside see it.
#include "collectives/liveness/lifeline.hpp"

#include "tests/support/await_verdict.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/link_io.hpp"

using namespace ddprun;

namespace {

constexpr int kSelf = 1;
constexpr int kLanes = 2;

// Rank 1 of 4, in round 5.
struct LiveRank {
    TcpListener listener{"127.0.0.1"};
    Endpoint endpoint = listener.endpoint();
    Membership membership{kSelf, 5, 2, Nonce{7}, std::vector<Member>(4, {endpoint, "host", kLanes})};
    Lifeline lifeline{membership, std::move(listener)};

    LinkHello hello(int from, Channel channel = Channel::data) const {
        return {channel, membership.round, membership.communicator, from, kSelf, membership.nonce, 0};
    }
};

TcpLink dial(const LiveRank& rank) {
    TcpLink link(kSelf, begin_connect(rank.endpoint));
    wait(link.descriptor(), POLLOUT);
    REQUIRE(connect_error(link.descriptor()) == 0);
    return link;
}

HelloAnswer say(TcpLink& link, const LinkHello& hello) {
    const auto bytes = encode(hello);
    write_all(link, bytes.data(), bytes.size());
    std::array<std::byte, kHelloAnswerSize> answer{};
    wait(link.descriptor(), POLLIN);
    iovec part{answer.data(), answer.size()};
    REQUIRE(link.read_some({&part, 1}) == answer.size());
    return *decode_hello_answer(answer);
}

HelloAnswer answer_to(const LiveRank& rank, const LinkHello& hello) {
    TcpLink link = dial(rank);
    return say(link, hello);
}

Verdict read_verdict(TcpLink& link) {
    NoticeReader reader;
    while (true) {
        wait(link.descriptor(), POLLIN);
        std::array<std::byte, 2048> bytes;
        iovec part{bytes.data(), bytes.size()};
        reader.add(std::span(bytes).first(link.read_some({&part, 1})));
        if (const auto notice = reader.next()) return std::get<Verdict>(*notice);
    }
}

}  // namespace

TEST_CASE("stale workers, other jobs and wrong ranks are refused, each with its reason", "[lifeline]") {
    LiveRank rank;
    const auto with = [&](auto change) {
        LinkHello hello = rank.hello(3);
        change(hello);
        return answer_to(rank, hello);
    };
    REQUIRE(with([](LinkHello& h) { h.round = 4; }) == HelloAnswer::other_round);
    REQUIRE(with([](LinkHello& h) { h.communicator = 1; }) == HelloAnswer::other_communicator);
    REQUIRE(with([](LinkHello& h) { h.nonce[15] = 1; }) == HelloAnswer::other_job);
    REQUIRE(with([](LinkHello& h) { h.to = 2; }) == HelloAnswer::other_rank);
    REQUIRE(with([](LinkHello& h) { h.from = 4; }) == HelloAnswer::other_rank);
    REQUIRE(with([](LinkHello& h) { h.from = -1; }) == HelloAnswer::other_rank);
    REQUIRE(with([](LinkHello& h) { h.from = kSelf; }) == HelloAnswer::other_rank);
    REQUIRE(with([](LinkHello& h) { h.channel = Channel::lifeline; }) == HelloAnswer::other_rank);
    REQUIRE(with([](LinkHello& h) { h.lane = kLanes; }) == HelloAnswer::other_lane);
    REQUIRE_FALSE(rank.lifeline.take_data(3, 0).has_value());
    REQUIRE_FALSE(rank.lifeline.verdict().has_value());
}

TEST_CASE("a data connection is handed over once, a second one refused", "[lifeline]") {
    LiveRank rank;
    TcpLink link = dial(rank);
    REQUIRE(say(link, rank.hello(3)) == HelloAnswer::welcome);
    wait(rank.lifeline.news_descriptor(), POLLIN);
    REQUIRE_FALSE(rank.lifeline.take_data(3, 1).has_value());
    REQUIRE(rank.lifeline.take_data(3, 0).has_value());
    REQUIRE_FALSE(rank.lifeline.take_data(3, 0).has_value());
    REQUIRE(answer_to(rank, rank.hello(3)) == HelloAnswer::repeated);
}

TEST_CASE("each lane of a peer is a connection of its own", "[lifeline]") {
    LiveRank rank;
    LinkHello hello = rank.hello(3);
    hello.lane = 1;
    TcpLink second = dial(rank);
    REQUIRE(say(second, hello) == HelloAnswer::welcome);
    TcpLink first = dial(rank);
    REQUIRE(say(first, rank.hello(3)) == HelloAnswer::welcome);
    std::optional<TcpLink> lanes[2];
    for (const int lane : {0, 1}) {
        while (!(lanes[lane] = rank.lifeline.take_data(3, lane))) {
            wait(rank.lifeline.news_descriptor(), POLLIN);
            rank.lifeline.take_news();
        }
    }
    write_all(second, "x", 1);
    wait(lanes[1]->descriptor(), POLLIN);
    pollfd quiet{lanes[0]->descriptor(), POLLIN, 0};
    REQUIRE(::poll(&quiet, 1, 0) == 0);
    REQUIRE(answer_to(rank, hello) == HelloAnswer::repeated);
}

TEST_CASE("a hook hears of news that came before it", "[lifeline]") {
    LiveRank rank;
    int heard = 0;
    rank.lifeline.on_news([&] { ++heard; });
    REQUIRE(heard == 0);
    rank.lifeline.on_news({});
    rank.lifeline.declare({CollectiveErrorCode::peer_died, {3}, "rank 3 died"});
    rank.lifeline.on_news([&] { ++heard; });
    REQUIRE(heard == 1);
}

TEST_CASE("a left neighbour that vanishes is dead", "[lifeline]") {
    LiveRank rank;
    {
        TcpLink left = dial(rank);
        REQUIRE(say(left, rank.hello(0, Channel::lifeline)) == HelloAnswer::welcome);
        while (!rank.lifeline.has_left_neighbour()) wait(rank.lifeline.news_descriptor(), POLLIN);
    }
    const Verdict verdict = await_verdict(rank.lifeline);
    REQUIRE(verdict.code == CollectiveErrorCode::peer_died);
    REQUIRE(verdict.culprits == std::vector<int>{0});
}

TEST_CASE("a neighbour that sends nonsense is cut off and named", "[lifeline]") {
    LiveRank rank;
    TcpLink left = dial(rank);
    REQUIRE(say(left, rank.hello(0, Channel::lifeline)) == HelloAnswer::welcome);
    const std::string nonsense(64, '\xff');
    write_all(left, nonsense.data(), nonsense.size());
    REQUIRE(await_verdict(rank.lifeline).culprits == std::vector<int>{0});
}

TEST_CASE("neighbours are told before this rank's own call can fail, and late ones when they come",
          "[lifeline]") {
    LiveRank rank;
    TcpLink left = dial(rank);
    REQUIRE(say(left, rank.hello(0, Channel::lifeline)) == HelloAnswer::welcome);
    while (!rank.lifeline.has_left_neighbour()) wait(rank.lifeline.news_descriptor(), POLLIN);
    const Verdict verdict{CollectiveErrorCode::timed_out, {3}, "rank 3 has not come"};
    REQUIRE(rank.lifeline.declare(verdict) == verdict);
    REQUIRE(read_verdict(left) == verdict);
    LiveRank ended;
    ended.lifeline.declare(verdict);
    TcpLink late = dial(ended);
    REQUIRE(say(late, ended.hello(0, Channel::lifeline)) == HelloAnswer::welcome);
    REQUIRE(read_verdict(late) == verdict);
}
