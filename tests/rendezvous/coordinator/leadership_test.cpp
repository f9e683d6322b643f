#include "rendezvous/coordinator/leadership.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/coordinator_fixture.hpp"

namespace ddprun {

using namespace std::chrono_literals;
namespace {

CoordinatorOptions with_failover(int nnodes, bool records = false) {
    CoordinatorOptions options{.version = "1", .job_id = "job", .nnodes = nnodes, .heartbeat = 3s};
    options.elasticity.min_nodes = 1;
    options.own_agent = hello(0, nnodes);
    options.failover = true;
    options.records_rounds = records;
    return options;
}

// A coordinator's nodes in round 0; connections are the ranks and one, and node 0 hosts.
struct Led {
    explicit Led(int nnodes, bool records = false)
        : options(std::make_shared<const CoordinatorOptions>(with_failover(nnodes, records))),
          roster(options, kStart),
          leadership(options, kStart) {
        for (int rank = 0; rank < nnodes; ++rank)
            roster.admit(static_cast<std::uint64_t>(rank) + 1, hello(rank, nnodes));
        roster.end_gathering();
        roster.seat({});
        leadership.begin_round(roster, {}, 0, kStart);
    }
    Leadership::MemberLoss lose(int rank, bool is_dead) {
        roster.lose(roster.nodes().at(rank), Roster::Loss::closed, is_dead);
        return leadership.lose_member(roster.nodes().at(rank), is_dead);
    }

    SharedOptions options;
    Roster roster;
    Leadership leadership;
};

// One that would take over from a coordinator on node 0 of so many members.
struct Candidate {
    explicit Candidate(int nnodes, bool records = false) {
        CoordinatorOptions said = with_failover(nnodes, records);
        said.own_agent = hello(1, nnodes);
        last = MemberList{.epoch = 2, .round = 5, .job_id = "job", .size = nnodes, .heartbeat_ms = 3000};
        for (int rank = 0; rank < nnodes; ++rank)
            last.members.push_back(
                {.group_rank = rank, .place = rank, .host = "gpu" + std::to_string(rank), .pid = 100 + rank});
        said.predecessor = last;
        options = std::make_shared<const CoordinatorOptions>(said);
        roster.emplace(options, kStart);
        leadership.emplace(options, kStart);
    }
    Messages come(int rank, const std::vector<int>& dead = {}) {
        Hello one = hello(rank, options->nnodes);
        one.following.emplace(Following{.last = last, .group_rank = rank, .followed = 2, .dead = dead});
        const auto connection = static_cast<std::uint64_t>(rank) + 1;
        return leadership->add_follower(roster->add_follower(connection, one), roster->nodes());
    }
    bool follow(int rank, int epoch) {
        const auto* node = roster->find(static_cast<std::uint64_t>(rank) + 1);
        return leadership->note_follower(*node, {epoch}, roster->nodes());
    }

