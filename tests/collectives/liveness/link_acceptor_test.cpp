#include "collectives/liveness/link_acceptor.hpp"

#include <poll.h>
#include <sys/fsuid.h>

#include <memory>

#include "tests/support/catch.hpp"

using namespace ddprun;

namespace {

using Clock = LinkAcceptor::Clock;

// One side of a connection to the gate, as any program may open it.
class Caller {
  public:
    explicit Caller(const Endpoint& gate) : link_(-1, begin_connect(gate)) { wait(POLLOUT); }

    void say(std::span<const std::byte> bytes) {
        std::vector<std::byte> copy(bytes.begin(), bytes.end());
        iovec part{copy.data(), copy.size()};
        REQUIRE(link_.write_some({&part, 1}) == copy.size());
    }

    HelloAnswer hear() {
        std::array<std::byte, kHelloAnswerSize> bytes{};
        wait(POLLIN);
        iovec part{bytes.data(), bytes.size()};
        REQUIRE(link_.read_some({&part, 1}) == bytes.size());
        return *decode_hello_answer(bytes);
    }

    // The answer `prove` and what comes with it.
    MeshOffer hear_offer() {
        REQUIRE(hear() == HelloAnswer::prove);
        std::array<std::byte, kOfferSize> bytes{};
        wait(POLLIN);
        iovec part{bytes.data(), bytes.size()};
        REQUIRE(link_.read_some({&part, 1}) == bytes.size());
        return decode_offer(bytes);
    }

    void hang_up() { link_.shut_down(); }

    bool is_closed() {
        wait(POLLIN);
        std::byte byte;
        iovec part{&byte, 1};
        try {
            link_.read_some({&part, 1});
            return false;
        } catch (const LinkLost&) {
            return true;
        }
    }

