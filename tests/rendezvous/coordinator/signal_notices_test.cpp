// A signal that all agents are sent: the workers get it once, and each signal of one agent counts.
#include "rendezvous/coordinator/round.hpp"

#include <csignal>

#include "tests/support/catch.hpp"
#include "tests/support/coordinator_fixture.hpp"

namespace ddprun {

using namespace std::chrono_literals;
namespace {

struct Notice {
    std::uint64_t from;
    std::chrono::milliseconds after;
    bool is_news;
};

struct NoticeCase {
    const char* what;
    std::vector<Notice> notices;
};

constexpr auto kWindow = std::chrono::milliseconds(SignalNotices::kSameSignal);

}  // namespace

TEST_CASE("signal notices: what several agents are sent at once is one signal") {
    const std::vector<NoticeCase> cases = {
        {"of a scheduler, to all", {{1, 0ms, true}, {2, 1ms, false}, {3, kWindow, false}}},
        {"to one agent, again and again", {{1, 0ms, true}, {1, 1ms, true}, {1, 2ms, true}}},
        {"to all, twice", {{1, 0ms, true}, {2, 0ms, false}, {2, 9ms, true}, {1, 9ms, false}}},
        {"to all, twice, and the first agent hears of both before the others do",
         {{1, 0ms, true},
          {1, 1ms, true},
          {2, 2ms, false},
          {2, 3ms, false},
          {3, 4ms, false},
          {3, 4ms, false}}},
        {"to one agent and later to another one", {{1, 0ms, true}, {2, kWindow + 1ms, true}}},
        {"the time counts from the last one that was new",
         {{1, 0ms, true}, {1, kWindow, true}, {2, 2 * kWindow, false}, {2, 2 * kWindow, false}}},
    };
    for (const NoticeCase& one : cases) {
        SignalNotices notices;
        const TimePoint start = kStart + 1h;
        for (std::size_t i = 0; i < one.notices.size(); ++i) {
            INFO(one.what << ", notice " << i);
            const Notice& notice = one.notices[i];
            CHECK(notices.is_news(notice.from, SIGUSR1, start + notice.after) == notice.is_news);
        }
    }
}

TEST_CASE("signal notices: other signals, and those of other rounds, are others") {
    SignalNotices notices;
    CHECK(notices.is_news(1, SIGUSR1, kStart + 1h));
    CHECK(notices.is_news(2, SIGUSR2, kStart + 1h));
    CHECK_FALSE(notices.is_news(2, SIGUSR1, kStart + 1h));
    notices.round_begins();
    CHECK(notices.is_news(2, SIGUSR1, kStart + 1h));
}

TEST_CASE("coordinator: a signal that every agent was sent reaches each agent once") {
    Coordinator coordinator = make(3);
    join_all(coordinator, {1, 1, 1});
    const auto told = [&coordinator](std::uint64_t from, bool requeue) {
        return of_type<NoticeSignal>(
                   coordinator.receive(from, NoticeSignal{0, SIGUSR1, requeue}, kStart + 1h))
            .size();
    };
    CHECK(told(2, false) == 3);
    CHECK(told(1, false) == 0);
    // That one wants to be queued again counts all the same.
    CHECK(told(3, true) == 0);
    for (std::uint64_t connection = 1; connection <= 3; ++connection)
        coordinator.receive(connection, gone(0, true), kStart + 1h);
}

}  // namespace ddprun
