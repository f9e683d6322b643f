// Ranks that are closed before they have an answer, as by a listener that strangers crowd.
#include "collectives/wire/redial.hpp"

#include <atomic>
#include <cerrno>
#include <optional>
#include <thread>

#include "collectives/messages/message_frames.hpp"
#include "collectives/messages/tcp_message_line.hpp"
#include "collectives/tcp/peer_mesh.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/link_io.hpp"

using namespace ddprun;

namespace {

using Code = CollectiveErrorCode;

constexpr std::chrono::milliseconds kAtOnce{0};
constexpr int kClosed = 4;

// Rank 1 of two; rank 0 is at `endpoint`, where calls are taken by hand.
struct Crowded {
    TcpListener listener{"127.0.0.1"};
    Membership membership{
        1,
        0,
        1,
        Nonce{7},
        {{listener.endpoint(), "host", 1}, {TcpListener("127.0.0.1").endpoint(), "host", 1}}};

    TcpLink take() {
        wait(listener.descriptor(), POLLIN);
        return {1, listener.accept()};
    }
    // One after it has said its Hello.
    static LinkHello hear(TcpLink& link) {
        HelloBytes bytes{};
        wait(link.descriptor(), POLLIN);
        iovec part{bytes.data(), bytes.size()};
        REQUIRE(link.read_some({&part, 1}) == bytes.size());
        return *decode_hello(bytes);
    }
    // Closes some before a word, some after the Hello, and welcomes the next.
    TcpLink welcome_after_closed() {
        for (int i = 0; i < kClosed; ++i) {
            TcpLink link = take();
            if (i % 2 == 0) hear(link);
        }
        TcpLink link = take();
        hear(link);
        const auto welcome = encode(HelloAnswer::welcome);
        write_all(link, welcome.data(), welcome.size());
        return link;
    }
};

}  // namespace

TEST_CASE("who was closed calls again at once, then after pauses that grow", "[redial]") {
    Redial redial;
    CHECK(redial.pause_after(0, false) == kAtOnce);
    auto base = kFirstRedialPause;
    for (const int error : {ECONNRESET, EPIPE, 0, 0, 0, 0, 0, 0, 0, 0}) {
        const auto pause = redial.pause_after(error, false);
        REQUIRE(pause);
        CHECK(*pause >= base / 2);
        CHECK(*pause <= base * 3 / 2);
        base = std::min(base * 2, kLongestRedialPause);
    }
    CHECK(base == kLongestRedialPause);
}

TEST_CASE("where nobody listens nobody calls again, and silence counts on the same machine only",
          "[redial]") {
    Redial redial;
    for (const bool within : {false, true}) {
        CHECK_FALSE(redial.pause_after(ECONNREFUSED, within));
        CHECK_FALSE(redial.pause_after(EHOSTUNREACH, within));
        CHECK_FALSE(redial.pause_after(EBADMSG, within));
    }
    CHECK_FALSE(redial.pause_after(ETIMEDOUT, false));
    CHECK(redial.patience() == kFirstPatience);
    CHECK(redial.pause_after(ETIMEDOUT, true) == kAtOnce);
    // A machine that is slow itself is given more time, to a limit.
    CHECK(redial.patience() == 2 * kFirstPatience);
    for (int i = 0; i < 10; ++i) redial.pause_after(ETIMEDOUT, true);
    CHECK(redial.patience() == kLongestPatience);
}

TEST_CASE("a rank that is closed before it has an answer joins all the same", "[redial]") {
    Crowded crowded;
    const Membership& members = crowded.membership;
    TcpListener own("127.0.0.1");
    const Endpoint endpoint = own.endpoint();
    std::optional<CollectiveError> error;
    std::atomic<bool> joined = false;
    std::jthread rank([&] {
        const std::chrono::seconds limit{60};
        try {
            PeerMesh mesh(members, std::move(own),
                          {{Operation::join}, PeerMesh::Clock::now() + limit, {limit, "join_timeout"}});
            joined = true;
            mesh.outgoing(0, 0, {{Operation::send}, PeerMesh::Clock::now() + limit, {limit, "timeout"}});
            mesh.leave();
        } catch (const CollectiveError& failed) {
            error = failed;
        }
    });
    TcpLink right = crowded.welcome_after_closed();
    TcpLink left(1, begin_connect(endpoint));
    wait(left.descriptor(), POLLOUT);
    const auto hello = encode(LinkHello{Channel::lifeline, 0, 1, 0, 1, members.nonce, 0});
    write_all(left, hello.data(), hello.size());
    const TcpLink data = crowded.welcome_after_closed();
    rank.join();
    if (error) FAIL(error->what());
    REQUIRE(joined);
}

TEST_CASE("a rank whose call is refused names the peer, however often it was closed before", "[redial]") {
    std::optional<Crowded> crowded(std::in_place);
    const Membership members = crowded->membership;
    std::optional<CollectiveError> error;
    std::jthread rank([&] {
        const std::chrono::seconds limit{60};
        try {
            const PeerMesh mesh(members, TcpListener("127.0.0.1"),
                                {{Operation::join}, PeerMesh::Clock::now() + limit, {limit, "join_timeout"}});
        } catch (const CollectiveError& failed) {
            error = failed;
        }
    });
    for (int i = 0; i < kClosed; ++i) crowded->take();
    crowded.reset();
    rank.join();
    REQUIRE(error->code() == Code::peer_died);
    REQUIRE(error->culprits() == std::vector<int>{0});
}

TEST_CASE("a line for messages that is closed before it has an answer sends what it has", "[redial]") {
    Crowded crowded;
    TcpListener own("127.0.0.1");
    Lifeline lifeline(crowded.membership, std::move(own));
    TcpMessageLine line(crowded.membership, lifeline, 0);
    constexpr std::string_view kWord = "hello";
    std::jthread sender([&] {
        line.put({FrameKind::eager, 0, 0, 7, kWord.size()}, reinterpret_cast<const std::byte*>(kWord.data()));
        while (!line.flush()) {
            std::vector<pollfd> polled;
            line.add_descriptors(polled);
            ::poll(polled.data(), polled.size(), kGuardMilliseconds);
        }
    });
    const TcpLink link = crowded.welcome_after_closed();
    wait(link.descriptor(), POLLIN);
    sender.join();
}
