// What communicators of one family tell each other, and what ranks that give up while they join tell those
// who come late.
#include "collectives/liveness/lifeline.hpp"
#include "collectives/liveness/origin.hpp"

#include <optional>
#include <thread>

#include "collectives/tcp/peer_mesh.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/link_io.hpp"

using namespace ddprun;

namespace {

using Code = CollectiveErrorCode;

constexpr int kGuardMilliseconds = 20'000;

Endpoint closed_port() { return TcpListener("127.0.0.1").endpoint(); }

// The lifeline of one rank; nobody listens where the others do.
struct LoneRank {
    explicit LoneRank(int rank, int world_size, const Origin& origin = {})
        : membership{rank, 0, 1, Nonce{7},
                     std::vector<Member>(static_cast<std::size_t>(world_size), {closed_port(), "host", 1})},
          lifeline(membership, std::move(listener), origin) {}

    void declare(Code code, int culprit) { lifeline.declare({code, {culprit}, "it ended"}); }
    bool ended_by(Code code, int culprit) const {
        const auto verdict = lifeline.verdict();
        return verdict && verdict->code == code && verdict->culprits == std::vector<int>{culprit};
    }

    Membership membership;
    TcpListener listener{"127.0.0.1"};
    Endpoint endpoint = listener.endpoint();
    Lifeline lifeline;
};

// What the first of three ranks comes to that join, where the second is expected at `second`. They are the
// ranks 1, 0 and 2 of the parent, if there is one.
CollectiveError failure_to_join(Lifeline* parent, const Endpoint& second = closed_port()) {
    TcpListener listener("127.0.0.1");
    const Endpoint own = listener.endpoint();
    const Membership membership{
        0, 0, 1, Nonce{7}, {{own, "host", 1}, {second, "host", 1}, {closed_port(), "host", 1}}};
    const std::chrono::seconds limit{60};
    try {
        const PeerMesh mesh(membership, std::move(listener),
                            {{Operation::join}, PeerMesh::Clock::now() + limit, {limit, "join_timeout"}},
                            {parent, {1, 0, 2}});
    } catch (const CollectiveError& error) {
        return error;
    }
    throw std::runtime_error("the ranks have joined");
}

std::size_t read_once(TcpLink& link, std::span<std::byte> bytes) {
    wait(link.descriptor(), POLLIN);
    iovec part{bytes.data(), bytes.size()};
    return link.read_some({&part, 1});
}

}  // namespace

TEST_CASE("the end of an elder is passed on with the culprits that the new one has", "[kin]") {
    const Verdict parents{Code::peer_died, {2, 5, 6}, "rank 2 died"};
    const std::vector<int> ranks{6, 0, 2};
    const Verdict verdict = inherited_verdict(parents, ranks);
    REQUIRE(verdict.code == Code::peer_died);
    REQUIRE(verdict.culprits == std::vector<int>{0, 2});
    REQUIRE(verdict.text == "the communicator that was split ended: rank 2 died");
}

TEST_CASE("a death is told to all of the family that have the dead rank, and to later ones", "[kin]") {
    LoneRank whole(1, 4);
    whole.lifeline.complete_join();
    LoneRank part(0, 3, {&whole.lifeline, {1, 3, 2}});
    LoneRank of_part(1, 2, {&part.lifeline, {1, 0}});
    LoneRank without(0, 2, {&whole.lifeline, {1, 0}});
    part.lifeline.complete_join();
    part.declare(Code::peer_died, 1);
    REQUIRE(whole.ended_by(Code::peer_died, 3));
    REQUIRE(of_part.ended_by(Code::peer_died, 0));
    REQUIRE_FALSE(without.lifeline.verdict());
    LoneRank later(0, 2, {&without.lifeline, {0, 1}});
    REQUIRE_FALSE(later.lifeline.verdict());
    LoneRank doomed(0, 2, {&whole.lifeline, {1, 3}});
    REQUIRE(doomed.ended_by(Code::peer_died, 1));
}

