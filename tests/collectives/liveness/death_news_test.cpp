// One process and the table of its agent, which this test plays; what a lifeline makes of the lives that are
// lost.
#include "collectives/liveness/death_news.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <mutex>

#include "collectives/liveness/end_observer.hpp"
#include "collectives/liveness/lifeline.hpp"
#include "collectives/session/place.hpp"
#include "tests/support/await_verdict.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun;

namespace {

constexpr int kSlot = 5;

struct Heard : DeathNews::Listener {
    void life_lost(std::uint64_t life) override {
        const std::lock_guard lock(mutex);
        lives.push_back(life);
        changed.notify_all();
    }
    std::vector<std::uint64_t> await(std::size_t count) {
        std::unique_lock lock(mutex);
        REQUIRE(changed.wait_for(lock, std::chrono::milliseconds(kGuardMilliseconds),
                                 [&] { return lives.size() >= count; }));
        return lives;
    }

    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::uint64_t> lives;
};

using Lives = std::vector<std::uint64_t>;

// A process that has the word of a slot, and then comes to its end.
class Holder {
  public:
    Holder(const LifeSlot& place, const std::function<void(std::shared_ptr<DeathNews>)>& end) {
        std::array<int, 2> told{};
        REQUIRE(::pipe2(told.data(), O_CLOEXEC) == 0);
        pid_ = ::fork();
        if (pid_ == 0) {
            auto word = DeathNews::open(place);
            const std::uint64_t own = word ? word->life() : 0;
            if (::write(told[1], &own, sizeof(own)) != sizeof(own)) ::_exit(1);
            end(std::move(word));
            ::_exit(0);
        }
        ::close(told[1]);
        REQUIRE(::read(told[0], &life, sizeof(life)) == sizeof(life));
        ::close(told[0]);
    }
    ~Holder() { kill(); }
    Holder(const Holder&) = delete;
    Holder& operator=(const Holder&) = delete;

    void kill() {
        if (pid_ > 0) ::kill(pid_, SIGKILL);
        wait_for_end();
    }
    void wait_for_end() {
        if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
        pid_ = -1;
    }

    std::uint64_t life = 0;

  private:
    pid_t pid_ = -1;
};

void stay(const std::shared_ptr<DeathNews>&) { ::pause(); }

// Rank 1 of 4, whose members have the lives 100, 101, ….
struct LiveRank {
    explicit LiveRank(std::shared_ptr<DeathNews> word = nullptr)
        : membership{1, 0, 0, Nonce{7}, members(listener.endpoint())},
          lifeline(membership, std::move(listener), {.death_news = std::move(word)}) {}

    static std::vector<Member> members(const Endpoint& endpoint) {
        std::vector<Member> all(4, {endpoint, "host"});
        for (std::size_t rank = 0; rank < all.size(); ++rank) all[rank].life = 100 + rank;
        return all;
    }

    TcpListener listener{"127.0.0.1"};
    Membership membership;
    Lifeline lifeline;
};

void require_death(const Verdict& verdict, int rank) {
    REQUIRE(verdict == death_verdict(rank, kProcessEnded));
}

// Rank 0 of a LiveRank's communicator, as a connection.
TcpLink left_neighbour_of(LiveRank& rank) {
    TcpLink link(1, begin_connect(rank.membership.member(1).endpoint));
    pollfd polled{link.descriptor(), POLLOUT, 0};
    REQUIRE(::poll(&polled, 1, kGuardMilliseconds) == 1);
    auto hello = encode(LinkHello{Channel::lifeline, 0, 0, 0, 1, rank.membership.nonce, 0});
    iovec part{hello.data(), hello.size()};
    REQUIRE(link.write_some({&part, 1}) == hello.size());
    while (!rank.lifeline.has_left_neighbour()) {
        pollfd news{rank.lifeline.news_descriptor(), POLLIN, 0};
        REQUIRE(::poll(&news, 1, kGuardMilliseconds) == 1);
    }
    return link;
}

void say(TcpLink& link, const Notice& notice) {
    std::string bytes = encode(notice);
    iovec part{bytes.data(), bytes.size()};
    REQUIRE(link.write_some({&part, 1}) == bytes.size());
}

}  // namespace

