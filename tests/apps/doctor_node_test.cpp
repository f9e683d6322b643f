#include "apps/ddprun/modes/doctor_node.hpp"

#include <boost/asio/io_context.hpp>
#include <thread>

#include "rendezvous/net/socket.hpp"
#include "rendezvous/store/store_host.hpp"
#include "rendezvous/store/tcp_store.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

constexpr std::chrono::seconds kGuard{20};

// A port of loopback where callers are let in, but nobody answers them.
struct Port {
    boost::asio::io_context context;
    boost::asio::ip::tcp::acceptor listener = listen_tcp(context.get_executor(), ListenScope::loopback, 0);
    int number() const { return listener.local_endpoint().port(); }
};

int closed_port() { return Port().number(); }

PairReach reached(int from, int to) { return {from, to, Reach::reached, "", "", {}, {}, {}, {}}; }

Measuring measuring(const StoreHost& host, const Environment& environment = {}) {
    return {std::make_shared<TcpStore>(Endpoint{"127.0.0.1", host.port()}, kGuard), "127.0.0.1", environment,
            std::vector<unsigned char>(kMostMeasured)};
}

}  // namespace

TEST_CASE("doctor: all other nodes are called at one time") {
    const Port here, there;
    const auto pairs = call_nodes({{0, "a", "127.0.0.1", there.number()},
                                   {1, "b", "127.0.0.1", here.number()},
                                   {2, "c", "127.0.0.1", closed_port()},
                                   {3, "d", "no address", 9}},
                                  1);
    REQUIRE(pairs.size() == 4);
    CHECK(pairs[0].reach == Reach::reached);
    CHECK(pairs[0].address == "127.0.0.1:" + std::to_string(there.number()));
    CHECK(pairs[2].reach == Reach::refused);
    CHECK(pairs[2].error == "Connection refused");
    CHECK(pairs[3].reach == Reach::unreachable);
    for (int to = 0; to < 4; ++to) {
        CHECK(pairs[static_cast<std::size_t>(to)].from == 1);
        CHECK(pairs[static_cast<std::size_t>(to)].to == to);
    }
}

TEST_CASE("doctor: two nodes measure, and the lower one the bytes both ways") {
    const StoreHost host(ListenScope::loopback, 0);
    Measuring low = measuring(host), high = measuring(host);
    double most_sent = 0, most_received = 0;  // of three rounds: a late one has none
    for (int round = 0; round < 3; ++round) {
        PairReach of_low = reached(2, 7), of_high = reached(7, 2);
        std::thread other([&] { measure_pair(high, round, std::chrono::milliseconds(1), of_high); });
        measure_pair(low, round, std::chrono::milliseconds(1), of_low);
        other.join();
        CHECK(of_low.reach == Reach::reached);
        CHECK(of_high.reach == Reach::reached);
        REQUIRE(of_low.latency_us);
        REQUIRE(of_high.latency_us);
        CHECK(*of_low.latency_us > 0);
        // One clock, seen from both sides.
        CHECK(std::abs(*of_low.clock_offset_us) <= 1'000'000);
        CHECK(std::abs(*of_high.clock_offset_us) <= 1'000'000);
        REQUIRE(of_low.sent_mbit_s);
        REQUIRE(of_low.received_mbit_s);
        most_sent = std::max<double>(most_sent, *of_low.sent_mbit_s);
        most_received = std::max<double>(most_received, *of_low.received_mbit_s);
        CHECK_FALSE(of_high.sent_mbit_s);
        CHECK_FALSE(of_high.received_mbit_s);
    }
    CHECK(most_sent > 0);
    CHECK(most_received > 0);
}

TEST_CASE("doctor: a partner that does not come, or has another key, is none") {
    const StoreHost host(ListenScope::loopback, 0);
    Measuring alone = measuring(host);
    PairReach pair = reached(0, 1);
    measure_pair(alone, 0, std::chrono::milliseconds(1), pair);
    CHECK(pair.reach == Reach::no_answer);
    CHECK_FALSE(pair.latency_us);

    Measuring one = measuring(host, {{"DDPRUN_MESH_KEY", std::string(64, 'a')}});
    Measuring two = measuring(host, {{"DDPRUN_MESH_KEY", std::string(64, 'b')}});
    PairReach of_one = reached(0, 1), of_two = reached(1, 0);
    std::thread other([&] { measure_pair(two, 1, std::chrono::milliseconds(1), of_two); });
    measure_pair(one, 1, std::chrono::milliseconds(1), of_one);
    other.join();
    CHECK(of_one.reach == Reach::no_answer);
    CHECK(of_two.reach == Reach::no_answer);
}

}  // namespace ddprun
