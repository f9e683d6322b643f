#include "rendezvous/net/port_range.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <set>
#include <vector>

#include "rendezvous/base/error.hpp"
#include "rendezvous/net/listen.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_of.hpp"

namespace ddprun {
namespace {

// Ten that the system gives to nobody by itself.
constexpr PortRange kOurs{19'430, 19'439};

std::set<std::uint16_t> all_of(const PortRange& range) {
    std::set<std::uint16_t> ports;
    for (int port = range.first; port <= range.last; ++port) ports.insert(static_cast<std::uint16_t>(port));
    return ports;
}

}  // namespace

TEST_CASE("a range of ports is two of them in order") {
    CHECK(parse_port_range("30000-30100") == PortRange{30'000, 30'100});
    CHECK(parse_port_range("80-80") == PortRange{80, 80});
    CHECK(parse_port_range("1-65535") == PortRange{1, 65'535});
    for (const char* wrong :
         {"", "-", "80", "0-10", "9-1", "70000", "1-70000", "70000-70001", "a-b", "30000-", "-30000",
          "30000-30100-30200", "30000:30100", " 1-2", "1 - 2", "1-2,4-5", "+1-2", "000001-2"})
        CHECK_FALSE(parse_port_range(wrong));
    CHECK(to_string(PortRange{30'000, 30'100}) == "30000-30100");
    CHECK(PortRange{5, 5}.size() == 1);
}

TEST_CASE("every port of a range is tried once, wherever a process begins") {
    for (const PortRange range :
         {PortRange{30'000, 30'000}, PortRange{30'000, 30'006}, PortRange{65'500, 65'535}}) {
        for (const std::uint64_t seed : {0U, 1U, 2U, 4711U, 4'194'304U}) {
            const auto ports = ports_to_try(range, {}, seed);
            CHECK(ports.size() == static_cast<std::size_t>(range.size()));
            CHECK(std::set<std::uint16_t>(ports.begin(), ports.end()) == all_of(range));
        }
    }
}

TEST_CASE("processes that are started one after the other begin at other ports of a range") {
    const PortRange range{30'000, 30'100};
    std::set<std::uint16_t> first;
    for (std::uint64_t pid = 4711; pid < 4711 + 12; ++pid) first.insert(ports_to_try(range, {}, pid).front());
    CHECK(first.size() == 12);
}

TEST_CASE("the job's own ports are spared") {
    const auto ports = ports_to_try({30'000, 30'009}, PortRange{30'008, 30'015}, 7);
    CHECK(std::set<std::uint16_t>(ports.begin(), ports.end()) == all_of({30'000, 30'007}));
    CHECK(ports_to_try({30'000, 30'000}, PortRange{30'000, 30'000}, 7).empty());
    CHECK(ports_to_try({30'000, 30'000}, PortRange{29'000, 29'007}, 7).size() == 1);
}

TEST_CASE("the first port is taken at which nobody is") {
    std::vector<std::uint16_t> asked;
    take_port({30'000, 30'009}, {}, "h", [&asked](std::uint16_t port) {
        asked.push_back(port);
        return asked.size() < 4 ? EADDRINUSE : 0;
    });
    CHECK(asked.size() == 4);
    const auto refused = [](std::uint16_t) { return EACCES; };
    const auto error = error_of([&] { take_port({80, 80}, {}, "10.0.0.1", refused); });
    CHECK(error.code == boost::system::errc::permission_denied);
    CHECK_THAT(error.text, Catch::Contains("cannot listen on 10.0.0.1:80"));
}

TEST_CASE("listeners share a range until it is exhausted, which names the range and a holder") {
    boost::asio::io_context context;
    const FreePorts ports{.range = kOurs, .spared = PortRange{kOurs.first, kOurs.first}};
    std::vector<boost::asio::ip::tcp::acceptor> held;
    std::set<std::uint16_t> taken;
    for (int i = 1; i < kOurs.size(); ++i) {
        ListenPlan plan{.any = i % 2 == 0, .addresses = {}};
        for (auto& acceptor : listen_tcp(context.get_executor(), plan, 0, ports)) {
            taken.insert(acceptor.local_endpoint().port());
            held.push_back(std::move(acceptor));
        }
    }
    CHECK(taken == all_of({kOurs.first + 1, kOurs.last}));
    for (const bool any : {false, true}) {
        const auto error = error_of([&] {
            listen_tcp(context.get_executor(), ListenPlan{any, {}}, 0, ports);
        });
        CHECK(error.code == Errc::address_in_use);
        CHECK_THAT(
            error.text,
            Catch::Contains("no port of --port-range 19430-19439 (DDPRUN_PORT_RANGE) is free, the job's "
                            "own 19430-19430 left out; ") &&
                Catch::Contains("is held by pid " + std::to_string(::getpid())));
    }
    // Who is given a number is not asked about the range.
    CHECK(listen_tcp(context.get_executor(), ListenPlan{}, kOurs.first, ports)
              .front()
              .local_endpoint()
              .port() == kOurs.first);
}

}  // namespace ddprun
