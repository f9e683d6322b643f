// What the owner's user is told of a store.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include "tests/rendezvous/store/store_service_fixture.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/raw_client.hpp"

namespace ddprun {

TEST_CASE("store service: that it is full is said once, with what fills it") {
    namespace asio = boost::asio;
    asio::io_context context;
    StoreLimits limits;
    limits.stored = std::size_t{4} << 20;
    std::vector<std::string> remarks;
    auto service =
        StoreService::make(context.get_executor(), limits,
                           [&remarks](const std::string& sentence) { remarks.push_back(sentence); });
    auto acceptor = listen_tcp(context.get_executor(), ListenScope::loopback, 0);
    const std::uint16_t port = acceptor.local_endpoint().port();
    asio::co_spawn(context,
                   accept_each(acceptor,
                               [&](asio::ip::tcp::socket socket) {
                                   asio::co_spawn(context, service->serve(std::move(socket), {}),
                                                  asio::detached);
                               }),
                   asio::detached);
    std::thread serving([&context] { context.run(); });
    const std::string large(std::size_t{3} << 20, 'x');
    RawClient first(port);
    first.send(legacy({.opcode = Opcode::set, .key = "small", .value = "x"}));
    first.send(legacy({.opcode = Opcode::set, .key = "weights\x1b[2J", .value = large}));
    first.send(legacy({.opcode = Opcode::num_keys}));
    CHECK(first.receive(8) == wire_i64(2));
    for (int i = 0; i < 2; ++i) {
        RawClient late(port);
        late.send(legacy({.opcode = Opcode::set, .key = "more", .value = large}));
        CHECK(late.receive_until_closed().empty());
    }
    context.stop();
    serving.join();
    REQUIRE(remarks.size() == 1);
    for (const char* part :
         {"the store is full", "2 keys", "3 MiB of at most 4 MiB", "\"weights\\x1b[2J\" with 3 MiB"})
        CHECK_THAT(remarks.front(), Catch::Contains(part));
}

}  // namespace ddprun
