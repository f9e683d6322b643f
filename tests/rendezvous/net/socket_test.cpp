#include "rendezvous/net/connect.hpp"
#include "rendezvous/net/listen.hpp"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <fstream>
#include <iterator>

#include "rendezvous/base/error.hpp"
#include "rendezvous/net/socket_owner.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/silent_port.hpp"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

bool close_on_exec(int fd) { return (::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0; }

bool no_delay(int fd) {
    int on = 0;
    socklen_t size = sizeof on;
    ::getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &size);
    return on != 0;
}

bool is_kept_alive(int fd) {
    int on = 0;
    socklen_t size = sizeof on;
    ::getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &size);
    return on != 0;
}

// Runs the coroutine and returns what it threw, as an error code.
boost::system::error_code run(asio::io_context& context, asio::awaitable<void> work) {
    boost::system::error_code result;
    asio::co_spawn(context, std::move(work), [&](const std::exception_ptr& error) {
        try {
            if (error) std::rethrow_exception(error);
        } catch (const boost::system::system_error& failure) {
            result = failure.code();
        }
    });
    context.restart();
    context.run();
    return result;
}

}  // namespace

TEST_CASE("every socket is close-on-exec from birth, connected ones without delay") {
    asio::io_context context;
    for (ListenScope scope : {ListenScope::loopback, ListenScope::any}) {
        auto acceptor = listen_tcp(context.get_executor(), scope, 0);
        CHECK(close_on_exec(acceptor.native_handle()));
        const Endpoint endpoint{"127.0.0.1", acceptor.local_endpoint().port()};
        REQUIRE(endpoint.port != 0);

        int blocking = connect_tcp(endpoint, 20s);
        CHECK(close_on_exec(blocking));
        CHECK(no_delay(blocking));
        CHECK((::fcntl(blocking, F_GETFL) & O_NONBLOCK) == 0);
        auto error = run(context, [](Endpoint to) -> asio::awaitable<void> {
            auto client = co_await async_connect_tcp(to, 20s);
            CHECK(close_on_exec(client.native_handle()));
            CHECK(no_delay(client.native_handle()));
        }(endpoint));
        CHECK_FALSE(error);
        int accepted = 0;
        asio::co_spawn(context,
                       accept_each(acceptor,
                                   [&accepted](asio::ip::tcp::socket socket) {
                                       CHECK(close_on_exec(socket.native_handle()));
                                       CHECK(no_delay(socket.native_handle()));
                                       CHECK(is_kept_alive(socket.native_handle()));
                                       ++accepted;
                                   }),
                       asio::detached);
        context.restart();
        while (accepted < 2) REQUIRE(context.run_one_for(20s) == 1);
        ::close(blocking);
    }
}

TEST_CASE("many connections at once do not hold up the executor's other work") {
    asio::io_context context;
    auto acceptor = listen_tcp(context.get_executor(), ListenScope::loopback, 0);
    const Endpoint endpoint{"127.0.0.1", acceptor.local_endpoint().port()};
    constexpr int kMany = 3 * kAcceptsPerTurn;
    std::vector<int> clients;
    for (int i = 0; i < kMany; ++i) clients.push_back(connect_tcp(endpoint, 20s));
    std::vector<int> taken_before;  // each time when the other work had its turn
    int taken = 0;
    std::function<void()> other_work = [&] {
        taken_before.push_back(taken);
        if (taken < kMany) asio::post(context, other_work);
    };
    asio::co_spawn(context, accept_each(acceptor, [&taken](asio::ip::tcp::socket) { ++taken; }),
                   asio::detached);
    asio::post(context, other_work);
    while (taken < kMany) REQUIRE(context.run_one_for(20s) == 1);
    for (std::size_t i = 1; i < taken_before.size(); ++i)
        CHECK(taken_before[i] - taken_before[i - 1] <= kAcceptsPerTurn);
    CAPTURE(taken_before);
    CHECK(taken_before.size() >= 2);
    for (const int client : clients) ::close(client);
}

