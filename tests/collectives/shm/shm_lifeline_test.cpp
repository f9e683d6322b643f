// The ring of robust futexes, with no connection between its ranks: this process has place 0, children of it
// the others.
#include "collectives/shm/shm_lifeline.hpp"

#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>

#include "tests/support/await_verdict.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun;

namespace {

Membership membership_of(int rank, int world_size) {
    Membership membership;
    membership.rank = rank;
    membership.nonce.fill(7);
    membership.members.resize(static_cast<std::size_t>(world_size), {{"127.0.0.1", 1}, "host"});
    return membership;
}

struct LiveRank {
    LiveRank(const ShmSegment& segment, int rank)
        : membership(membership_of(rank, segment.world_size())), ring(segment, rank, {}, lifeline) {}

    Membership membership;
    Lifeline lifeline{membership, TcpListener("127.0.0.1")};
    ShmLifeline ring;
};

// What a child process does when it is told to go on.
using Ending = std::function<void(std::unique_ptr<LiveRank>)>;

class Child {
  public:
    Child(const ShmSegment& segment, int rank, const Ending& ending, const std::function<void(int)>& before) {
        int go_on[2];
        int come[2];
        REQUIRE(::pipe(go_on) == 0);
        REQUIRE(::pipe(come) == 0);
        pid_ = ::fork();
        if (pid_ == 0) {
            before(rank);
            char byte = 0;
            auto live = std::make_unique<LiveRank>(segment, rank);
            if (::write(come[1], &byte, 1) != 1 || ::read(go_on[0], &byte, 1) != 1) ::_exit(1);
            ending(std::move(live));
            ::_exit(0);
        }
        char byte = 0;
        REQUIRE(::read(come[0], &byte, 1) == 1);
        go_on_ = go_on[1];
        for (const int fd : {go_on[0], come[0], come[1]}) ::close(fd);
    }
    ~Child() {
        ::close(go_on_);
        if (pid_ <= 0) return;
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    void go_on() { REQUIRE(::write(go_on_, "", 1) == 1); }
    void kill() { ::kill(pid_, SIGKILL); }
    void wait_for_end() {
        ::waitpid(pid_, nullptr, 0);
        pid_ = -1;
    }

  private:
    pid_t pid_ = -1;
    int go_on_ = -1;
};

// This process at place 0, a child for each ending at places 1, 2, ….
class Host {
  public:
    explicit Host(
        const std::vector<Ending>& endings, const std::function<void(int)>& before = [](int) {})
        : segment_(*ShmSegment::create(membership_of(0, static_cast<int>(endings.size()) + 1))) {
        // Before this process has threads, which a forked child would not have.
        for (std::size_t i = 0; i < endings.size(); ++i) {
            children_.push_back(
                std::make_unique<Child>(segment_, static_cast<int>(i) + 1, endings[i], before));
        }
        live_ = std::make_unique<LiveRank>(segment_, 0);
    }

    Child& child(int place) { return *children_[static_cast<std::size_t>(place) - 1]; }
    LiveRank& own() { return *live_; }
    const ShmSegment& segment() const { return segment_; }

    Verdict await_verdict() { return ddprun::await_verdict(live_->lifeline); }

  private:
    ShmSegment segment_;
    std::vector<std::unique_ptr<Child>> children_;
    std::unique_ptr<LiveRank> live_;
};

void stay(const std::unique_ptr<LiveRank>&) { ::pause(); }
void leave(std::unique_ptr<LiveRank> live) { live.reset(); }

void require_culprit(const Verdict& verdict, CollectiveErrorCode code, int culprit) {
    INFO(verdict.text);
    REQUIRE(verdict.code == code);
    REQUIRE(verdict.culprits == std::vector<int>{culprit});
}

// As in a sandbox: the two calls are refused.
void refuse_robust_lists(int = 0) {
    const auto refused = static_cast<std::uint32_t>(SECCOMP_RET_ERRNO | EPERM);
    sock_filter filter[] = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
        {BPF_JMP | BPF_JEQ | BPF_K, 1, 0, SYS_set_robust_list},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_get_robust_list},
        {BPF_RET | BPF_K, 0, 0, refused},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
    };
    const sock_fprog program{std::size(filter), filter};
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) ::_exit(2);
}

}  // namespace

