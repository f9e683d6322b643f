// When a round waits until it is recorded, and what follows if it never is.
#include "tests/support/catch.hpp"
#include "tests/support/coordinator_fixture.hpp"

namespace ddprun {

using namespace std::chrono_literals;
namespace {

constexpr std::chrono::milliseconds kRecordingBeat{600};

CoordinatorOptions recording_options() {
    CoordinatorOptions options{.version = "1", .nnodes = 2};
    options.job_id = "job";
    options.elasticity.min_nodes = 1;
    options.heartbeat = kRecordingBeat;
    options.join_timeout = 60s;
    options.failover = true;
    options.records_rounds = true;
    return options;
}

Hello recording_hello(int rank) {
    Hello one = hello(rank, 2);
    one.min_nodes = 1;
    one.host = "gpu" + std::to_string(rank);
    one.pid = 100 + rank;
    return one;
}

// Two nodes run, the host on connection 1, and time goes on as the test says.
struct RecordedJob {
    RecordedJob() : coordinator(with_host(), kStart) {
        coordinator.receive(1, recording_hello(0), now);
        out = coordinator.receive(2, recording_hello(1), now);
    }
    static CoordinatorOptions with_host() {
        CoordinatorOptions options = recording_options();
        options.own_agent = recording_hello(0);
        return options;
    }
    // Whoever ends its round says so.
    void host_stops() { add(coordinator.receive(1, gone(coordinator.round(), false), now)); }
    void pass(std::chrono::milliseconds time) {
        const auto end = now + time;
        for (auto next = coordinator.next_deadline(); next && *next <= end;
             next = coordinator.next_deadline()) {
            now = std::max(now, *next);
            add(coordinator.tick(now));
        }
        now = end;
    }
    void tell(RecordNews::Kind kind, const RoundRecord& record) {
        add(coordinator.learn({kind, record, "told so"}, now));
    }
    void add(const Coordinator::Outbox& more) { out.insert(out.end(), more.begin(), more.end()); }
    std::size_t rounds() const { return of_type<RoundReady>(out).size(); }

    Coordinator::TimePoint now = kStart;
    Coordinator coordinator;
    Coordinator::Outbox out;
};

}  // namespace

TEST_CASE("recording: the first round does not wait for it, and its end leaves nothing") {
    RecordedJob job;
    CHECK(job.rounds() == 2);
    REQUIRE(job.coordinator.wish());
    CHECK(job.coordinator.wish()->record == RoundRecord{"job", 0, 0, "gpu0", 100});
    CHECK(job.coordinator.wish()->renew_until == kStart + kRecordingBeat);
    for (const std::uint64_t node : {1, 2}) job.coordinator.receive(node, WorkersSucceeded{0}, kStart);
    CHECK_FALSE(job.coordinator.wish());
}

TEST_CASE("recording: with a dead node left out the next round begins at once") {
    RecordedJob job;
    job.add(job.coordinator.closed(2, job.now));
    job.host_stops();
    job.pass(3s);
    CHECK(job.rounds() == 3);
    CHECK(job.coordinator.wish()->record.round == 1);
    CHECK(job.coordinator.wish()->renew_until);
}

TEST_CASE("recording: without a node that may live the next round waits for the record") {
    RecordedJob job;
    const RoundRecord first = job.coordinator.wish()->record;
    job.tell(RecordNews::Kind::recorded, first);
    job.add(job.coordinator.closed(2, job.now, false));
    job.host_stops();
    job.pass(20s);
    REQUIRE(job.coordinator.wish());
    const RecordWish wish = *job.coordinator.wish();
    CHECK(wish.record.round == 1);
    CHECK_FALSE(wish.renew_until);
    CHECK(job.rounds() == 2);
    SECTION("which comes") {
        job.tell(RecordNews::Kind::recorded, first);
        CHECK(job.rounds() == 2);
        job.tell(RecordNews::Kind::recorded, wish.record);
        CHECK(job.rounds() == 3);
    }
    SECTION("which somebody else has") {
        job.tell(RecordNews::Kind::refused, wish.record);
        const auto finishes = of_type<Finish>(job.out);
        REQUIRE(finishes.size() == 1);
        CHECK(finishes[0].exit_code == kExitUnavailable);
        CHECK(finishes[0].message == "told so");
        CHECK(job.rounds() == 2);
    }
    SECTION("which nobody writes before the join timeout") {
        job.tell(RecordNews::Kind::trouble, wish.record);
        job.pass(61s);
        const auto finishes = of_type<Finish>(job.out);
        REQUIRE(finishes.size() == 1);
        CHECK(finishes[0].exit_code == kExitUnavailable);
        CHECK(finishes[0].message.ends_with("whether another node leads the job: told so"));
        CHECK(job.rounds() == 2);
    }
}

TEST_CASE("recording: a round ends when a node is lost that is done with it, and may live") {
    for (const bool is_dead : {true, false}) {
        RecordedJob job;
        job.coordinator.receive(2, WorkersSucceeded{0}, job.now);
        job.add(job.coordinator.closed(2, job.now, is_dead));
        CHECK(of_type<Stop>(job.out).size() == (is_dead ? 0 : 1));
    }
}

TEST_CASE("recording: who may lead after a round") {
    const MemberList last{.epoch = 1, .round = 4, .job_id = "job"};
    CHECK(may_lead({"job", 1, 4, "", 0}, last));
    CHECK(may_lead({"job", 1, 3, "", 0}, last));
    CHECK(may_lead({"job", 0, 9, "", 0}, last));
    CHECK_FALSE(may_lead({"job", 1, 5, "", 0}, last));
    CHECK_FALSE(may_lead({"job", 2, 0, "", 0}, last));
    CHECK_FALSE(may_lead({"another", 1, 4, "", 0}, last));
}

}  // namespace ddprun
