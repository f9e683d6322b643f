// Who counts at the port, and who is unproven there, from a call's beginning to its end.
#include "rendezvous/server/port_calls.hpp"
#include "rendezvous/server/unproven_calls.hpp"

#include <boost/asio/io_context.hpp>
#include <thread>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

const auto kSomewhere = boost::asio::ip::make_address("10.0.0.1");

struct Port {
    boost::asio::io_context context;
    std::shared_ptr<PortCalls> calls;

    explicit Port(std::size_t open_files = 1024)
        : calls(std::make_shared<PortCalls>(context.get_executor(), ConnectionLimit(open_files, 0))) {}
    void run() {
        context.restart();
        context.poll();
    }
};

}  // namespace

TEST_CASE("a call counts until its end, whoever holds it", "[port_calls]") {
    Port port(ConnectionLimit::kLeastConnections);
    std::vector<std::shared_ptr<PortCall>> held;
    for (std::size_t i = 0; i < ConnectionLimit::kLeastConnections; ++i) held.push_back(port.calls->take());
    CHECK(held.back());
    CHECK_FALSE(port.calls->take());
    CHECK(held.back()->is_put_forward(1));
    held.back()->settle(true, {});
    port.run();
    CHECK_FALSE(port.calls->take());
    std::thread([&] { held.pop_back(); }).join();
    port.run();
    CHECK(port.calls->take());
}

TEST_CASE("who has said his first message need not go, unless he is not taken for it", "[port_calls]") {
    Port port;
    std::vector<int> gone;
    std::vector<std::shared_ptr<PortCall>> held;
    const auto call = [&] {
        const int number = static_cast<int>(held.size());
        held.push_back(port.calls->take());
        held.back()->doubt(kSomewhere, [&gone, number] { gone.push_back(number); });
    };
    for (std::size_t i = 0; i < UnprovenCalls::kMostOfOneSource; ++i) call();
    for (const int waiting : {0, 1}) CHECK(held[static_cast<std::size_t>(waiting)]->is_put_forward(100));
    call(), call();
    CHECK(gone.empty());
    held[0]->settle(true, {});
    held[1]->settle(false, [&gone] { gone.push_back(1); });
    port.run();
    // There is one too many now, and he who was not taken is the youngest.
    CHECK(gone == std::vector{2});
    for (int i = 3; i <= 33; ++i) call();
    CHECK(gone.back() == 1 + 32);
    call();
    CHECK(gone.back() == 1);
}

TEST_CASE("first messages that wait are bounded in bytes", "[port_calls]") {
    Port port;
    const auto one = port.calls->take(), two = port.calls->take(), three = port.calls->take();
    CHECK(one->is_put_forward(PortCalls::kMaxWaitingBytes - 10));
    CHECK_FALSE(two->is_put_forward(11));
    CHECK(two->is_put_forward(10));
    CHECK_FALSE(three->is_put_forward(1));
    two->settle(true, {});
    port.run();
    CHECK(three->is_put_forward(10));
}

TEST_CASE("where the port holds few, half of its places are kept for who is of the job", "[port_calls]") {
    Port port(ConnectionLimit::kLeastConnections);
    int gone = 0;
    std::vector<std::shared_ptr<PortCall>> held;
    for (std::size_t i = 0; i < ConnectionLimit::kLeastConnections / 2 + 3; ++i) {
        held.push_back(port.calls->take());
        held.back()->doubt(std::nullopt, [&gone] { ++gone; });
    }
    CHECK(gone == 3);
}

}  // namespace ddprun
