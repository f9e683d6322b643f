#include "rendezvous/store/tcp_store.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <thread>

#include "rendezvous/store/store_host.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/hang_guard.hpp"
#include "tests/support/raw_client.hpp"
#include "tests/support/store_bytes.hpp"

namespace ddprun {
namespace {

using std::chrono::milliseconds;

Endpoint local(std::uint16_t port) { return {"127.0.0.1", port}; }

// A server that follows a script: each connection in turn is handed to `script`, with its number, on the
// server's thread.
class ScriptedServer {
  public:
    using Script = std::function<void(ScriptedServer& server, int connection_number, int fd)>;

    explicit ScriptedServer(Script script)
        : acceptor_(listen_tcp(context_.get_executor(), ListenScope::loopback, 0)),
          script_(std::move(script)) {
        port_ = acceptor_.local_endpoint().port();
        acceptor_.native_non_blocking(false);
        thread_ = std::thread([this] { run(); });
    }
    ~ScriptedServer() {
        ::shutdown(acceptor_.native_handle(), SHUT_RDWR);
        thread_.join();
    }

    std::uint16_t port() const { return port_; }

    static std::string read_exactly(int fd, std::size_t size) {
        std::string bytes(size, '\0');
        ssize_t count = ::recv(fd, bytes.data(), size, MSG_WAITALL);
        bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
        return bytes;
    }
    // Reads as many bytes and remembers if they are others. Catch's assertions are for the test's own thread
    // only.
    void expect(int fd, std::string_view bytes) {
        if (read_exactly(fd, bytes.size()) != bytes) as_expected_ = false;
    }
    // Until the client closes.
    void expect_end(int fd) {
        if (!read_exactly(fd, 1).empty()) as_expected_ = false;
    }
    bool as_expected() const { return as_expected_; }
    static void write(int fd, std::string_view bytes) {
        (void)!::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    }

  private:
    void run() {
        for (int number = 0;; ++number) {
            int fd = ::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC);
            if (fd < 0) return;
            script_(*this, number, fd);
            ::close(fd);
        }
    }

    boost::asio::io_context context_;
    boost::asio::ip::tcp::acceptor acceptor_;
    Script script_;
    std::atomic<bool> as_expected_{true};
    std::uint16_t port_ = 0;
    std::thread thread_;
};

// What TcpStore sends first: validate, add 0 and delete of a key of 300 bytes.
constexpr std::size_t kModernProbe = 5 + (1 + 8 + 300 + 8) + (1 + 8 + 300);
constexpr std::size_t kLegacyProbe = kModernProbe - 5;

void answer_probe(int fd, std::size_t size) {
    ScriptedServer::read_exactly(fd, size);
    ScriptedServer::write(fd, wire_i64(0) + wire_i64(1));
}

// Closes on the first modern connection, as PyTorch 1.13's server does, then serves the others with `script`.
ScriptedServer::Script legacy_server(std::function<void(ScriptedServer& server, int fd)> script) {
    return [script = std::move(script)](ScriptedServer& server, int, int fd) {
        if (ScriptedServer::read_exactly(fd, 1) == kZero) return;
        answer_probe(fd, kLegacyProbe - 1);
        script(server, fd);
    };
}

}  // namespace

TEST_CASE("tcp store: every verb against our own server") {
    StoreHost host(ListenScope::loopback, 0);
    TcpStore store(local(host.port()), kHangGuard);
    CHECK(store.dialect() == Dialect::modern);
    CHECK(host.counters().keys == 0);
    store.set("k", "v");
    CHECK(store.get("k", kHangGuard) == "v");
    store.set("empty", "");
    CHECK(store.get("empty", kHangGuard).empty());
    const std::string binary("\0\xFF\n\0", 4);
    store.set("binary", binary);
    CHECK(store.get("binary", kHangGuard) == binary);
    CHECK(store.add("n", 5) == 5);
    CHECK(store.add("n", -7) == -2);
    CHECK(store.get("n", kHangGuard) == "-2");
    CHECK(store.compare_set("k", "x", "y") == "v");
    CHECK(store.compare_set("k", "v", "y") == "y");
    CHECK(store.compare_set("new", "x", "y") == "x");
    CHECK(store.check_keys({"k", "n"}));
    CHECK_FALSE(store.check_keys({"k", "new"}));
    store.wait({"k", "n", "empty"}, kHangGuard);
    CHECK(store.erase("k"));
    CHECK_FALSE(store.erase("k"));
}

