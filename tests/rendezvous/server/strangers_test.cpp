// What the server does with callers who are not of its job.
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <future>
#include <mutex>

#include "rendezvous/control/control_wire.hpp"
#include "rendezvous/control/coordinator_client.hpp"
#include "rendezvous/net/connect.hpp"
#include "rendezvous/server/rendezvous_server.hpp"
#include "rendezvous/store/tcp_store.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/coordinator_fixture.hpp"
#include "tests/support/hang_guard.hpp"
#include "tests/support/other_user.hpp"

namespace ddprun {
namespace {

RendezvousServerOptions hosting(const Hello& own) {
    return {.coordinator = {.version = own.version,
                            .run_id = own.run_id,
                            .job_id = "job",
                            .nnodes = own.nnodes,
                            .own_agent = own}};
}

// Whether the server has ended the connection that said so, without an answer.
bool ends_after(std::uint16_t port, const std::string& bytes) {
    const OwnedDescriptor caller(connect_tcp({"127.0.0.1", port}, kHangGuard));
    if (::send(caller.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) return true;
    char byte = 0;
    return ::recv(caller.get(), &byte, 1, 0) <= 0;
}

}  // namespace

TEST_CASE("the host's own agent joins in its process, and nobody else in its name") {
    const Hello own = hello(0, 2);
    RendezvousServer server(hosting(own));
    CHECK(ends_after(server.port(), "DDPR" + encode_control(own)));

    boost::asio::io_context context;
    int ready = 0;
    std::vector<std::unique_ptr<CoordinatorClient>> clients;
    const auto join = [&](CoordinatorClientOptions client) {
        client.join_deadline = CoordinatorClient::TimePoint::max();
        CoordinatorClientEvents events;
        events.on_message = [&](const ControlMessage& message) {
            if (std::holds_alternative<RoundReady>(message) && ++ready == 2) context.stop();
        };
        events.on_trouble = [](const std::string& cause) { FAIL(cause); };
        events.on_lost = [](const CoordinatorLoss& loss) { FAIL(loss.cause); };
        clients.push_back(
            std::make_unique<CoordinatorClient>(context.get_executor(), std::move(client), events));
        clients.back()->join();
    };
    Hello other = hello(1, 2);
    other.host = "gpu01";
    join({.coordinator = {"127.0.0.1", server.port()}, .hello = other});
    join({.in_process = [&] { return server.call(context.get_executor()); }, .hello = own});
    context.run_for(kHangGuard);
    CHECK(ready == 2);
    clients.clear();
}

TEST_CASE("a server where nobody is left, and nothing is awaited, answers the next agent") {
    RendezvousServerOptions options = hosting(hello(0, 1));
    options.coordinator.own_agent.reset();
    std::promise<void> over;
    RendezvousServer server(std::move(options), {.on_over = [&] { over.set_value(); }});
    const auto call = [&] {
        OwnedDescriptor caller(connect_tcp({"127.0.0.1", server.port()}, kHangGuard));
        const timeval guard{std::chrono::seconds(kHangGuard).count(), 0};
        ::setsockopt(caller.get(), SOL_SOCKET, SO_RCVTIMEO, &guard, sizeof guard);
        const std::string bytes = "DDPR" + encode_control(hello(0, 1));
        REQUIRE(::send(caller.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0);
        char byte = 0;
        CHECK(::recv(caller.get(), &byte, 1, 0) == 1);
    };
    call();  // and is gone at once
    REQUIRE(over.get_future().wait_for(kHangGuard) == std::future_status::ready);
    call();
}

TEST_CASE("another user of this machine gets neither the store nor a place, and node 0's user hears of it") {
    if (!can_be_other_user()) {
        WARN("skipped: not root, so nobody else can be had");
        return;
    }
    std::promise<std::string> remark;
    RendezvousServer server(hosting(hello(0, 2)),
                            {.on_remark = [&](const std::string& sentence) { remark.set_value(sentence); }});
    TcpStore own({"127.0.0.1", server.port()}, kHangGuard);
    own.set("secret", "value");
    for (const std::string& bytes :
         {std::string("\x05") + std::string(40, '\0'), "DDPR" + encode_control(hello(1, 2)), std::string()}) {
        CHECK(as_other_user([&] { return ends_after(server.port(), bytes) ? 0 : 1; }) == 0);
    }
    CHECK_THAT(remark.get_future().get(), Catch::StartsWith("user 61234 of this machine was turned away"));
    CHECK(own.get("secret", kHangGuard) == "value");
}

}  // namespace ddprun
