// What the server of a job with a key does with callers who have it, and with those who play at having it.
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>

#include "rendezvous/control/control_wire.hpp"
#include "rendezvous/control/coordinator_client.hpp"
#include "rendezvous/net/socket.hpp"
#include "rendezvous/secure/sealed_greeting.hpp"
#include "rendezvous/secure/sealed_records.hpp"
#include "rendezvous/server/rendezvous_server.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/coordinator_fixture.hpp"
#include "tests/support/hang_guard.hpp"

namespace ddprun {
namespace {

RendezvousServerOptions hosting_with(const SecretKey& key) {
    return {.coordinator = {.version = hello(0, 2).version,
                            .run_id = hello(0, 2).run_id,
                            .job_id = "job",
                            .nnodes = 2},
            .key = key};
}

// One end of a connection, byte by byte.
class RawCaller {
  public:
    explicit RawCaller(std::uint16_t port) : fd_(connect_tcp({"127.0.0.1", port}, kHangGuard)) {}

    void say(const std::string& bytes) { ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL); }
    // At most so many bytes; fewer only at the end.
    std::string hear(std::size_t size) {
        std::string bytes(size, '\0');
        const ssize_t count = ::recv(fd_.get(), bytes.data(), size, MSG_WAITALL);
        bytes.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
        return bytes;
    }

  private:
    OwnedDescriptor fd_;
};

// The reason of the refusal, or "ready"; of an agent that joins with this key.
std::string outcome_of(RendezvousServer& server, const std::optional<SecretKey>& key, int rank) {
    boost::asio::io_context context;
    std::string outcome;
    CoordinatorClientEvents events;
    events.on_message = [&](const ControlMessage& message) {
        const auto* refused = std::get_if<Refused>(&message);
        if (refused == nullptr && !std::holds_alternative<Waiting>(message)) return;
        outcome = refused != nullptr ? refused->reason : "waiting";
        context.stop();
    };
    events.on_trouble = [](const std::string& cause) { FAIL(cause); };
    events.on_lost = [&](const CoordinatorLoss& loss) {
        if (outcome.empty()) outcome = loss.cause;
        context.stop();
    };
    CoordinatorClientOptions options{.coordinator = {"127.0.0.1", server.port()}, .hello = hello(rank, 2)};
    options.join_deadline = CoordinatorClient::TimePoint::max();
    options.key = key;
    {
        CoordinatorClient client(context.get_executor(), std::move(options), events);
        client.join();
        context.run_for(kHangGuard);
    }
    return outcome;
}

}  // namespace

TEST_CASE("an agent with the job's key is heard, one without or with another is told so", "[sealed_port]") {
    const SecretKey key = SecretKey::fresh();
    RendezvousServer server(hosting_with(key));
    CHECK_THAT(outcome_of(server, std::nullopt, 1), Catch::StartsWith("node 0 asks for the job's secret"));
    CHECK_THAT(outcome_of(server, SecretKey::fresh(), 1), Catch::StartsWith("node 0 has another secret"));
    CHECK(outcome_of(server, key, 1) == "waiting");
    RendezvousServerOptions options = hosting_with(key);
    options.key.reset();
    RendezvousServer plain(std::move(options));
    CHECK_THAT(outcome_of(plain, key, 1), Catch::StartsWith("node 0 has no secret"));
}

TEST_CASE("a first message that is played again gets an answer of no use", "[sealed_port]") {
    const SecretKey key = SecretKey::fresh();
    RendezvousServer server(hosting_with(key));
    SealedCall call(SealedPurpose::agent, key, SecretKey::fresh());
    RawCaller once(server.port()), again(server.port());
    once.say(call.bytes());
    again.say(call.bytes());
    const std::string first = once.hear(kNoiseHandshakeBytes);
    CHECK(first.size() == kNoiseHandshakeBytes);
    CHECK(again.hear(kNoiseHandshakeBytes) != first);
    const auto learnt = call.learn(first);
    REQUIRE(learnt.keys);
    SealedRecords records(*learnt.keys);
    const std::string said = records.seal(encode_control(hello(1, 2)));
    again.say(said);
    CHECK(again.hear(1).empty());
    once.say(said);
    const auto plain = records.open(once.hear(kRecordHeaderBytes + kNoiseTagBytes + 5));
    CHECK(plain.has_value());
    CHECK(records.buffered() > 0);
}

TEST_CASE("a handshake that is cut after any byte disturbs nobody", "[sealed_port]") {
    const SecretKey key = SecretKey::fresh();
    RendezvousServer server(hosting_with(key));
    const SealedCall call(SealedPurpose::agent, key, SecretKey::fresh());
    for (std::size_t size = 0; size <= call.bytes().size(); ++size) {
        RawCaller caller(server.port());
        caller.say(call.bytes().substr(0, size));
    }
    // With more than the first message nobody begins.
    RawCaller eager(server.port());
    eager.say(call.bytes() + "more");
    eager.say(std::string(100, 'x'));
    CHECK(outcome_of(server, key, 1) == "waiting");
}

TEST_CASE("a changed byte in an agent's record ends its connection", "[sealed_port]") {
    const SecretKey key = SecretKey::fresh();
    RendezvousServer server(hosting_with(key));
    for (std::size_t place = kRecordHeaderBytes; place < 60; ++place) {
        SealedCall call(SealedPurpose::agent, key, SecretKey::fresh());
        RawCaller caller(server.port());
        caller.say(call.bytes());
        SealedRecords records(*call.learn(caller.hear(kNoiseHandshakeBytes)).keys);
        std::string said = records.seal(encode_control(hello(1, 2)));
        said[place] = static_cast<char>(said[place] ^ 4);
        caller.say(said);
        CHECK(caller.hear(1).empty());
    }
}

}  // namespace ddprun