TEST_CASE("DDPRUN_LIFE that makes no sense, or names nothing, is as none", "[word]") {
    REQUIRE_FALSE(read_life_slot({}));
    for (const char* wrong : {"", "nonsense", "1:2", "1:2:256", "1:2:3 "})
        REQUIRE_FALSE(read_life_slot({{"DDPRUN_LIFE", wrong}}));
    const auto place = read_life_slot({{"DDPRUN_LIFE", std::to_string(::getpid()) + ":0:3"}});
    REQUIRE(place);
    REQUIRE(DeathNews::open(*place) == nullptr);
}

TEST_CASE("listeners hear of what is lost from the making of the word on, also those who come late",
          "[word]") {
    auto table = LifeTable::create();
    REQUIRE(table);
    table->announce(11);
    const auto word = DeathNews::open(table->slot(kSlot));
    REQUIRE(word);
    REQUIRE(word->life() != 0);
    Heard early;
    Heard late;
    word->add(early);
    table->announce(22);
    table->announce(33);
    REQUIRE(early.await(2) == Lives{22, 33});
    word->add(late);
    REQUIRE(late.await(2) == Lives{22, 33});
    word->remove(early);
    table->announce(44);
    REQUIRE(late.await(3) == Lives{22, 33, 44});
    REQUIRE(early.await(2) == Lives{22, 33});
    word->remove(late);
}

TEST_CASE("the agent learns of a killed process's life, not of one that left or withdrew", "[word]") {
    auto table = LifeTable::create();
    REQUIRE(table);
    Holder killed(table->slot(1), stay);
    Holder left(table->slot(2), [](auto word) { word.reset(); });
    Holder gone(table->slot(3), [](auto word) {
        word->withdraw();
        ::raise(SIGKILL);
    });
    Holder exited(table->slot(4), [](auto) { ::_exit(0); });
    for (Holder* one : {&killed, &left, &gone, &exited}) REQUIRE(one->life != 0);
    REQUIRE_FALSE(table->take_death(1));
    killed.kill();
    REQUIRE(table->take_death(1) == killed.life);
    for (Holder* one : {&left, &gone, &exited}) one->wait_for_end();
    REQUIRE_FALSE(table->take_death(2));
    REQUIRE_FALSE(table->take_death(3));
    REQUIRE(table->take_death(4) == exited.life);
}

TEST_CASE("a slot that is taken still brings news", "[word]") {
    auto table = LifeTable::create();
    REQUIRE(table);
    const auto first = DeathNews::open(table->slot(kSlot));
    const auto second = DeathNews::open(table->slot(kSlot));
    REQUIRE(first->life() != 0);
    REQUIRE(second->life() == 0);
    Heard heard;
    second->add(heard);
    table->announce(7);
    REQUIRE(heard.await(1) == Lives{7});
    second->remove(heard);
}

TEST_CASE("who goes after it has withdrawn leaves the slot to who has taken it since", "[word]") {
    auto table = LifeTable::create();
    REQUIRE(table);
    const LifeSlot place = table->slot(kSlot);
    std::array<int, 2> told{};
    REQUIRE(::pipe2(told.data(), O_CLOEXEC) == 0);
    Holder first(place, [&](auto word) {
        word->withdraw();
        const auto next = DeathNews::open(place);
        const std::uint64_t life = next->life();
        word.reset();
        if (::write(told[1], &life, sizeof(life)) == sizeof(life)) ::raise(SIGKILL);
    });
    first.wait_for_end();
    ::close(told[1]);
    std::uint64_t next = 0;
    REQUIRE(::read(told[0], &next, sizeof(next)) == sizeof(next));
    ::close(told[0]);
    REQUIRE(next != 0);
    REQUIRE(next != first.life);
    REQUIRE(table->take_death(kSlot) == next);
}