    MemberList last;
    SharedOptions options;
    std::optional<Roster> roster;
    std::optional<Leadership> leadership;
};

}  // namespace

TEST_CASE("a coordinator ends the job with the loss that leaves it a minority") {
    struct Case {
        int nodes;
        std::vector<std::pair<int, bool>> lost;  // and whether its agent is known to be dead
        bool is_minority;
    };
    for (const Case& one : std::vector<Case>{{3, {{1, false}}, false},
                                             {3, {{1, false}, {2, false}}, true},
                                             {3, {{1, true}, {2, true}}, false},
                                             {4, {{2, false}, {3, false}}, false},
                                             {4, {{1, false}, {2, false}, {3, false}}, true},
                                             {2, {{1, false}}, false}}) {
        Led led(one.nodes);
        Leadership::MemberLoss last;
        for (const auto& [rank, is_dead] : one.lost) {
            last = led.lose(rank, is_dead);
            CHECK(last.news.has_value() == is_dead);
        }
        CHECK(!last.obstacle.empty() == one.is_minority);
        CHECK(led.leadership.minority_cause().has_value() == one.is_minority);
    }
}

TEST_CASE("the members of a round are told with the host first") {
    Led led(3);
    REQUIRE(led.leadership.members());
    const MemberList& list = *led.leadership.members();
    CHECK(list.size == 3);
    REQUIRE(list.members.size() == 3);
    CHECK(list.members[0].host == "gpu0");
    CHECK(list.version() == std::pair(0, 0));
}

TEST_CASE("a round begins for certain only with a quorum that is bound to this coordinator") {
    Led led(3);
    HeartbeatWatch heartbeats({3s});
    for (const std::uint64_t agent : {2, 3}) heartbeats.add(agent, kStart);
    CHECK_FALSE(led.leadership.is_sure(led.roster, heartbeats, kStart));
    const auto questions = heartbeats.ask(kStart);
    REQUIRE(questions.size() == 2);
    heartbeats.answered(2, questions[0].second);
    CHECK(led.leadership.is_sure(led.roster, heartbeats, kStart));
}

TEST_CASE("agents are asked to follow once they could be a quorum, and those who did follow lead on") {
    Candidate candidate(3);
    CHECK(candidate.come(1).empty());
    const Messages asked = candidate.come(2);
    REQUIRE(of_type<Lead>(asked).size() == 2);
    const int epoch = of_type<Lead>(asked)[0].epoch;
    CHECK(epoch == 3);
    CHECK(candidate.leadership->why_not_elected(candidate.roster->nodes()));
    CHECK_FALSE(candidate.follow(1, epoch - 1));
    CHECK_FALSE(candidate.follow(1, epoch));
    CHECK_FALSE(candidate.follow(2, epoch));  // the third may live
    CHECK_FALSE(candidate.leadership->why_not_elected(candidate.roster->nodes()));
    const Takeover takeover = candidate.leadership->take_over(candidate.roster->nodes(), kStart);
    REQUIRE(takeover.seats.size() == 2);
    CHECK(takeover.seats[0].rank == 1);
    CHECK(takeover.seats[1].rank == 2);
    CHECK(takeover.cause.host == "gpu0");
    CHECK(takeover.workers_gone.value() > kStart + Aftermath::kKillTime);
}

TEST_CASE("a job is taken over at once when all that may live follow") {
    Candidate candidate(3);
    candidate.come(1, {0});
    const Messages asked = candidate.come(2, {0});
    REQUIRE_FALSE(asked.empty());
    CHECK_FALSE(candidate.follow(1, 3));
    CHECK(candidate.follow(2, 3));
    const Takeover takeover = candidate.leadership->take_over(candidate.roster->nodes(), kStart);
    CHECK(takeover.workers_gone.value() == kStart + Aftermath::kKillTime);
}

TEST_CASE("a register decides without a quorum, and its rounds are recorded for those who are left out") {
    Candidate lone(2, true);
    REQUIRE(lone.come(1).size() == 1);
    lone.follow(1, 3);
    CHECK_FALSE(lone.leadership->why_not_elected(lone.roster->nodes()));

    Led led(2, true);
    REQUIRE(led.leadership.wish());
    CHECK(led.leadership.wish()->record.round == 0);
    CHECK(led.leadership.learn({RecordNews::Kind::recorded, led.leadership.wish()->record, {}}));
    CHECK_FALSE(led.leadership.lacks_record(led.roster.nodes(), 1));
    led.lose(1, false);
    CHECK(led.leadership.may_be_outdone());
    REQUIRE(led.leadership.lacks_record(led.roster.nodes(), 1));
    CHECK(led.leadership.record(led.roster.nodes(), 1).value().node_rank == 1);
    CHECK(led.leadership.learn({RecordNews::Kind::recorded, led.leadership.wish()->record, {}}));
    CHECK_FALSE(led.leadership.lacks_record(led.roster.nodes(), 1));
    led.leadership.finish();
    CHECK_FALSE(led.leadership.wish());
}

TEST_CASE("a coordinator that steps down names the members that are gone") {
    Led led(3);
    led.lose(1, true);
    led.roster.note_leaving(led.roster.nodes().at(0), 15);
    const SteppedDown word = led.leadership.stepping_down(led.roster.nodes(), true, "");
    CHECK(word.gone == std::vector<int>{0, 1});
    CHECK(led.leadership.stepping_down(led.roster.nodes(), false, "why").reason == "why");
}

TEST_CASE(
    "the lease of the host's own workers is that of the heartbeats, until it says that it stands still") {
    Led led(2);
    HeartbeatWatch heartbeats({3s});
    CHECK_FALSE(led.leadership.lease_end(heartbeats, false));
    heartbeats.add(2, kStart);
    CHECK(led.leadership.lease_end(heartbeats, false) == heartbeats.lease_end());
    led.leadership.suspend_own(true);
    CHECK_FALSE(led.leadership.lease_end(heartbeats, false));
    led.leadership.suspend_own(false);
    heartbeats.remove(2);
    // Nobody has been lost who could go on without it.
    CHECK_FALSE(led.leadership.limit_own_end(led.roster, kStart));
    CHECK_FALSE(led.leadership.lease_end(heartbeats, true));
}

}  // namespace ddprun
