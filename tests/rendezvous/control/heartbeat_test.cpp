#include "rendezvous/control/heartbeat.hpp"

#include <random>

#include "tests/support/catch.hpp"
#include "tests/support/coordinator_fixture.hpp"
#include "tests/support/sanitized.hpp"

namespace ddprun {

using namespace std::chrono_literals;
namespace {

constexpr HeartbeatTerms kBeats{6s};  // a question every 2 s, patience of 8 s, a margin of 600 ms

}  // namespace

TEST_CASE("an agent that answers is asked each third of the limit, and never lost") {
    HeartbeatWatch watch(kBeats);
    CHECK_FALSE(watch.next_deadline());
    watch.add(7, kStart);
    for (std::uint64_t number = 1; number < 50; ++number) {
        const TimePoint now = watch.next_deadline().value();
        CHECK(now == kStart + number * 2s);
        const auto turn = watch.tick(now);
        REQUIRE(turn.questions.size() == 1);
        CHECK(turn.lost.empty());
        CHECK(turn.questions[0] == std::pair<std::uint64_t, Heartbeat>{7, {number, number - 1}});
        watch.seen(7, true, now + 1ms);
        CHECK_FALSE(watch.answered(7, {.number = number}));
    }
    watch.remove(7);
    CHECK_FALSE(watch.next_deadline());
}

TEST_CASE("the system notices a loss after the heartbeats do, and before another coordinator goes on") {
    CHECK(kBeats.connection_silence() > kBeats.patience());
    CHECK(kBeats.connection_silence() <= kBeats.all_have_noticed());
    CHECK(HeartbeatTerms{}.connection_silence() == HeartbeatTerms::kSilenceWithout);
}

TEST_CASE("without a limit nobody is watched") {
    HeartbeatWatch watch({});
    watch.add(7, kStart);
    CHECK_FALSE(watch.next_deadline());
    CHECK(watch.tick(kStart + 1h).lost.empty());
}

TEST_CASE(
    "who does not answer is lost when the answer is overdue by the limit, to the moment, and nobody else "
    "is") {
    HeartbeatWatch watch(kBeats);
    watch.add(1, kStart);
    watch.add(2, kStart + 500ms);
    std::vector<std::pair<TimePoint, std::uint64_t>> lost;
    TimePoint now = kStart;
    while (now < kStart + 30s && watch.next_deadline()) {
        REQUIRE(*watch.next_deadline() > now);
        now = *watch.next_deadline();
        for (const auto agent : watch.tick(now).lost) lost.emplace_back(now, agent);
        if (now < kStart + 5s) watch.seen(1, true, now);  // until then
        watch.seen(3, true, now);                         // nobody knows it
    }
    CHECK(lost == std::vector<std::pair<TimePoint, std::uint64_t>>{{kStart + 8500ms, 2}, {kStart + 12s, 1}});
}

TEST_CASE("a coordinator that stood still gives everybody the whole limit again") {
    HeartbeatWatch watch(kBeats);
    watch.add(1, kStart);
    watch.look(kStart + 1h);
    const auto turn = watch.tick(kStart + 1h);
    CHECK(turn.lost.empty());
    CHECK(turn.questions.size() == 1);
    TimePoint now = kStart + 1h;
    while (watch.tick(now).lost.empty()) now = watch.next_deadline().value();
    CHECK(now == kStart + 1h + 6s);
}

TEST_CASE(
    "a coordinator that stood still confirms nothing, and its own lease stays, until it knows that it was "
    "not left") {
    HeartbeatWatch watch(kBeats);
    watch.add(1, kStart);
    watch.add(2, kStart);
    watch.excuse(2, TimePoint::max());
    watch.tick(kStart + 2s);
    CHECK(watch.lease_end() == kStart + 10s);
    watch.look(kStart + 4500ms);
    CHECK_FALSE(watch.is_in_doubt());
    const TimePoint now = kStart + 20s;
    watch.look(now);
    CHECK(watch.is_in_doubt());
    CHECK(watch.next_deadline() == now);
    // What was said before is no word of who goes on now.
    CHECK_FALSE(watch.answered(1, {.number = 1}));
    CHECK_FALSE(watch.is_bound(1, now));
    const auto turn = watch.tick(now);
    CHECK(turn.lost.empty());
    CHECK(turn.questions == std::vector<std::pair<std::uint64_t, Heartbeat>>{{1, {2, 0}}, {2, {2, 0}}});
    watch.seen(1, true, now);
    CHECK_FALSE(watch.answered(1, {.number = 2}));
    CHECK(watch.answers() == 1);
    CHECK(watch.is_bound(1, now));
    CHECK(watch.lease_end() == kStart + 10s);
    CHECK(watch.settle(now + 1ms) == std::vector<std::pair<std::uint64_t, Heartbeat>>{{1, {3, 2}}});
    CHECK_FALSE(watch.is_in_doubt());
    CHECK(watch.lease_end() == now + 1ms + 8s);
    // Who answers later hears it at once.
    CHECK(watch.answered(2, {.number = 2}) == Heartbeat{3, 2});
}

TEST_CASE("an agent that stood still asks for the limit, and goes on by an answer that it has given since") {
    HeartbeatLease lease(kBeats, kStart);
    lease.look(kStart + 2s);
    CHECK(lease.answer({1, 0}, kStart + 2s) == Heartbeat{1, 0});
    CHECK(lease.next_look() == kStart + 4s);
    lease.look(kStart + 4500ms);
    CHECK_FALSE(lease.stood());
    const TimePoint now = kStart + 20s;
    lease.look(now);
    CHECK(lease.stood() == 15'500ms);
    CHECK(lease.is_in_doubt(now));
    CHECK_FALSE(lease.is_over(now));
    // The other machine takes what it is sent also of one that was given up.
    lease.all_arrived();
    CHECK(lease.is_in_doubt(now));
    // A question from before confirms an answer from before.
    lease.answer({2, 1}, now);
    CHECK(lease.is_in_doubt(now));
    CHECK_FALSE(lease.is_over(now + 5999ms));
    SECTION("it has no answer") { CHECK(lease.is_over(now + 6s)); }
    SECTION("it stands still again") {
        lease.look(now + 20s);
        CHECK_FALSE(lease.is_over(now + 25s));
        CHECK(lease.is_over(now + 26s));
    }
    SECTION("it has one") {
        lease.look(now + 1s);
        lease.answer({3, 2}, now + 1s);
        CHECK_FALSE(lease.stood());
        CHECK_FALSE(lease.is_in_doubt(now + 1s));
        CHECK(lease.end() == now + 7400ms);
        CHECK(lease.workers_end() == LeaseEnd(now + 8s, 6s));
    }
}

TEST_CASE("an answer that comes late is confirmed at once; one that nobody asked for is not") {
    HeartbeatWatch watch(kBeats);
    watch.add(1, kStart);
    watch.tick(kStart + 2s);
    watch.tick(kStart + 4s);
    CHECK_FALSE(watch.answered(1, {.number = 3}));
    CHECK_FALSE(watch.answered(9, {.number = 1}));
    CHECK(watch.answered(1, {.number = 1}) == Heartbeat{2, 1});
    CHECK_FALSE(watch.answered(1, {.number = 1}));
    CHECK_FALSE(watch.answered(1, {.number = 2}));
}

TEST_CASE(
    "an agent that is excused is neither asked nor lost until it is seen again, and then has its whole "
    "time") {
    HeartbeatWatch watch(kBeats);
    watch.add(1, kStart);
    watch.add(2, kStart);
    watch.excuse(1, TimePoint::max());
    watch.excuse(9, TimePoint::max());
    TimePoint now = kStart;
    while (now < kStart + 1h) {
        now = watch.next_deadline().value();
        watch.seen(2, true, now);
        const auto turn = watch.tick(now);
        CHECK(turn.lost.empty());
        for (const auto& [agent, question] : turn.questions) CHECK(agent == 2);
    }
    // It waits for a question.
    const auto question = watch.seen(1, true, now);
    REQUIRE(question.has_value());
    CHECK(question->heard == 0);
    CHECK(question->number > 1000);
    CHECK_FALSE(watch.seen(1, true, now));
    TimePoint lost = now;
    for (bool is_lost = false; !is_lost;) {
        lost = watch.next_deadline().value();
        watch.seen(2, true, lost);
        is_lost = !watch.tick(lost).lost.empty();
    }
    CHECK(lost == now + kBeats.patience());
}

TEST_CASE("a clock that jumps ahead takes nobody's time") {
    HeartbeatWatch watch(kBeats);
    watch.add(1, kStart);
    TimePoint now = kStart + 2s;
    watch.tick(now);
    now = watch.next_deadline().value() + 1500ms;
    watch.look(now);
    while (watch.tick(now).lost.empty()) now = watch.next_deadline().value();
    CHECK(now == kStart + kBeats.patience() + 1500ms);
}

TEST_CASE("an agent that has started its workers knows no more than before, unless that took long") {
    HeartbeatLease lease(kBeats, kStart);
    lease.suspend();
    lease.started(kStart + 3s);
    CHECK_FALSE(lease.is_suspended());
    CHECK(lease.end() == kStart + kBeats.patience() - kBeats.margin());
    lease.suspend();
    lease.started(kStart + 60s);
    CHECK(lease.end() == kStart + 60s + kBeats.patience() - kBeats.margin());
}

TEST_CASE("an excuse has an end") {
    HeartbeatWatch watch(kBeats);
    watch.add(1, kStart);
    watch.excuse(1, kStart + 90s);
    TimePoint now = kStart;
    while (watch.tick(now).lost.empty()) now = watch.next_deadline().value();
    CHECK(now == kStart + 90s + kBeats.patience());
}

TEST_CASE("an agent whose time was suspended counts from the next question on") {
    HeartbeatLease lease(kBeats, kStart);
    lease.answer({1, 0}, kStart + 2s);
    lease.suspend();
    CHECK(lease.is_suspended());
    lease.answer({2, 0}, kStart + 1h);
    CHECK_FALSE(lease.is_suspended());
    CHECK(lease.end() == kStart + 1h + kBeats.limit - kBeats.margin());
    // Of its own sign it knows when it gave it; what it said before counts no more.
    lease.suspend();
    lease.resume(kStart + 2h);
    CHECK_FALSE(lease.is_suspended());
    CHECK(lease.end() == kStart + 2h + kBeats.patience() - kBeats.margin());
    lease.all_arrived();
    CHECK(lease.end() == kStart + 2h + kBeats.patience() - kBeats.margin());
}

TEST_CASE("what was never answered is not taken for heard") {
    HeartbeatLease lease(kBeats, kStart);
    lease.answer({0, 0}, kStart + 2s);
    lease.answer({1, 0}, kStart + 2s);
    CHECK(lease.end() == kStart + 7400ms);
    HeartbeatWatch watch(kBeats);
    watch.add(1, kStart);
    watch.tick(kStart + 2s);
    watch.add(2, kStart + 3s);
    watch.excuse(2, TimePoint::max());
    CHECK(watch.seen(2, true, kStart + 3s) == Heartbeat{1, 0});
    CHECK(watch.tick(kStart + 4s).questions.back() == std::pair<std::uint64_t, Heartbeat>{2, {2, 0}});
}

TEST_CASE("an agent's time runs from the last answer that was heard, not from the last question") {
    HeartbeatLease lease(kBeats, kStart);
    CHECK(lease.end() == kStart + 7400ms);
    CHECK(lease.answer({1, 0}, kStart + 2s) == Heartbeat{1, 0});
    CHECK(lease.end() == kStart + 7400ms);
    lease.answer({2, 1}, kStart + 4s);
    CHECK(lease.end() == kStart + 9400ms);
    // Questions come, but no answer of this agent arrives there any more.
    for (std::uint64_t number = 3; number < 100; ++number) lease.answer({number, 1}, kStart + number * 2s);
    CHECK(lease.end() == kStart + 9400ms);
    lease.all_arrived();
    CHECK(lease.end() == kStart + 99 * 2s + 7400ms);
    // The first of two answers to one question is the one that was heard.
    HeartbeatLease asked_twice(kBeats, kStart);
    asked_twice.answer({1, 0}, kStart + 2s);
    asked_twice.answer({1, 0}, kStart + 4s);
    asked_twice.answer({2, 1}, kStart + 5s);
    CHECK(asked_twice.end() == kStart + 9400ms);
}

// Two sides with clocks of their own, messages that take their time in each direction, in order, and a
// network that is cut, or only slow, or cut in one direction.
TEST_CASE(
    "whatever the network does, an agent gives up before it is given up, and nobody does in a short cut") {
    for (unsigned seed = 1; seed <= seed_count(500); ++seed) {
        INFO("seed " << seed);
        std::mt19937 random(seed);
        const auto pick = [&](int low, int high) {
            return std::uniform_int_distribution<int>(low, high)(random);
        };
        const bool short_cut = seed % 2 == 0;
        const auto cut = kStart + std::chrono::milliseconds(pick(0, 30'000));
        // A retransmission may take another while; the limit is 6 s.
        const auto healed = short_cut ? cut + std::chrono::milliseconds(pick(0, 4200)) : TimePoint::max();
        const bool there = pick(0, 2) != 0, back = !there || pick(0, 1) == 0;  // what is cut
        TimePoint last_there = kStart, last_back = kStart;
        const auto arrival = [&](TimePoint sent, bool is_cut, TimePoint& last) {
            if (is_cut && sent >= cut && healed == TimePoint::max()) return TimePoint::max();
            const TimePoint leaves = is_cut && sent >= cut && sent < healed ? healed : sent;
            return last = std::max(last, leaves + std::chrono::milliseconds(pick(0, 40)));
        };
        struct Message {
            TimePoint at;
            bool is_question;
            Heartbeat heartbeat;
        };
        std::deque<Message> under_way;
        TimePoint acknowledged = kStart;  // when the system knows that the last answer has arrived
        HeartbeatWatch watch(kBeats);
        HeartbeatLease lease(kBeats, kStart);
        watch.add(1, arrival(kStart, false, last_back));
        std::optional<TimePoint> gave_up, given_up;
        const auto ask = [&](TimePoint now, const Heartbeat& question) {
            under_way.push_back({arrival(now, there, last_there), true, question});
        };
        const auto end = cut + 20s;
        for (TimePoint now = kStart; now < end && !given_up; now += 1ms) {
            if (watch.next_deadline() && now >= *watch.next_deadline()) {
                const auto turn = watch.tick(now);
                if (!turn.lost.empty()) given_up = now;
                for (const auto& [agent, question] : turn.questions) ask(now, question);
            }
            for (std::size_t i = 0; i < under_way.size(); ++i) {
                const Message message = under_way[i];
                if (message.at != now) continue;
                if (message.is_question && !gave_up) {
                    under_way.push_back(
                        {arrival(now, back, last_back), false, lease.answer(message.heartbeat, now)});
                    TimePoint unordered = kStart;
                    const TimePoint arrived = under_way.back().at;
                    acknowledged = arrived == TimePoint::max() ? arrived : arrival(arrived, there, unordered);
                } else if (!message.is_question) {
                    watch.seen(1, true, now);
                    if (const auto question = watch.answered(1, message.heartbeat)) ask(now, *question);
                }
            }
            if (!gave_up && now >= lease.end() && now >= acknowledged) lease.all_arrived();
            if (!gave_up && now >= lease.end()) gave_up = now;
        }
        CHECK(gave_up.has_value() == !short_cut);
        CHECK(given_up.has_value() == !short_cut);
        if (gave_up && given_up) CHECK(*gave_up + kBeats.margin() <= *given_up);
        if (gave_up) CHECK(*gave_up <= cut + kBeats.patience());
    }
}

}  // namespace ddprun