TEST_CASE("other ends concern one communicator, and so does a death while it is made", "[kin]") {
    LoneRank whole(1, 4);
    whole.lifeline.complete_join();
    LoneRank part(0, 2, {&whole.lifeline, {1, 3}});
    part.lifeline.complete_join();
    part.declare(Code::aborted, 1);
    REQUIRE_FALSE(whole.lifeline.verdict());
    LoneRank unsettled(0, 2, {&whole.lifeline, {1, 2}});
    unsettled.declare(Code::peer_died, 1);
    REQUIRE_FALSE(whole.lifeline.verdict());
    unsettled.lifeline.complete_join();
    REQUIRE(whole.ended_by(Code::peer_died, 2));
}

TEST_CASE("a rank gone while others join is not called dead if the elder ended", "[kin]") {
    LoneRank whole(1, 4);
    SECTION("before") {
        whole.declare(Code::peer_died, 2);
        const auto error = failure_to_join(&whole.lifeline);
        REQUIRE(error.code() == Code::peer_died);
        REQUIRE(error.culprits() == std::vector<int>{2});
    }
    SECTION("meanwhile, because of a rank that the new one has not") {
        std::jthread other([&] { whole.declare(Code::mismatch, 3); });
        const auto error = failure_to_join(&whole.lifeline);
        other.join();
        REQUIRE(error.code() == Code::mismatch);
        REQUIRE(error.culprits().empty());
    }
    SECTION("but it is if that did not") {
        const auto error = failure_to_join(&whole.lifeline);
        REQUIRE(error.code() == Code::peer_died);
        REQUIRE(error.culprits() == std::vector<int>{1});
        REQUIRE_FALSE(whole.lifeline.verdict());
    }
}

TEST_CASE("a rank at whose port another one listens is gone", "[kin]") {
    const LoneRank another(2, 3);
    const auto error = failure_to_join(nullptr, another.endpoint);
    REQUIRE(error.code() == Code::peer_died);
    REQUIRE(error.culprits() == std::vector<int>{1});
}

TEST_CASE("a rank that gives up while it joins stays until its left neighbour has heard why", "[kin]") {
    TcpListener listener("127.0.0.1");
    TcpListener right("127.0.0.1");
    const Endpoint own = listener.endpoint();
    const Membership membership{
        1, 0, 1, Nonce{9}, {{closed_port(), "host", 1}, {own, "host", 1}, {right.endpoint(), "host", 1}}};
    std::optional<CollectiveError> error;
    std::jthread rank([&] {
        const std::chrono::seconds limit{60};
        try {
            const PeerMesh mesh(membership, std::move(listener),
                                {{Operation::join}, PeerMesh::Clock::now() + limit, {limit, "join_timeout"}});
        } catch (const CollectiveError& failed) {
            error = failed;
        }
    });
    wait(right.descriptor(), POLLIN);
    TcpLink to_right(1, right.accept());
    std::array<std::byte, 1024> bytes;
    REQUIRE(read_once(to_right, std::span(bytes).first(kHelloSize)) == kHelloSize);
    const auto welcome = encode(HelloAnswer::welcome);
    write_all(to_right, welcome.data(), welcome.size());
    const Verdict verdict{Code::aborted, {2}, "rank 2 aborted"};
    const std::string notice = encode(Notice(verdict));
    write_all(to_right, notice.data(), notice.size());
    // No event tells that it does not go.
    pollfd gone{to_right.descriptor(), POLLIN, 0};
    CHECK(::poll(&gone, 1, 100) == 0);
    TcpLink left(1, begin_connect(own));
    wait(left.descriptor(), POLLOUT);
    CHECK(connect_error(left.descriptor()) == 0);
    const auto hello = encode(LinkHello{Channel::lifeline, 0, 1, 0, 1, membership.nonce, 0});
    write_all(left, hello.data(), hello.size());
    REQUIRE(read_once(left, std::span(bytes).first(kHelloAnswerSize)) == kHelloAnswerSize);
    NoticeReader reader;
    reader.add(std::span(bytes).first(read_once(left, bytes)));
    REQUIRE(reader.next() == Notice(verdict));
    rank.join();
    REQUIRE(error->code() == Code::aborted);
    REQUIRE(error->culprits() == std::vector<int>{2});
}
