#include "apps/ddprun/modes/doctor_peers.hpp"

#include <boost/asio/io_context.hpp>
#include <thread>

#include "rendezvous/net/listen.hpp"
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

Measuring measuring(const StoreHost& host, const Environment& environment = {}) {
    return {std::make_shared<TcpStore>(Endpoint{"127.0.0.1", host.port()}, kGuard), "127.0.0.1", environment};
}

// What the first nodes of so many, which have these environments, say when they measure.
std::vector<ReachReport> measure(int nodes, const std::vector<Environment>& environments) {
    const StoreHost host(ListenScope::loopback, 0);
    std::vector<ReachReport> reports(environments.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < environments.size(); ++i)
        threads.emplace_back([&, i] {
            measure_rates(measuring(host, environments[i]), nodes, static_cast<int>(i), reports[i]);
        });
    for (std::thread& thread : threads) thread.join();
    return reports;
}

}  // namespace

TEST_CASE("doctor: all other nodes are called at one time") {
    const Port here, there;
    const auto pairs = call_nodes({{0, "a", "127.0.0.1", there.number()},
                                   {1, "b", "127.0.0.1", here.number()},
                                   {2, "c", "127.0.0.1", closed_port()},
                                   {3, "d", "no address", 9}},
                                  1);
    CHECK(pairs ==
          std::vector<PairReach>{{1, 0, Reach::reached, "127.0.0.1:" + std::to_string(there.number()), ""},
                                 {1, 2, Reach::refused, pairs.at(1).address, "Connection refused"},
                                 {1, 3, Reach::unreachable, "no address:9", "no address"}});
}

TEST_CASE("doctor: all nodes measure with each other") {
    int node = 0;
    for (const ReachReport& report : measure(3, {{}, {}, {}})) {
        INFO("node " << node);
        CHECK(report.error.empty());
        REQUIRE(report.rate);
        const NodeRate& rate = *report.rate;
        CHECK(rate.node == node);
        CHECK(rate.mbit_s >= rate.least_mbit_s);
        CHECK(rate.mbit_s > 0);
        CHECK(rate.least_with != node);
        CHECK(rate.latency_us > 0);
        CHECK(rate.clock_offset_us.has_value() == (node > 0));
        // They have one clock.
        CHECK(std::abs(rate.clock_offset_us.value_or(0)) <= 1'000'000);
        ++node;
    }
}

TEST_CASE("doctor: a node that does not come, or has another key, is named") {
    const ReachReport alone = measure(2, {{}}).front();
    CHECK_FALSE(alone.rate);
    CHECK_FALSE(alone.error.empty());
    CHECK(alone.culprits == std::vector<int>{1});

    const Environment one{{"DDPRUN_MESH_KEY", std::string(64, 'a')}};
    const Environment other{{"DDPRUN_MESH_KEY", std::string(64, 'b')}};
    for (const ReachReport& report : measure(2, {one, other})) {
        CHECK_FALSE(report.rate);
        CHECK_FALSE(report.error.empty());
    }
}

}  // namespace ddprun