TEST_CASE("tcp store: values of all sizes come back whole") {
    StoreHost host(ListenScope::loopback, 0);
    TcpStore store(local(host.port()), kHangGuard);
    for (std::size_t size : {1439U, 1440U, 1441U, 4087U, 4096U, 5000U, 1U << 20, 8U << 20, 64U << 20}) {
        std::string value(size, 'v');
        value.front() = 'f';
        value.back() = 'b';
        store.set("k", value);
        CHECK(store.get("k", kHangGuard) == value);
    }
    CHECK(error_of([&] { store.set("k", std::string(kMaxValueLength + 1, 'v')); }).code ==
          Errc::limit_exceeded);
    CHECK(error_of([&] { store.set(std::string(kMaxKeyLength, 'k'), "v"); }).code == Errc::limit_exceeded);
    store.set(std::string(kMaxKeyLength - 1, 'k'), "longest");
    CHECK(store.get(std::string(kMaxKeyLength - 1, 'k'), kHangGuard) == "longest");
}

TEST_CASE("tcp store: keys carry PyTorch's slash on the wire") {
    StoreHost host(ListenScope::loopback, 0);
    TcpStore store(local(host.port()), kHangGuard);
    store.set("k", "v");
    CHECK(store.check_keys({"k"}));
    RawClient raw(host.port());
    raw.send(from_hex("02") + wire_string("/k"));
    CHECK(raw.receive(9) == wire_string("v"));
}

TEST_CASE("tcp store: a wait is ended by another client, or by its time, and the store stays usable") {
    StoreHost host(ListenScope::loopback, 0);
    TcpStore store(local(host.port()), kHangGuard);
    auto error = error_of([&] { store.wait({"a", "b"}, milliseconds(20)); });
    CHECK(error.code == Errc::timed_out);
    CHECK(error.mentions("\"a\", \"b\""));
    CHECK(error.mentions("20 ms"));
    CHECK(error_of([&] { store.get("a", milliseconds(1)); }).code == Errc::timed_out);
    store.set("a", "1");
    CHECK(store.get("a", milliseconds(0)) == "1");

    std::thread other([&] {
        TcpStore setter(local(host.port()), kHangGuard);
        setter.set("b", "2");
    });
    store.wait({"a", "b"}, kHangGuard);
    CHECK(store.get("b", kHangGuard) == "2");
    other.join();
    CHECK(host.counters().refused == 0);
}

TEST_CASE("tcp store: cancelled waits and sets that race leave the connection in order") {
    StoreHost host(ListenScope::loopback, 0);
    TcpStore waiter(local(host.port()), kHangGuard);
    TcpStore setter(local(host.port()), kHangGuard);
    int in_time = 0;
    for (int i = 0; i < 100; ++i) {
        const std::string key = std::to_string(i);
        std::thread other([&] { setter.set(key, "v" + key); });
        try {
            waiter.wait({key}, milliseconds(i % 2));
            ++in_time;
        } catch (const boost::system::system_error& error) {
            REQUIRE(error.code() == Errc::timed_out);
        }
        REQUIRE(waiter.get(key, kHangGuard) == "v" + key);
        other.join();
    }
    INFO(in_time << " waits of 100 ended in time");
    CHECK(host.counters().accepted == 2);
}

TEST_CASE("tcp store: two clients' concurrent adds lose nothing") {
    StoreHost host(ListenScope::loopback, 0);
    auto add_thousand = [&] {
        TcpStore store(local(host.port()), kHangGuard);
        for (int i = 0; i < 1000; ++i) store.add("n", 1);
    };
    std::thread other(add_thousand);
    add_thousand();
    other.join();
    CHECK(TcpStore(local(host.port()), kHangGuard).add("n", 0) == 2000);
}

TEST_CASE("tcp store: a server that closes on the modern dialect is spoken to in the legacy one") {
    ScriptedServer scripted(legacy_server([](ScriptedServer& server, int fd) {
        server.expect(fd, from_hex("00") + wire_string("/k") + wire_string("v"));
        server.expect(fd, from_hex("03") + wire_string("/n") + wire_i64(4));
        ScriptedServer::write(fd, wire_i64(4));
        server.expect(fd, from_hex("04") + wire_i64(1) + wire_string("/k"));
        ScriptedServer::write(fd, kZero);
    }));
    TcpStore store(local(scripted.port()), kHangGuard);
    CHECK(store.dialect() == Dialect::legacy);
    store.set("k", "v");
    CHECK(store.add("n", 4) == 4);
    CHECK(store.check_keys({"k"}));
    CHECK(scripted.as_expected());
}

TEST_CASE("tcp store: after a timed-out wait a legacy server gets a new connection") {
    std::atomic<int> connections{0};
    ScriptedServer scripted(legacy_server([&](ScriptedServer& server, int fd) {
        if (++connections == 1) {
            server.expect(fd, from_hex("05") + wire_i64(1) + wire_string("/k"));
            server.expect_end(fd);
        } else {
            server.expect(fd, from_hex("04") + wire_i64(1) + wire_string("/k"));
            ScriptedServer::write(fd, kOne);
            server.expect(fd, from_hex("03") + wire_string("/n") + wire_i64(1));
            ScriptedServer::write(fd, wire_i64(1));
        }
    }));
    TcpStore store(local(scripted.port()), kHangGuard);
    CHECK(error_of([&] { store.wait({"k"}, milliseconds(20)); }).code == Errc::timed_out);
    CHECK(store.add("n", 1) == 1);
    CHECK(connections == 2);
    CHECK(scripted.as_expected());
}

