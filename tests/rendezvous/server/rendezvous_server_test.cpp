// The server and the client over real sockets: what the pure coordinator's tests cannot see.
#include "rendezvous/server/rendezvous_server.hpp"

#include <malloc.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <future>

#include "rendezvous/control/control_wire.hpp"
#include "rendezvous/control/coordinator_client.hpp"
#include "rendezvous/net/connect.hpp"
#include "rendezvous/net/listen.hpp"
#include "rendezvous/store/tcp_store.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/coordinator_fixture.hpp"
#include "tests/support/hang_guard.hpp"

namespace ddprun {
namespace {

using namespace std::chrono_literals;
RendezvousServerOptions options(int nnodes) {
    return {.coordinator = {.version = "1", .run_id = "none", .job_id = "job", .nnodes = nnodes}};
}

// A connection that says any bytes, for what no client of ours would say.
class RawPeer {
  public:
    explicit RawPeer(std::uint16_t port) : fd_(connect_tcp({"127.0.0.1", port}, kHangGuard)) {}
    RawPeer(const RawPeer&) = delete;
    RawPeer& operator=(const RawPeer&) = delete;
    ~RawPeer() { ::close(fd_); }

    void say(std::string_view bytes) {
        REQUIRE(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
    }

    std::optional<ControlMessage> hear() {
        for (;;) {
            auto message = frames_.next();
            REQUIRE_FALSE(frames_.is_broken());
            if (message) return message;
            std::string bytes = read();
            if (bytes.empty()) return std::nullopt;
            frames_.append(bytes);
        }
    }

    // What comes next; empty when the server has closed the connection.
    std::string read() {
        pollfd event{fd_, POLLIN, 0};
        REQUIRE(::poll(&event, 1, static_cast<int>(std::chrono::milliseconds(kHangGuard).count())) == 1);
        char bytes[4096];
        ssize_t count = ::recv(fd_, bytes, sizeof bytes, 0);
        return count > 0 ? std::string(bytes, static_cast<std::size_t>(count)) : std::string();
    }

  private:
    int fd_;
    ControlFrames frames_;
};

std::unique_ptr<CoordinatorClient> connect_to(boost::asio::io_context& context, const Endpoint& where,
                                              const Hello& who, const CoordinatorClientEvents& events,
                                              TimePoint join_deadline = TimePoint::max()) {
    return std::make_unique<CoordinatorClient>(
        context.get_executor(),
        CoordinatorClientOptions{.coordinator = where, .hello = who, .join_deadline = join_deadline}, events);
}

}  // namespace

TEST_CASE("one port serves agents and store clients, and a silent connection harms nobody") {
    RendezvousServer server(options(1));
    RawPeer silent(server.port());
    RawPeer agent(server.port());
    agent.say("DD");  // the magic may come in pieces
    TcpStore store({"127.0.0.1", server.port()}, kHangGuard);
    store.set("key", "value");
    CHECK(store.get("key", kHangGuard) == "value");
    agent.say("PR" + encode_control(hello(0, 1)).substr(0, 7));
    agent.say(encode_control(hello(0, 1)).substr(7));
    auto ready = agent.hear();
    REQUIRE(ready);
    CHECK(std::get<RoundReady>(*ready).world_size == 1);
}

TEST_CASE("what is neither an agent nor a store client is closed") {
    RendezvousServer server(options(1));
    for (const std::string& bytes :
         {std::string("DDPX"), std::string("GET / HTTP/1.1\r\n\r\n"), std::string(16, '\xff'),
          "DDPR" + std::string("\xff\xff\xff\xff", 4), "DDPR" + std::string("\x02\0\0\0{}", 6)}) {
        INFO(bytes);
        RawPeer peer(server.port());
        peer.say(bytes);
        CHECK(peer.read().empty());
    }
}

TEST_CASE("a refused agent reads the reason before its connection ends") {
    RendezvousServer server(options(2));
    RawPeer stranger(server.port());
    stranger.say("DDPR" + encode_control(hello(0, 3)));
    auto refused = stranger.hear();
    REQUIRE(refused.has_value());
    CHECK_THAT(std::get<Refused>(*refused).reason, Catch::Contains("--nnodes is 3"));
    CHECK_FALSE(stranger.hear());
}

TEST_CASE(
    "a job over real connections: join, succeed, say goodbye; then the server is told that all have left") {
    std::promise<void> over;
    RendezvousServer server(options(2), {.on_over = [&] { over.set_value(); }});
    boost::asio::io_context context;
    std::vector<std::unique_ptr<CoordinatorClient>> clients;
    int finished = 0, closed = 0;
    for (int rank : {1, 0}) {
        CoordinatorClientEvents events;
        const std::size_t index = clients.size();
        events.on_message = [&, index](const ControlMessage& message) {
            if (std::holds_alternative<RoundReady>(message)) {
                CHECK(clients[index]->caller_address().local == "127.0.0.1");
                clients[index]->send(WorkersSucceeded{0});
            }
            if (std::holds_alternative<Finish>(message)) {
                ++finished;
                clients[index]->close([&] { ++closed; });
            }
        };
        events.on_trouble = [](const std::string& cause) { FAIL(cause); };
        events.on_lost = [](const CoordinatorLoss& loss) { FAIL(loss.cause); };
        clients.push_back(connect_to(context, Endpoint{"127.0.0.1", server.port()}, hello(rank, 2), events));
        clients.back()->join();
    }
    context.run_for(kHangGuard);
    CHECK(finished == 2);
    CHECK(closed == 2);
    CHECK(over.get_future().wait_for(kHangGuard) == std::future_status::ready);
}

TEST_CASE("an agent that is connected but does not answer is given up, with the reason") {
    RendezvousServerOptions with_heartbeats = options(2);
    with_heartbeats.coordinator.heartbeat = 300ms;
    RendezvousServer server(std::move(with_heartbeats));
    RawPeer agent(server.port());
    agent.say("DDPR" + encode_control(hello(1, 2)));
    const auto welcome = agent.hear();
    REQUIRE(welcome.has_value());
    CHECK(std::get<Welcome>(*welcome).heartbeat_ms == 300);
    CHECK(std::get<Welcome>(*welcome).seen_at == "127.0.0.1");
    std::uint64_t questions = 0;
    auto message = agent.hear();
    // A server that is late lets the agent wait for longer, and says so.
    for (; message && !std::holds_alternative<GivenUp>(*message); message = agent.hear())
        if (const auto* question = std::get_if<Heartbeat>(&*message)) CHECK(question->number == ++questions);
    CHECK(questions >= 1);
    REQUIRE(message.has_value());
    CHECK(std::get<GivenUp>(*message).reason == "no heartbeat for 0.3 s");
    CHECK_FALSE(agent.hear());
}

TEST_CASE("an agent that says nothing costs no more than 16 KiB of memory") {
    constexpr int kAgents = 200;
    RendezvousServerOptions with_heartbeats = options(kAgents + 1);
    with_heartbeats.coordinator.heartbeat = 60s;  // for the Welcome, which says that an agent is there
    RendezvousServer server(std::move(with_heartbeats));
    std::vector<std::unique_ptr<RawPeer>> agents;
    const auto add = [&](int node) {
        agents.push_back(std::make_unique<RawPeer>(server.port()));
        agents.back()->say("DDPR" + encode_control(hello(node, kAgents + 1)));
        REQUIRE(agents.back()->hear().has_value());
    };
    add(1);  // what comes with the first one is not counted
    const std::size_t before = ::mallinfo2().uordblks;
    for (int node = 2; node <= kAgents; ++node) add(node);
    const std::size_t after = ::mallinfo2().uordblks;  // a sanitizer's own heap tells nothing here
    CHECK((after - before) / (kAgents - 1) <= 16 * 1024);
}

TEST_CASE("a client answers heartbeats, and gives up a coordinator that is connected but silent") {
    boost::asio::io_context context;
    RendezvousServerOptions with_heartbeats = options(2);
    with_heartbeats.coordinator.heartbeat = 6s;
    auto server = std::make_unique<RendezvousServer>(std::move(with_heartbeats));
    auto silent = listen_tcp(context.get_executor(), ListenScope::loopback, 0);
    int losses = 0;
    boost::asio::steady_timer stays(context, 10s);  // longer than a silent one would be let
    CoordinatorClientEvents events;
    events.on_message = [](const ControlMessage&) {};
    events.on_trouble = [](const std::string& cause) { FAIL(cause); };
    events.on_lost = [&](const CoordinatorLoss& loss) { FAIL(loss.cause); };
    auto client = connect_to(context, Endpoint{"127.0.0.1", server->port()}, hello(1, 2), events);
    client->join();
    stays.async_wait([&](boost::system::error_code) { client.reset(); });
    context.run_for(kHangGuard);
    CHECK_FALSE(client);

    events.on_lost = [&](const CoordinatorLoss& loss) {
        CHECK(loss.kind == CoordinatorLoss::Kind::silent);
        CHECK(loss.cause == "no heartbeat for 3 s");
        ++losses;
    };
    std::optional<boost::asio::ip::tcp::socket> accepted;
    const std::string welcome = encode_control(Welcome{3'000});
    silent.async_accept([&](boost::system::error_code error, boost::asio::ip::tcp::socket socket) {
        REQUIRE_FALSE(error);
        accepted = std::move(socket);
        REQUIRE(::send(accepted->native_handle(), welcome.data(), welcome.size(), MSG_NOSIGNAL) > 0);
    });
    client = connect_to(context, Endpoint{"127.0.0.1", silent.local_endpoint().port()}, hello(1, 2), events);
    client->join();
    context.restart();
    context.run_for(kHangGuard);
    CHECK(losses == 1);
}

TEST_CASE("a client that is not answered pauses longer and longer, and gives up at its deadline") {
    for (const bool closes : {true, false}) {
        boost::asio::io_context context;
        auto stranger = listen_tcp(context.get_executor(), ListenScope::loopback, 0);
        const Endpoint where{"127.0.0.1", stranger.local_endpoint().port()};
        std::vector<boost::asio::ip::tcp::socket> accepted;
        std::function<void()> accept = [&] {
            stranger.async_accept([&](boost::system::error_code error, boost::asio::ip::tcp::socket socket) {
                if (error) return;
                if (!closes) accepted.push_back(std::move(socket));
                accept();
            });
        };
        accept();
        std::unique_ptr<CoordinatorClient> client;
        std::vector<CoordinatorLoss> losses;
        CoordinatorClientEvents events;
        events.on_message = [](const ControlMessage&) { FAIL("a message from a stranger"); };
        // An attempt that begins just before the deadline may not have the time.
        std::string hurried;
        events.on_trouble = [&](const std::string& cause) {
            CHECK_THAT(cause, Catch::EndsWith("timed out"));
            hurried = cause;
        };
        events.on_lost = [&](const CoordinatorLoss& loss) {
            losses.push_back(loss);
            loss.kind == CoordinatorLoss::Kind::unreached ? stranger.close() : client->join();
        };
        client = connect_to(context, where, hello(1, 2), events, TimePoint::clock::now() + 1s);
        client->join();
        context.run_for(kHangGuard);
        // The pauses are 5 ms, 10, 20, … at least.
        REQUIRE(losses.size() >= 2);
        CHECK(losses.size() <= 10);
        CHECK(losses.front().kind ==
              (closes ? CoordinatorLoss::Kind::stranger : CoordinatorLoss::Kind::broken));
        CHECK(losses.front().cause ==
              "what listens at " + to_string(where) +
                  (closes ? " ended the connection without an answer" : " does not answer"));
        CHECK(losses.back().kind == CoordinatorLoss::Kind::unreached);
        CHECK(losses.back().cause == (hurried.empty() ? losses.front().cause : hurried));
    }
}

TEST_CASE("a client tries until its deadline, then gives up with the last cause") {
    boost::asio::io_context context;
    // Bound, so that the port is nobody else's, and nobody listens.
    const boost::asio::ip::tcp::socket bound(context, {boost::asio::ip::address_v4::loopback(), 0});
    const Endpoint nobody{"127.0.0.1", bound.local_endpoint().port()};

    std::vector<std::string> causes;
    std::string last;
    CoordinatorClientEvents events;
    events.on_message = [](const ControlMessage&) { FAIL("a message from nobody"); };
    events.on_trouble = [&](const std::string& cause) { causes.push_back(cause); };
    events.on_lost = [&](const CoordinatorLoss& loss) {
        CHECK(loss.kind == CoordinatorLoss::Kind::unreached);
        last = loss.cause;
    };
    CoordinatorClient client(context.get_executor(),
                             {.coordinator = nobody,
                              .hello = hello(1, 2),
                              .join_deadline = CoordinatorClient::TimePoint::clock::now() + 1s},
                             events);
    client.join();
    context.run_for(kHangGuard);
    REQUIRE(causes.size() >= 2);
    CHECK_THAT(causes.front(), Catch::Contains("refused"));
    CHECK(last == causes.back());
}

TEST_CASE("a server that dies is a lost connection, and the client can join its successor on the same port") {
    boost::asio::io_context context;
    auto server = std::make_unique<RendezvousServer>(options(1));
    const std::uint16_t port = server->port();

    int rounds = 0, losses = 0;
    std::unique_ptr<CoordinatorClient> client;
    CoordinatorClientEvents events;
    events.on_message = [&](const ControlMessage& message) {
        CHECK(std::holds_alternative<RoundReady>(message));
        ++rounds;
        rounds == 1 ? server.reset() : client.reset();
    };
    events.on_trouble = [](const std::string&) {};
    events.on_lost = [&](const CoordinatorLoss& loss) {
        CHECK(loss.kind == CoordinatorLoss::Kind::broken);
        ++losses;
        RendezvousServerOptions again = options(1);
        again.port = port;
        again.coordinator.job_id = "another";
        server = std::make_unique<RendezvousServer>(std::move(again));
        client->join();
    };
    client = connect_to(context, {"127.0.0.1", port}, hello(0, 1), events);
    client->join();
    context.run_for(kHangGuard);
    CHECK(rounds == 2);
    CHECK(losses == 1);
}

}  // namespace ddprun