TEST_CASE("while the system refuses to take connections, other work goes on, and they are taken later") {
    asio::io_context context;
    auto acceptor = listen_tcp(context.get_executor(), ListenScope::loopback, 0);
    const int client = connect_tcp({"127.0.0.1", acceptor.local_endpoint().port()}, 20s);
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
    const rlimit none{3, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
    bool is_taken = false;
    int turns = 0;
    std::function<void()> other_work = [&] {
        if (++turns < 100) asio::post(context, other_work);
    };
    asio::co_spawn(context, accept_each(acceptor, [&](asio::ip::tcp::socket) { is_taken = true; }),
                   asio::detached);
    asio::post(context, other_work);
    // Who is refused asks again and again if it does not wait: then this never comes back.
    while (turns < 100 && context.run_one_for(20s) == 1) {
    }
    CHECK_FALSE(is_taken);
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
    while (!is_taken && context.run_one_for(20s) == 1) {
    }
    CHECK(turns == 100);
    CHECK(is_taken);
    ::close(client);
}

TEST_CASE("loopback listeners are on loopback only, others on both families where the machine has them") {
    asio::io_context context;
    auto loopback = listen_tcp(context.get_executor(), ListenScope::loopback, 0);
    CHECK(loopback.local_endpoint().address().is_loopback());
    auto any = listen_tcp(context.get_executor(), ListenScope::any, 0);
    CHECK(any.local_endpoint().address().is_unspecified());
    if (any.local_endpoint().address().is_v6())
        ::close(connect_tcp({"::1", any.local_endpoint().port()}, 20s));
    ::close(connect_tcp({"127.0.0.1", any.local_endpoint().port()}, 20s));
}

TEST_CASE("a command line shows nothing but printable ASCII, and not all of it") {
    struct Row {
        std::string arguments, shown;
    };
    const Row rows[] = {
        {std::string("sleep\0"
                     "100",
                     9),
         "sleep 100"},
        {std::string("a\0\0b\n\r\t", 7), "a  b   "},
        {"\x1b]0;title\a", " ]0;title "},
        {"\x7f\xc2\x9b"
         "2J",
         "???2J"},
        {"\xe2\x80\xaetxt", "???txt"},
        {std::string(kMaxCommandText, 'x'), std::string(kMaxCommandText, 'x')},
        {std::string(kMaxCommandText + 1, 'x'), std::string(kMaxCommandText, 'x') + "…"},
    };
    for (const Row& row : rows) CHECK(shown_command(row.arguments) == row.shown);
}

TEST_CASE("a taken port is reported with the pid and the command that hold it") {
    asio::io_context context;
    auto first = listen_tcp(context.get_executor(), ListenScope::any, 0);
    const auto port = first.local_endpoint().port();
    for (ListenScope scope : {ListenScope::loopback, ListenScope::any}) {
        try {
            listen_tcp(context.get_executor(), scope, port);
            FAIL("the port was given twice");
        } catch (const boost::system::system_error& error) {
            CHECK(error.code() == Errc::address_in_use);
            CHECK_THAT(error.what(), Catch::Contains(":" + std::to_string(port)));
            CHECK_THAT(error.what(), Catch::Contains("pid " + std::to_string(::getpid())));
            CHECK_THAT(error.what(), Catch::Contains("rendezvous_test"));
            CHECK_THAT(error.what(), Catch::Contains("--master-port"));
        }
    }
}

TEST_CASE("failed connections say why") {
    asio::io_context context;
    auto acceptor = listen_tcp(context.get_executor(), ListenScope::loopback, 0);
    const Endpoint closed{"127.0.0.1", acceptor.local_endpoint().port()};
    acceptor.close();

    struct Case {
        Endpoint endpoint;
        const char* cause;
    };
    for (const Case& bad : {Case{closed, "refused"}, Case{{"no-such-host.invalid", 1}, "cannot resolve"}}) {
        INFO(bad.endpoint.host);
        CHECK_THROWS_WITH(connect_tcp(bad.endpoint, 20s), Catch::Contains(bad.cause));
        auto error = run(context, [](Endpoint to, const char* cause) -> asio::awaitable<void> {
            try {
                co_await async_connect_tcp(to, 20s);
            } catch (const boost::system::system_error& failure) {
                CHECK_THAT(failure.what(), Catch::Contains(cause));
                throw;
            }
        }(bad.endpoint, bad.cause));
        CHECK(error == Errc::unreachable);
    }
}

TEST_CASE("a connection nobody answers ends after its time") {
    const SilentPort silent;
    CHECK(silent.error() == Errc::timed_out);
    asio::io_context context;
    auto error = run(context, [](Endpoint to) -> asio::awaitable<void> {
        co_await async_connect_tcp(to, 200ms);
    }(silent.endpoint()));
    CHECK(error == Errc::timed_out);
}

TEST_CASE("listening sockets are found in the kernel's table, connected ones are not") {
    const std::string table =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        "   0: 0100007F:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 "
        "x\n"
        "   1: 0100007F:733C 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 "
        "x\n"
        "   2: 0100007F:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 "
        "x\n"
        "short line\n";
    CHECK(listening_inodes(table, 0x733C) == std::vector<std::uint64_t>{4711});
    CHECK(listening_inodes(table, 1).empty());
    CHECK(listening_inodes("", 22).empty());
}

}  // namespace ddprun