TEST_CASE("the death of a right neighbour is seen without any connection to it", "[shm-lifeline]") {
    Host host({stay, stay});
    REQUIRE(host.own().ring.holds());
    REQUIRE_FALSE(host.own().lifeline.verdict());
    host.child(1).kill();
    require_culprit(host.await_verdict(), CollectiveErrorCode::peer_died, 1);
}

TEST_CASE("the death of another rank comes by word of its left neighbour", "[shm-lifeline]") {
    Host host({stay, stay, stay});
    host.child(3).kill();
    require_culprit(host.await_verdict(), CollectiveErrorCode::peer_died, 3);
}

TEST_CASE("an exit without a goodbye is told from a death", "[shm-lifeline]") {
    Host host({[](auto live) {
        live.release();
        std::exit(0);
    }});
    host.child(1).go_on();
    require_culprit(host.await_verdict(), CollectiveErrorCode::peer_left, 1);
}

TEST_CASE("who leaves in order is not dead, and those behind it are still seen", "[shm-lifeline]") {
    Host host({leave, leave, stay});
    for (const int place : {1, 2}) {
        host.child(place).go_on();
        host.child(place).wait_for_end();
        REQUIRE_FALSE(host.own().lifeline.verdict());
    }
    host.child(3).kill();
    require_culprit(host.await_verdict(), CollectiveErrorCode::peer_died, 3);
}

TEST_CASE("all may leave, and the last one too", "[shm-lifeline]") {
    Host host({leave, leave});
    for (const int place : {1, 2}) {
        host.child(place).go_on();
        host.child(place).wait_for_end();
    }
    REQUIRE_FALSE(host.own().lifeline.verdict());
}

TEST_CASE("who gives up because of another and ends is not the culprit", "[shm-lifeline]") {
    const Verdict verdict{CollectiveErrorCode::mismatch, {2, 3}, "the ranks disagree"};
    for (int round = 0; round < 20; ++round) {
        Host host({[&](auto live) {
            live->lifeline.declare(verdict);
            ::_exit(0);
        }});
        host.child(1).go_on();
        REQUIRE(host.await_verdict() == verdict);
    }
}

TEST_CASE("a verdict that was there before is told to the host, too", "[shm-lifeline]") {
    const Verdict verdict{CollectiveErrorCode::aborted, {0}, "rank 0 aborted: enough"};
    const auto segment = ShmSegment::create(membership_of(0, 2));
    LiveRank early(*segment, 0);
    early.lifeline.declare(verdict);
    LiveRank late(*segment, 1);
    REQUIRE(await_verdict(late.lifeline) == verdict);
}

TEST_CASE("a rank without robust futexes is passed over", "[shm-lifeline]") {
    {
        // Its end is left to TCP, which this test does not have.
        Host host({stay}, refuse_robust_lists);
        host.child(1).kill();
        host.child(1).wait_for_end();
        REQUIRE_FALSE(host.own().lifeline.verdict());
    }
    // Those beyond it are seen by its left neighbour.
    Host host({stay, stay}, [](int place) {
        if (place == 1) refuse_robust_lists();
    });
    host.child(2).kill();
    require_culprit(host.await_verdict(), CollectiveErrorCode::peer_died, 2);
}

TEST_CASE("nobody sleeps on a word that another sleeps on", "[shm-lifeline]") {
    // One could set the bit again that a wake has just taken away, and the other sleep through the wake.
    Host host({stay}, refuse_robust_lists);
    const auto sleepers = [&](int place) {
        auto& word = host.segment().life(place).word;
        return ::syscall(SYS_futex, &word, FUTEX_CMP_REQUEUE, 0, 10L, &word, word.load());
    };
    // No event tells that a thread has fallen asleep.
    const auto guard = std::chrono::steady_clock::now() + std::chrono::milliseconds(kGuardMilliseconds);
    while (std::max(sleepers(0), 0L) + std::max(sleepers(1), 0L) < 2) {
        REQUIRE(std::chrono::steady_clock::now() < guard);
        std::this_thread::yield();
    }
    REQUIRE(sleepers(0) == 1);
    REQUIRE(sleepers(1) == 1);
}
