#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <optional>
#include <set>
#include <vector>

#include "collectives/wire/tcp_link.hpp"
#include "rendezvous/base/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_of.hpp"

using namespace ddprun;

TEST_CASE("ranks listen in the range of ports, until that is exhausted", "[tcp_listener]") {
    const PortRange range{19'440, 19'442};
    std::vector<TcpListener> listeners;
    std::set<std::uint16_t> ports;
    for (int i = 0; i < range.size(); ++i) {
        listeners.emplace_back("127.0.0.1", range);
        ports.insert(listeners.back().endpoint().port);
    }
    REQUIRE(ports == std::set<std::uint16_t>{19'440, 19'441, 19'442});
    const auto error = error_of([&] { TcpListener("127.0.0.1", range); });
    REQUIRE(error.code == Errc::address_in_use);
    REQUIRE(error.mentions("no port of --port-range 19440-19442 (DDPRUN_PORT_RANGE) is free"));
    REQUIRE(error.mentions("held by pid " + std::to_string(::getpid())));
    listeners.erase(listeners.begin());
    REQUIRE_NOTHROW(TcpListener("127.0.0.1", range));
    REQUIRE_FALSE(range.contains(TcpListener("127.0.0.1").endpoint().port));
    REQUIRE(
        error_of([&] { TcpListener("203.0.113.9", range); }).mentions("cannot listen on 203.0.113.9:1944"));
}

TEST_CASE("what a link wrote arrives before its end, though it has not read all", "[tcp_link]") {
    TcpListener listener("127.0.0.1");
    TcpLink dialled(0, begin_connect(listener.endpoint()));
    pollfd ready{listener.descriptor(), POLLIN, 0};
    REQUIRE(::poll(&ready, 1, -1) == 1);
    TcpLink accepted(1, listener.accept());
    std::vector<char> bytes(1 << 16);
    iovec part{bytes.data(), bytes.size()};
    REQUIRE(accepted.write_some({&part, 1}) == bytes.size());
    std::size_t written = 0;
    while (const std::size_t more = dialled.write_some({&part, 1})) written += more;
    const auto left = std::async(std::launch::async, [&] {
        dialled.write_no_more();
        dialled.await_arrival();
        dialled = TcpLink();
    });
    REQUIRE(left.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);
    std::size_t read = 0;
    try {
        pollfd readable{accepted.descriptor(), POLLIN, 0};
        while (::poll(&readable, 1, -1) == 1) read += accepted.read_some({&part, 1});
    } catch (const LinkLost&) {
    }
    left.wait();
    REQUIRE(read == written);
}
