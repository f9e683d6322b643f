#include "rendezvous/net/connect.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "tests/support/catch.hpp"
#include "tests/support/silent_port.hpp"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using namespace std::chrono_literals;

tcp::endpoint loopback(std::uint16_t port) { return {asio::ip::address_v4::loopback(), port}; }

// Nothing: it was still undecided after that time.
std::optional<RaceResult> race(std::vector<tcp::endpoint> addresses, std::chrono::milliseconds bound = 20s) {
    using namespace asio::experimental::awaitable_operators;
    asio::io_context context;
    std::optional<RaceResult> found;
    asio::co_spawn(
        context,
        [&]() -> asio::awaitable<void> {
            asio::steady_timer deadline(co_await asio::this_coro::executor, bound);
            auto first = co_await (race_to_connect(addresses) || deadline.async_wait(asio::use_awaitable));
            if (first.index() == 0) found = std::move(std::get<0>(first));
            // The socket ends with the context.
            if (found && found->socket) found->socket->close();
        },
        asio::detached);
    context.run();
    return found;
}

}  // namespace

TEST_CASE("an address that leads nowhere does not keep the next one from being tried") {
    const SilentPort silent;
    asio::io_context context;
    tcp::acceptor listener(context, loopback(0));
    tcp::acceptor gone(context, loopback(0));
    const tcp::endpoint there = listener.local_endpoint(), refusing = gone.local_endpoint();
    gone.close();
    const tcp::endpoint nowhere = loopback(silent.endpoint().port);

    for (const auto& addresses :
         std::vector<std::vector<tcp::endpoint>>{{there},
                                                 {nowhere, there},
                                                 {refusing, there},
                                                 {there, nowhere},
                                                 {nowhere, nowhere, refusing, there}}) {
        const auto found = race(addresses);
        REQUIRE(found);
        CHECK(found->socket);
    }
    const auto refused = race({refusing, refusing});
    REQUIRE(refused);
    CHECK(!refused->socket);
    CHECK(refused->error == asio::error::connection_refused);
    CHECK(!race({nowhere, refusing}, 2 * kHeadStart));
}

}  // namespace ddprun
