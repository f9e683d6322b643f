#include "launcher/view/http_server.hpp"

#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/net/connect.hpp"
#include "rendezvous/net/listen.hpp"
#include "rendezvous/system/owned_descriptor.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"

namespace ddprun {
namespace {

constexpr const char* kProbe = "GET /healthz HTTP/1.1\r\nHost: pod\r\n\r\n";

class HealthFixture {
  public:
    explicit HealthFixture(const ServerLimits& limits = {.timeout = kHangGuard},
                           ListenScope scope = ListenScope::any)
        : port_(serve_tcp(context_.get_executor(), scope, 0,
                          {.status = [] { return AgentStatus{.state = "running"}; }}, limits)) {
        thread_ = std::thread([this] { context_.run(); });
    }
    ~HealthFixture() {
        context_.stop();
        thread_.join();
    }

    OwnedDescriptor connect() const { return OwnedDescriptor(connect_tcp({"127.0.0.1", port_}, kHangGuard)); }

    // What the server says to these bytes, up to its end of the connection.
    std::string ask(const std::string& bytes) const {
        const OwnedDescriptor socket = connect();
        ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        ::shutdown(socket.get(), SHUT_WR);
        return rest(socket);
    }

    static std::string rest(const OwnedDescriptor& socket) {
        std::string text;
        char buffer[4096];
        for (ssize_t count = 0; (count = ::recv(socket.get(), buffer, sizeof buffer, 0)) > 0;)
            text.append(buffer, static_cast<std::size_t>(count));
        return text;
    }

    std::uint16_t port() const { return port_; }
    bool is_alive() const { return ask(kProbe).starts_with("HTTP/1.1 200 "); }

  private:
    boost::asio::io_context context_{1};
    std::uint16_t port_;
    std::thread thread_;
};

}  // namespace

TEST_CASE("health server: any path is answered, and nothing but a question is") {
    HealthFixture server;
    const std::string answer = server.ask(kProbe);
    CHECK(answer.starts_with("HTTP/1.1 200 OK\r\n"));
    CHECK(answer.find("Content-Type: application/json\r\n") != std::string::npos);
    CHECK(answer.find("Connection: close\r\n") != std::string::npos);
    const std::string text = health_text({.state = "running"});
    CHECK(answer.ends_with("\r\n\r\n" + text));
    CHECK(server.ask("GET / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 200 OK\r\n"));
    const std::string head = server.ask("HEAD / HTTP/1.1\r\n\r\n");
    CHECK(head.find("Content-Length: " + std::to_string(text.size()) + "\r\n") != std::string::npos);
    CHECK(head.ends_with("\r\n\r\n"));
    const std::string refused = server.ask("POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi");
    CHECK(refused.starts_with("HTTP/1.1 405 "));
    CHECK(refused.find("Allow: GET, HEAD\r\n") != std::string::npos);
    // One question for a connection.
    const std::string twice = server.ask(std::string(kProbe) + kProbe);
    CHECK(twice.find("200 OK") == twice.rfind("200 OK"));
}

TEST_CASE("health server: a request has a greatest size") {
    HealthFixture server;
    const auto with = [](std::size_t size) {
        return "GET / HTTP/1.1\r\nA: " + std::string(size, 'a') + "\r\n\r\n";
    };
    CHECK(server.ask(with(ServerLimits::kMaxRequest - 100)).starts_with("HTTP/1.1 200 "));
    // The answer may be lost where more has come than was read.
    const std::string answer = server.ask(with(ServerLimits::kMaxRequest));
    CHECK((answer.empty() || answer.starts_with("HTTP/1.1 431 ")));
    server.ask(with(1'000'000));
    CHECK(server.is_alive());
}

TEST_CASE("health server: hostile bytes disturb nobody") {
    HealthFixture server;
    const unsigned seed = std::random_device()();
    CAPTURE(seed);
    std::mt19937 random(seed);
    std::vector<std::string> texts{"",
                                   "\n",
                                   "GET",
                                   "GET / HTTP/9.9\r\n\r\n",
                                   std::string(100, '\0'),
                                   "\r\n\r\n",
                                   "GET / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
                                   "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"};
    for (int i = 0; i < 100; ++i) {
        std::string text = i % 2 == 0 ? std::string(kProbe) : std::string(random() % 200, '\0');
        for (int byte = 0; byte < 1 + i / 10 && !text.empty(); ++byte)
            text[random() % text.size()] = static_cast<char>(random());
        texts.push_back(std::move(text));
    }
    for (const std::string& text : texts) {
        CAPTURE(text);
        const std::string answer = server.ask(text);
        CHECK((answer.empty() || answer.starts_with("HTTP/1.")));
    }
    // Gone in the middle.
    for (int i = 0; i < 10; ++i) server.connect();
    CHECK(server.is_alive());
}

TEST_CASE("health server: who is slow is sent away") {
    HealthFixture server({.timeout = std::chrono::milliseconds(50)});
    const OwnedDescriptor silent = server.connect();
    const OwnedDescriptor slow = server.connect();
    ::send(slow.get(), "GET /", 5, MSG_NOSIGNAL);
    CHECK(HealthFixture::rest(silent).empty());
    CHECK(HealthFixture::rest(slow).empty());
}

TEST_CASE("health server: of too many connections the oldest gives way, and a probe gets through") {
    HealthFixture server;
    std::vector<OwnedDescriptor> silent;
    for (std::size_t i = 0; i < ServerLimits::kMaxConnections; ++i) silent.push_back(server.connect());
    CHECK(server.is_alive());
    CHECK(HealthFixture::rest(silent.front()).empty());
    // The others wait on.
    CHECK(::recv(silent.back().get(), &silent, 1, MSG_DONTWAIT) < 0);
    for (std::size_t i = 0; i < 5 * ServerLimits::kMaxConnections; ++i) silent.push_back(server.connect());
    CHECK(server.is_alive());
}

TEST_CASE("health server: callers that have said nothing give way before one that has begun to ask") {
    HealthFixture server({.timeout = kHangGuard, .first_word = std::chrono::milliseconds(0)});
    const OwnedDescriptor speaker = server.connect();
    ::send(speaker.get(), "GET /", 5, MSG_NOSIGNAL);
    std::vector<OwnedDescriptor> silent;
    for (std::size_t i = 0; i < 2 * ServerLimits::kMaxConnections; ++i) silent.push_back(server.connect());
    CHECK(server.is_alive());
    for (std::size_t i = 0; i < ServerLimits::kMaxConnections; ++i)
        CHECK(HealthFixture::rest(silent[i]).empty());
    const std::string rest = " HTTP/1.1\r\nHost: pod\r\n\r\n";
    ::send(speaker.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    CHECK(HealthFixture::rest(speaker).starts_with("HTTP/1.1 200 "));
}

TEST_CASE("health watch: where the site says so, only this machine may ask") {
    const HealthFixture everybody;
    const OwnedDescriptor other(connect_tcp({"127.0.0.2", everybody.port()}, kHangGuard));
    const HealthFixture own({.timeout = kHangGuard}, ListenScope::loopback);
    CHECK(own.is_alive());
    CHECK_THROWS(connect_tcp({"127.0.0.2", own.port()}, std::chrono::seconds(1)));
}

}  // namespace ddprun
