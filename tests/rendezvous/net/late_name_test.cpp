#include "rendezvous/net/resolver.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>

#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"

namespace ddprun {

TEST_CASE("a name that is known is told once, and whether it is this machine's") {
    const struct {
        const char* name;
        bool is_here;
    } rows[] = {{"localhost", true}, {"127.0.1.1", true}, {"203.0.113.9", false}};
    for (const auto& row : rows) {
        INFO(row.name);
        boost::asio::io_context context;
        int told = 0;
        const LateName late(context.get_executor(), row.name, [&](bool is_here) {
            CHECK(is_here == row.is_here);
            ++told;
        });
        context.run_for(kHangGuard);
        CHECK(told == 1);
    }
}

TEST_CASE("nobody hears of a late name any more when nobody waits for it") {
    boost::asio::io_context context;
    std::optional<LateName> late;
    late.emplace(context.get_executor(), "localhost", [](bool) { FAIL("told"); });
    late.reset();
    context.run_for(kHangGuard);
    // One that is never known is asked for again and again, until nobody waits.
    int asked_on = 0;
    late.emplace(
        context.get_executor(), "no-such-host.invalid", [](bool) { FAIL("told"); },
        std::chrono::milliseconds(1));
    boost::asio::steady_timer enough(context, std::chrono::milliseconds(20));
    enough.async_wait([&](boost::system::error_code) {
        ++asked_on;
        late.reset();
    });
    context.restart();
    context.run_for(kHangGuard);
    CHECK(asked_on == 1);
}

}  // namespace ddprun