TEST_CASE("a forked child changes nothing for its parent, however it ends", "[word]") {
    auto table = LifeTable::create();
    REQUIRE(table);
    const bool in_order = GENERATE(false, true);
    Holder parent(table->slot(kSlot), [in_order](auto word) {
        const pid_t child = ::fork();
        if (child == 0) {
            if (in_order) word.reset();
            ::_exit(0);
        }
        ::waitpid(child, nullptr, 0);
        ::raise(SIGKILL);
    });
    parent.wait_for_end();
    REQUIRE(table->take_death(kSlot) == parent.life);
    REQUIRE_FALSE(table->take_death(kSlot));
}

TEST_CASE("the word alone makes a rank dead, whether its neighbour or not", "[word]") {
    for (const int victim : {0, 3}) {
        auto table = LifeTable::create();
        REQUIRE(table);
        const auto word = DeathNews::open(table->slot(kSlot));
        LiveRank rank(word);
        const TcpLink left = left_neighbour_of(rank);
        // Nobody's here, and this rank's own.
        table->announce(99);
        table->announce(0);
        table->announce(101);
        REQUIRE(word->life() != 0);
        table->announce(100 + static_cast<std::uint64_t>(victim));
        require_death(await_verdict(rank.lifeline), victim);
    }
}

TEST_CASE("who was lost between the making of the word and of the lifeline is found, who before is not",
          "[word]") {
    auto table = LifeTable::create();
    REQUIRE(table);
    table->announce(103);
    const auto word = DeathNews::open(table->slot(kSlot));
    table->announce(102);
    LiveRank rank(word);
    require_death(await_verdict(rank.lifeline), 2);
}

TEST_CASE("what had arrived by a connection counts before the word", "[word]") {
    const Verdict verdict{CollectiveErrorCode::timed_out, {2}, "rank 2 has not come"};
    auto table = LifeTable::create();
    REQUIRE(table);
    for (int repeat = 0; repeat < 20; ++repeat) {
        const auto word = DeathNews::open(table->slot(kSlot));
        LiveRank rank(word);
        TcpLink left = left_neighbour_of(rank);
        say(left, verdict);
        table->announce(103);
        REQUIRE(await_verdict(rank.lifeline) == verdict);
    }
    const auto word = DeathNews::open(table->slot(kSlot));
    LiveRank rank(word);
    TcpLink left = left_neighbour_of(rank);
    say(left, LeftNotice{3, 0});
    table->announce(103);
    table->announce(102);
    require_death(await_verdict(rank.lifeline), 2);
}

TEST_CASE("a witness knows better than the agent", "[word]") {
    struct Knowing : EndObserver {
        void ended(const Verdict&) override {}
        std::optional<Verdict> cause_of_loss(int peer) const override {
            return Verdict{CollectiveErrorCode::peer_left, {peer}, "it left"};
        }
    };
    auto table = LifeTable::create();
    REQUIRE(table);
    const auto word = DeathNews::open(table->slot(kSlot));
    Knowing observer;
    LiveRank rank(word);
    rank.lifeline.set_observer(&observer);
    table->announce(103);
    REQUIRE(await_verdict(rank.lifeline).code == CollectiveErrorCode::peer_left);
    rank.lifeline.set_observer(nullptr);
}

TEST_CASE("a rank whose communicator has ended is not reported any more", "[word]") {
    auto table = LifeTable::create();
    REQUIRE(table);
    Holder gone(table->slot(kSlot), [](auto word) {
        LiveRank rank(word);
        rank.lifeline.declare({CollectiveErrorCode::aborted, {1}, "enough"});
        ::raise(SIGKILL);
    });
    REQUIRE(gone.life != 0);
    gone.wait_for_end();
    REQUIRE_FALSE(table->take_death(kSlot));
}