  private:
    void wait(short events) {
        pollfd polled{link_.descriptor(), events, 0};
        REQUIRE(::poll(&polled, 1, 20'000) == 1);
    }

    TcpLink link_;
};

// Turns the gate until it has something to say, or nothing more has come.
std::vector<LinkAcceptor::Accepted> turn_when_ready(LinkAcceptor& gate) {
    std::vector<pollfd> polled;
    gate.add_descriptors(polled);
    REQUIRE(::poll(polled.data(), polled.size(), 20'000) > 0);
    return gate.turn(Clock::now());
}

HelloAnswer welcome_rank_1(const LinkHello& hello, bool) {
    return hello.from == 1 ? HelloAnswer::welcome : HelloAnswer::other_rank;
}

struct OpenGate {
    TcpListener listener{"127.0.0.1"};
    Endpoint endpoint = listener.endpoint();
    LinkAcceptor gate{std::move(listener), welcome_rank_1};
};

// As Lifeline judges where there is a key.
HelloAnswer ask_rank_1_for_proof(const LinkHello& hello, bool proven) {
    return !proven && hello.from == 1 ? HelloAnswer::prove : welcome_rank_1(hello, proven);
}

struct KeyedGate {
    const SecretKey key = SecretKey::fresh();
    TcpListener listener{"127.0.0.1"};
    Endpoint endpoint = listener.endpoint();
    LinkAcceptor gate{std::move(listener), ask_rank_1_for_proof, key};

    // A caller that has said its Hello and heard the offer.
    MeshOffer greet(Caller& caller, const HelloBytes& hello) {
        caller.say(hello);
        while (gate.proving().empty()) REQUIRE(turn_when_ready(gate).empty());
        return caller.hear_offer();
    }
    // Turns until nobody is left at the gate; none of them is welcome.
    void turn_all_away() {
        while (gate.next_deadline()) REQUIRE(turn_when_ready(gate).empty());
    }
};

HelloBytes hello_of_rank_1() { return encode(LinkHello{Channel::data, 0, 0, 1, 0, {}, 0, random_nonce()}); }

}  // namespace

TEST_CASE("the gate lets in whom the judge welcomes", "[gate]") {
    OpenGate open;
    Caller caller(open.endpoint);
    caller.say(encode(LinkHello{Channel::data, 0, 0, 1, 0, {}}));
    std::vector<LinkAcceptor::Accepted> visitors;
    while (visitors.empty()) visitors = turn_when_ready(open.gate);
    REQUIRE(visitors.size() == 1);
    REQUIRE(visitors[0].hello.from == 1);
    REQUIRE(visitors[0].link.peer() == 1);
    REQUIRE(caller.hear() == HelloAnswer::welcome);
    REQUIRE_FALSE(open.gate.next_deadline().has_value());
}

TEST_CASE("the gate tells a refused rank why, and closes", "[gate]") {
    OpenGate open;
    Caller caller(open.endpoint);
    caller.say(encode(LinkHello{Channel::data, 0, 0, 2, 0, {}}));
    REQUIRE(turn_when_ready(open.gate).empty());
    while (open.gate.next_deadline()) REQUIRE(turn_when_ready(open.gate).empty());
    REQUIRE(caller.hear() == HelloAnswer::other_rank);
    REQUIRE(caller.is_closed());
}

TEST_CASE("strangers are closed without a word", "[gate]") {
    OpenGate open;
    Caller caller(open.endpoint);
    const std::vector<std::byte> request(kHelloSize, std::byte{'G'});
    caller.say(request);
    REQUIRE(turn_when_ready(open.gate).empty());
    while (open.gate.next_deadline()) REQUIRE(turn_when_ready(open.gate).empty());
    REQUIRE(caller.is_closed());
}

TEST_CASE("a connection that stays silent is closed after its time", "[gate]") {
    OpenGate open;
    Caller caller(open.endpoint);
    const auto hello = encode(LinkHello{});
    caller.say(std::span(hello).first(10));
    while (!open.gate.next_deadline()) REQUIRE(turn_when_ready(open.gate).empty());
    const auto limit = *open.gate.next_deadline();
    REQUIRE(open.gate.turn(limit - std::chrono::milliseconds(1)).empty());
    REQUIRE(open.gate.next_deadline() == limit);
    REQUIRE(open.gate.turn(limit).empty());
    REQUIRE_FALSE(open.gate.next_deadline().has_value());
    REQUIRE(caller.is_closed());
}

TEST_CASE("a crowd of silent strangers is bounded and keeps no rank out for ever", "[gate]") {
    OpenGate open;
    std::vector<std::unique_ptr<Caller>> strangers;
    for (std::size_t i = 0; i < kMaxUnidentified + 1; ++i)
        strangers.push_back(std::make_unique<Caller>(open.endpoint));
    // One moment for all turns: after kLeastSilence the oldest would make room.
    const auto moment = Clock::now();
    std::vector<pollfd> polled;
    while (polled.size() < kMaxUnidentified) {
        polled.clear();
        REQUIRE(open.gate.turn(moment).empty());
        open.gate.add_descriptors(polled);
    }
    // Full: the listener is not polled any more.
    REQUIRE(polled.size() == kMaxUnidentified);
    Caller rank(open.endpoint);
    rank.say(encode(LinkHello{Channel::data, 0, 0, 1, 0, {}}));
    auto now = *open.gate.next_deadline() + kHelloTimeout;
    std::size_t welcomed = open.gate.turn(now).size();
    for (int i = 0; i < 1000 && welcomed == 0; ++i) welcomed = turn_when_ready(open.gate).size();
    REQUIRE(welcomed == 1);
    REQUIRE(rank.hear() == HelloAnswer::welcome);
}

TEST_CASE("thousands of silent strangers do not keep a rank waiting until their time is over", "[gate]") {
    OpenGate open;
    constexpr std::size_t kStrangers = 2 * kMaxUnidentified;
    std::vector<std::unique_ptr<Caller>> strangers;
    for (std::size_t i = 0; i < kStrangers; ++i) strangers.push_back(std::make_unique<Caller>(open.endpoint));
    Caller rank(open.endpoint);
    rank.say(encode(LinkHello{Channel::data, 0, 0, 1, 0, {}}));
    // The clock is the test's: no stranger's time is over by then.
    const auto start = Clock::now();
    auto now = start;
    std::size_t welcomed = 0;
    while (welcomed == 0 && now < start + kHelloTimeout / 2) {
        welcomed = open.gate.turn(now).size();
        std::vector<pollfd> polled;
        open.gate.add_descriptors(polled);
        REQUIRE(polled.size() <= kMaxUnidentified + 1);
        now += kLeastSilence / 5;
    }
    REQUIRE(welcomed == 1);
    REQUIRE(rank.hear() == HelloAnswer::welcome);
    REQUIRE(strangers.front()->is_closed());
}

TEST_CASE(
    "a full gate does not ask to be turned for nothing, and closes nobody before its first words may come",
    "[gate]") {
    OpenGate open;
    std::vector<std::unique_ptr<Caller>> strangers;
    for (std::size_t i = 0; i < kMaxUnidentified; ++i)
        strangers.push_back(std::make_unique<Caller>(open.endpoint));
    const auto start = Clock::now();
    for (std::size_t taken = 0; taken < kMaxUnidentified; taken += kMostTakenPerTurn)
        REQUIRE(open.gate.turn(start).empty());
    Caller waiting(open.endpoint);
    REQUIRE(open.gate.next_deadline() == start + kLeastSilence);
    REQUIRE(open.gate.turn(start + kLeastSilence / 2).empty());
    REQUIRE(open.gate.next_deadline() == start + kLeastSilence);
    // Then the oldest may go, but nobody goes for nobody: the one that came is in, and nobody else waits.
    REQUIRE(open.gate.turn(start + kLeastSilence).empty());
    REQUIRE(strangers.front()->is_closed());
    REQUIRE(*open.gate.next_deadline() > start + kLeastSilence);
    std::vector<pollfd> polled;
    open.gate.add_descriptors(polled);
    REQUIRE(polled.size() == kMaxUnidentified + 1);
}

TEST_CASE("with a key, both sides prove it, and what follows the proof is the link's", "[gate]") {
    KeyedGate open;
    Caller caller(open.endpoint);
    const HelloBytes hello = hello_of_rank_1();
    const MeshOffer offer = open.greet(caller, hello);
    REQUIRE(is_proof(offer.proof, open.key, MeshSide::dialled, hello, offer.challenge));
    std::vector<std::byte> words(kProofSize + 3, std::byte{'x'});
    const MeshProof proof = make_proof(open.key, MeshSide::dialler, hello, offer.challenge);
    std::copy(proof.begin(), proof.end(), words.begin());
    caller.say(words);
    std::vector<LinkAcceptor::Accepted> visitors;
    while (visitors.empty()) visitors = turn_when_ready(open.gate);
    REQUIRE(visitors.size() == 1);
    REQUIRE(visitors[0].hello == decode_hello(hello));
    REQUIRE(visitors[0].link.peer() == 1);
    REQUIRE(open.gate.proving().empty());
    std::array<std::byte, 8> rest{};
    iovec part{rest.data(), rest.size()};
    REQUIRE(visitors[0].link.read_some({&part, 1}) == 3);
}

TEST_CASE("no other proof opens the gate: another key's, one sent back, one used before, none", "[gate]") {
    KeyedGate open;
    const HelloBytes hello = hello_of_rank_1();
    MeshProof used{};
    {
        Caller first(open.endpoint);
        const MeshOffer offer = open.greet(first, hello);
        used = make_proof(open.key, MeshSide::dialler, hello, offer.challenge);
        first.say(used);
        std::vector<LinkAcceptor::Accepted> visitors;
        while (visitors.empty()) visitors = turn_when_ready(open.gate);
    }
    const auto refuses = [&](auto make) {
        Caller caller(open.endpoint);
        const MeshOffer offer = open.greet(caller, hello);
        caller.say(make(offer));
        open.turn_all_away();
        REQUIRE(caller.is_closed());
    };
    refuses([&](const MeshOffer&) { return used; });
    refuses([&](const MeshOffer& offer) { return offer.proof; });
    refuses([&](const MeshOffer&) { return MeshProof{}; });
    refuses([&](const MeshOffer& offer) {
        return make_proof(SecretKey::fresh(), MeshSide::dialler, hello, offer.challenge);
    });
    refuses([&](const MeshOffer& offer) {
        return make_proof(open.key, MeshSide::dialler, hello_of_rank_1(), offer.challenge);
    });
}

TEST_CASE("a handshake that is cut after any of its bytes lets nobody in and leaves nothing", "[gate]") {
    KeyedGate open;
    for (std::size_t cut = 0; cut < kHelloSize + kProofSize; ++cut) {
        INFO("cut after " << cut);
        Caller caller(open.endpoint);
        const HelloBytes hello = hello_of_rank_1();
        if (cut < kHelloSize) {
            caller.say(std::span(hello).first(cut));
        } else {
            const MeshOffer offer = open.greet(caller, hello);
            const MeshProof proof = make_proof(open.key, MeshSide::dialler, hello, offer.challenge);
            caller.say(std::span(proof).first(cut - kHelloSize));
        }
        caller.hang_up();
        do REQUIRE(turn_when_ready(open.gate).empty());
        while (open.gate.next_deadline());
        REQUIRE(open.gate.proving().empty());
    }
}

TEST_CASE("who is silent after its Hello is closed when its time is over", "[gate]") {
    KeyedGate open;
    Caller caller(open.endpoint);
    open.greet(caller, hello_of_rank_1());
    REQUIRE(open.gate.turn(*open.gate.next_deadline()).empty());
    REQUIRE_FALSE(open.gate.next_deadline().has_value());
    REQUIRE(caller.is_closed());
}

TEST_CASE("who has said a right Hello keeps its place, however many silent ones come", "[gate]") {
    KeyedGate open;
    Caller rank(open.endpoint);
    const HelloBytes hello = hello_of_rank_1();
    const MeshOffer offer = open.greet(rank, hello);
    const auto end = *open.gate.next_deadline();
    std::vector<std::unique_ptr<Caller>> strangers;
    for (std::size_t i = 0; i < 2 * kMaxUnidentified; ++i)
        strangers.push_back(std::make_unique<Caller>(open.endpoint));
    // The clock is the test's: all of them come, and the older half makes room for the younger.
    for (auto now = end - kHelloTimeout; now < end - kLeastSilence; now += kLeastSilence)
        REQUIRE(open.gate.turn(now).empty());
    REQUIRE(strangers.front()->is_closed());
    REQUIRE(open.gate.proving().size() == 1);
    rank.say(make_proof(open.key, MeshSide::dialler, hello, offer.challenge));
    std::vector<LinkAcceptor::Accepted> visitors;
    while (visitors.empty()) {
        std::vector<pollfd> polled;
        open.gate.add_descriptors(polled);
        REQUIRE(::poll(polled.data(), polled.size(), 20'000) > 0);
        visitors = open.gate.turn(end - kLeastSilence);
    }
    REQUIRE(visitors[0].link.peer() == 1);
}

TEST_CASE("no more callers may owe the proof of one Hello than have a place, and others do not lose theirs",
          "[gate]") {
    KeyedGate open;
    std::vector<std::unique_ptr<Caller>> callers;
    for (std::ptrdiff_t i = 0; i < kCallersOfOnePlace; ++i) {
        callers.push_back(std::make_unique<Caller>(open.endpoint));
        callers.back()->say(hello_of_rank_1());
        while (open.gate.proving().size() < callers.size()) REQUIRE(turn_when_ready(open.gate).empty());
    }
    const auto held = [&open] {
        std::vector<pollfd> polled;
        open.gate.add_descriptors(polled);
        return polled.size();
    };
    const std::size_t before = held();
    Caller further(open.endpoint);
    further.say(hello_of_rank_1());
    // The connection may have come before its words.
    do REQUIRE(turn_when_ready(open.gate).empty());
    while (held() > before);
    REQUIRE(further.is_closed());
    REQUIRE(open.gate.proving().size() == callers.size());
    Caller of_another_lane(open.endpoint);
    of_another_lane.say(encode(LinkHello{Channel::data, 0, 0, 1, 0, {}, 1, random_nonce()}));
    while (open.gate.proving().size() == callers.size()) REQUIRE(turn_when_ready(open.gate).empty());
    of_another_lane.hear_offer();
    for (const auto& caller : callers) caller->hear_offer();
}

TEST_CASE("a process of another user of this machine is closed at once, and root's is not", "[gate]") {
    OpenGate open;
    if (::geteuid() != 0) {
        WARN("skipped: only root can call as somebody else");
        return;
    }
    constexpr uid_t kStranger = 61'234;
    const LinkHello hello{Channel::data, 0, 0, 1, 0, {}};
    {
        // A socket is of whom its thread has this number of when it is made.
        ::setfsuid(kStranger);
        Caller stranger(open.endpoint);
        ::setfsuid(0);
        stranger.say(encode(hello));
        REQUIRE(turn_when_ready(open.gate).empty());
        REQUIRE_FALSE(open.gate.next_deadline().has_value());
        REQUIRE(stranger.is_closed());
    }
    TcpListener listener("127.0.0.1");
    const Endpoint endpoint = listener.endpoint();
    LinkAcceptor of_stranger(std::move(listener), welcome_rank_1, std::nullopt, kStranger);
    Caller root(endpoint);
    root.say(encode(hello));
    std::vector<LinkAcceptor::Accepted> visitors;
    while (visitors.empty()) visitors = turn_when_ready(of_stranger);
    REQUIRE(root.hear() == HelloAnswer::welcome);
}
