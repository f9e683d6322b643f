#include "rendezvous/net/resolver.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"

namespace ddprun {
namespace {

using Addresses = std::vector<std::string>;

Resolved asked_without_blocking(const std::string& host) {
    boost::asio::io_context context;
    Resolved answer = "nothing was told";
    boost::asio::co_spawn(
        context, [&]() -> boost::asio::awaitable<void> { answer = co_await async_resolve_host(host); },
        boost::asio::detached);
    context.run_for(kHangGuard);
    return answer;
}

}  // namespace

TEST_CASE("what a name stands for is told with and without blocking") {
    for (const char* const numeric : {"127.0.0.1", "::1"}) {
        CHECK(std::get<Addresses>(resolve_host(numeric)) == Addresses{numeric});
        CHECK(std::get<Addresses>(asked_without_blocking(numeric)) == Addresses{numeric});
    }
    CHECK_FALSE(std::get<Addresses>(asked_without_blocking("localhost")).empty());
    CHECK_FALSE(std::get<std::string>(resolve_host("no-such-host.invalid")).empty());
    CHECK_FALSE(std::get<std::string>(asked_without_blocking("no-such-host.invalid")).empty());
    // Whatever the name server does; now and then it has answered before anybody looks.
    bool is_late = false;
    for (int i = 0; i < 100 && !is_late; ++i) {
        const auto found = resolve_host("no-such-host.invalid", std::chrono::milliseconds(0));
        is_late = std::get<std::string>(found) == "its name server has not answered within 0 s";
    }
    CHECK(is_late);
}

}  // namespace ddprun