TEST_CASE("tcp store: the probe can make no server allocate anything") {
    // Read as a legacy set: eight bytes of key length after the opcode.
    std::atomic<std::uint64_t> length{0};
    ScriptedServer scripted([&](ScriptedServer&, int number, int fd) {
        if (number > 0) return answer_probe(fd, kLegacyProbe);
        length = load_u64(ScriptedServer::read_exactly(fd, 9).data() + 1);
    });
    TcpStore store(local(scripted.port()), kHangGuard);
    CHECK(length >= std::uint64_t{1} << 48);
}

TEST_CASE("tcp store: a server that comes late is found") {
    std::uint16_t port = StoreHost(ListenScope::loopback, 0).port();
    std::atomic<bool> done{false};
    std::thread late([&] {
        std::this_thread::yield();
        StoreHost host(ListenScope::loopback, port);
        while (!done) std::this_thread::yield();
    });
    TcpStore store(local(port), kHangGuard);
    CHECK(store.add("n", 1) == 1);
    done = true;
    late.join();
}

TEST_CASE("tcp store: connecting ends with the cause") {
    std::uint16_t free_port = StoreHost(ListenScope::loopback, 0).port();
    auto refused = error_of([&] { TcpStore(local(free_port), milliseconds(3'000)); });
    CHECK(refused.code == Errc::unreachable);
    CHECK(refused.mentions("refused"));
    CHECK(refused.mentions("127.0.0.1:" + std::to_string(free_port)));

    auto unknown = error_of([&] { TcpStore({"no-such-host.invalid", 1}, milliseconds(50)); });
    CHECK(unknown.code == Errc::unreachable);

    ScriptedServer closes([](ScriptedServer&, int, int) {});
    auto closed = error_of([&] { TcpStore(local(closes.port()), milliseconds(3'000)); });
    CHECK(closed.code == Errc::unreachable);
    CHECK(closed.mentions("closes the connection"));
    CHECK(closed.mentions("the job's user"));
    CHECK(closed.mentions("node 0"));

    ScriptedServer mute(
        [](ScriptedServer&, int, int fd) { ScriptedServer::read_exactly(fd, std::size_t{1} << 20); });
    CHECK(error_of([&] { TcpStore(local(mute.port()), milliseconds(50)); }).code == Errc::timed_out);

    ScriptedServer web([](ScriptedServer&, int, int fd) {
        ScriptedServer::read_exactly(fd, kModernProbe);
        ScriptedServer::write(fd, "HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    CHECK(error_of([&] { TcpStore(local(web.port()), kHangGuard); }).code == Errc::protocol_violation);
}

TEST_CASE("tcp store: a lost connection is an error at once, and stays one") {
    auto host = std::make_unique<StoreHost>(ListenScope::loopback, 0);
    TcpStore store(local(host->port()), kHangGuard);
    store.set("k", "v");
    boost::system::error_code seen;
    std::thread waiter([&] {
        try {
            store.wait({"never"}, kHangGuard);
        } catch (const boost::system::system_error& error) {
            seen = error.code();
        }
    });
    // The store's one entry is below 200 bytes; a wait that is under way is counted, too.
    while (host->counters().bytes < 200) std::this_thread::yield();
    host.reset();
    waiter.join();
    CHECK(seen == Errc::connection_lost);
    CHECK(error_of([&] { store.add("n", 1); }).code == Errc::connection_lost);
    CHECK(error_of([&] { store.set("n", "1"); }).code == Errc::connection_lost);
}

TEST_CASE("tcp store: add on what is no number loses the connection and says why") {
    StoreHost host(ListenScope::loopback, 0);
    TcpStore store(local(host.port()), kHangGuard);
    store.set("k", "text");
    auto error = error_of([&] { store.add("k", 1); });
    CHECK(error.code == Errc::connection_lost);
    CHECK(error.mentions("no number"));
}

TEST_CASE("tcp store: signals do not disturb a wait") {
    struct sigaction action {};
    struct sigaction before {};
    action.sa_handler = [](int) {};
    sigaction(SIGUSR1, &action, &before);
    StoreHost host(ListenScope::loopback, 0);
    std::string got;
    std::thread waiter([&] {
        TcpStore store(local(host.port()), kHangGuard);
        store.wait({"k"}, kHangGuard);
        got = store.get("k", kHangGuard);
    });
    TcpStore setter(local(host.port()), kHangGuard);
    for (int i = 0; i < 200; ++i) {
        pthread_kill(waiter.native_handle(), SIGUSR1);
        setter.add("n", 1);
    }
    setter.set("k", "v");
    waiter.join();
    CHECK(got == "v");
    sigaction(SIGUSR1, &before, nullptr);
}

}  // namespace ddprun
