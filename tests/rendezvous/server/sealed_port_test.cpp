// What the server of a job with a key does with callers who have it, and with those who play at having it.
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "rendezvous/control/control_wire.hpp"
#include "rendezvous/control/coordinator_client.hpp"
#include "rendezvous/net/connect.hpp"
#include "rendezvous/secure/noise_cipher.hpp"
#include "rendezvous/secure/noise_handshake.hpp"
#include "rendezvous/secure/sealed_connection.hpp"
#include "rendezvous/secure/sealed_records.hpp"
#include "rendezvous/server/caller_gate.hpp"
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

    // Whatever comes before.
    void await_end() {
        while (!hear(4096).empty()) {
        }
    }
    bool is_closed() const {
        pollfd event{fd_.get(), POLLRDHUP, 0};
        return ::poll(&event, 1, 0) != 0;
    }

  private:
    OwnedDescriptor fd_;
};

// An agent that has been let in, and waits for the other; it answers on a thread of its own.
class LetIn {
  public:
    LetIn(std::uint16_t port, const std::optional<SecretKey>& key) {
        CoordinatorClientEvents events;
        std::promise<void> heard;
        // It is told of the heartbeat at once.
        events.on_lease = [&heard, done = false](const auto&) mutable {
            if (!std::exchange(done, true)) heard.set_value();
        };
        events.on_message = [](const ControlMessage&) {};
        events.on_trouble = [](const std::string&) {};
        events.on_lost = [this](const CoordinatorLoss&) { is_closed_ = true; };
        CoordinatorClientOptions options{.coordinator = {"127.0.0.1", port}, .hello = hello(1, 2)};
        options.join_deadline = CoordinatorClient::TimePoint::max();
        options.key = key;
        client_.emplace(context_.get_executor(), std::move(options), std::move(events));
        client_->join();
        auto is_heard = heard.get_future();
        thread_ = std::thread([this] { context_.run_for(10 * kHangGuard); });
        REQUIRE(is_heard.wait_for(kHangGuard) == std::future_status::ready);
    }
    ~LetIn() {
        context_.stop();
        thread_.join();
    }
    LetIn(const LetIn&) = delete;
    LetIn& operator=(const LetIn&) = delete;
    bool is_closed() const { return is_closed_; }

  private:
    boost::asio::io_context context_;
    std::atomic<bool> is_closed_ = false;
    std::optional<CoordinatorClient> client_;
    std::thread thread_;
};

// What becomes of an agent that joins with this key: the reason of the refusal, or of the loss, "waiting",
// "let in".
std::string outcome_of(RendezvousServer& server, const std::optional<SecretKey>& key, int rank) {
    boost::asio::io_context context;
    std::string outcome;
    CoordinatorClientEvents events;
    events.on_message = [&](const ControlMessage& message) {
        const auto* refused = std::get_if<Refused>(&message);
        const bool is_ready = std::holds_alternative<RoundReady>(message);
        if (refused == nullptr && !is_ready && !std::holds_alternative<Waiting>(message)) return;
        outcome = refused != nullptr ? refused->reason : is_ready ? "let in" : "waiting";
        context.stop();
    };
    // Who refuses a key is asked again.
    events.on_trouble = [](const std::string& cause) {
        CHECK_THAT(cause, Catch::Contains("has not proven to be node 0"));
    };
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

// Calls one after the other until the host has ended as many as are too many, all of them the oldest ones,
// and lets the rest go when their time is over; meanwhile an agent that was let in before stays, and others
// come.
template <class Say>
void check_outsiders(const std::optional<SecretKey>& key, Say say) {
    constexpr std::size_t kOutsiders = UnprovenCalls::kMost + 20;
    RendezvousServerOptions options = hosting_with(SecretKey::fresh());
    options.key = key;
    options.coordinator.heartbeat = std::chrono::minutes(1);
    RendezvousServer server(std::move(options));
    LetIn agent(server.port(), key);
    std::vector<std::unique_ptr<RawCaller>> outsiders;
    for (std::size_t i = 0; i < kOutsiders; ++i) {
        outsiders.push_back(std::make_unique<RawCaller>(server.port()));
        say(*outsiders.back());
    }
    for (std::size_t i = 0; i < kOutsiders - UnprovenCalls::kMost; ++i) outsiders[i]->await_end();
    outsiders.back()->await_end();
    CHECK_FALSE(agent.is_closed());
    CHECK(outcome_of(server, key, 0) == "let in");
}

}  // namespace

TEST_CASE("an agent with the job's key is heard, one without or with another is told so", "[sealed_port]") {
    const SecretKey key = SecretKey::fresh();
    RendezvousServer server(hosting_with(key));
    CHECK_THAT(outcome_of(server, std::nullopt, 1), Catch::StartsWith("node 0 asks for the job's secret"));
    CHECK_THAT(outcome_of(server, SecretKey::fresh(), 1),
               Catch::Contains(" says that it has another secret"));
    CHECK(outcome_of(server, key, 1) == "waiting");
    RendezvousServerOptions options = hosting_with(key);
    options.key.reset();
    RendezvousServer plain(std::move(options));
    CHECK_THAT(outcome_of(plain, key, 1), Catch::Contains(" says that it has no secret"));
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

TEST_CASE("who says again what others have said stays among the unproven, for whatever purpose",
          "[sealed_port]") {
    const SecretKey key = SecretKey::fresh();
    for (const SealedPurpose purpose : {SealedPurpose::agent, SealedPurpose::store}) {
        const SealedCall call(purpose, key, SecretKey::fresh());
        check_outsiders(key, [&](RawCaller& caller) {
            caller.say(call.bytes());
            CHECK(caller.hear(kNoiseHandshakeBytes).size() == kNoiseHandshakeBytes);
            // As much of a record as nobody can check.
            caller.say("\xff\xff" + std::string(40'000, 'r'));
        });
    }
}

TEST_CASE("without a secret who says no Hello that is taken stays among the unproven", "[sealed_port]") {
    check_outsiders(std::nullopt, [](RawCaller& caller) { caller.say(std::string(kControlMagic)); });
    check_outsiders(std::nullopt, [](RawCaller& caller) { caller.say("D"); });
    Hello of_another_job = hello(1, 2);
    of_another_job.run_id = "other";
    const std::string refused = std::string(kControlMagic) + encode_control(of_another_job);
    check_outsiders(std::nullopt, [&](RawCaller& caller) {
        caller.say(refused);
        CHECK(caller.hear(4).size() == 4);
        std::string length(4, '\0');
        length[2] = 0x10;
        // What follows is passed over.
        caller.say(length + std::string(1'000, 'x'));
    });
}

TEST_CASE("more of a first message than a Hello has is not waited for", "[sealed_port]") {
    RendezvousServerOptions options = hosting_with(SecretKey::fresh());
    options.key.reset();
    RendezvousServer server(std::move(options));
    RawCaller caller(server.port());
    caller.say(std::string(kControlMagic) + std::string("\xfd\xff\0\0", 4));
    CHECK(caller.hear(1).empty());
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
