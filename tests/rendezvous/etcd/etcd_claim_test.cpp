// Who takes the host's key when it is lost, and what is recorded of the job's rounds.
#include "tests/rendezvous/etcd/candidate.hpp"

namespace ddprun {

using namespace std::chrono_literals;
namespace {

constexpr std::int64_t kOthersLease = 99;

RoundRecord round_of_job(int epoch, int round) {
    return {.job_id = "j1", .epoch = epoch, .round = round, .host = "a", .pid = 1};
}

// Of a round whose host was agent 7 on machine "gone", node 0.
MemberList last_round() {
    MemberList list{.epoch = 1, .round = 4, .job_id = "j1", .size = 2};
    list.members.push_back({.group_rank = 0, .host = "gone", .pid = 7});
    list.members.push_back({.group_rank = 1, .host = "a", .pid = 1});
    return list;
}

std::string key_of_gone() { return to_json({to_string(kThere), "job", "2", "gone", 7, 0, "1", "before"}); }

std::string json_of_round(int epoch, int round) {
    return R"({"job_id":"j1","epoch":)" + std::to_string(epoch) + R"(,"round":)" + std::to_string(round) +
           R"(,"host":"gone","pid":7})";
}

// A host that has recorded its first round.
struct RecordingHost {
    explicit RecordingHost(boost::asio::io_context& context, FakeGateway& etcd)
        : agent(context, {etcd.endpoint()}) {
        agent.election.campaign(late());
        run_until(context, [this] { return agent.elected == 1; });
        agent.election.publish(kHere);
        agent.election.record(RecordWish{round_of_job(0, 0), late()});
        run_until(context, [this] { return agent.news.size() == 1; });
    }
    Candidate agent;
};

}  // namespace

TEST_CASE("etcd claim: the survivor waits for the host's lease, but not for one that is known to be dead") {
    for (const bool is_dead : {true, false}) {
        boost::asio::io_context context;
        FakeGateway etcd(context);
        Candidate survivor(context, {etcd.endpoint()});
        etcd.write_host(key_of_gone(), kOthersLease);
        etcd.write_round(json_of_round(1, 4), kOthersLease + 1);
        survivor.election.claim(last_round(), is_dead ? std::vector{0} : std::vector<int>(), late());
        if (!is_dead) {
            run_until(context, [&] { return survivor.hosts == std::vector{kThere}; });
            run_until(context, [&] { return etcd.asked["/v3/watch"] == 1; });
            CHECK(survivor.claimed == 0);
            etcd.end_lease(kOthersLease);
        }
        run_until(context, [&] { return survivor.claimed == 1; });
        CHECK(etcd.host().lease != kOthersLease);
        // It leads the job from there, so nobody else can record anything.
        CHECK(etcd.round().lease != kOthersLease + 1);
        CHECK(etcd.round().value == json_of_round(1, 4));
        // It was not to say more: who comes next may lead the job, too.
        withdraw(context, survivor);
        CHECK(etcd.host().value.empty());
        CHECK(etcd.round().value == json_of_round(1, 4));
    }
}

TEST_CASE("etcd claim: who was left out does not lead, nor does anybody where there is no record") {
    boost::asio::io_context context;
    FakeGateway etcd(context);
    Candidate survivor(context, {etcd.endpoint()});
    etcd.write_round(json_of_round(1, 5), kOthersLease);
    survivor.election.claim(last_round(), {0}, late());
    run_until(context, [&] { return etcd.asked["/v3/watch"] == 1; });
    CHECK(survivor.claimed == 0);
    etcd.end_lease(kOthersLease);
    run_until(context, [&] { return !survivor.failure.empty(); });
    CHECK(survivor.failure.find("does not know the job's last round any more") != std::string::npos);
    CHECK(survivor.claimed == 0);
}

TEST_CASE("etcd claim: a newcomer leaves the key to the members of the last round") {
    boost::asio::io_context context;
    FakeGateway etcd(context);
    Candidate newcomer(context, {etcd.endpoint()});
    etcd.write_round(json_of_round(1, 4), kOthersLease);
    newcomer.election.campaign(late());
    run_until(context, [&] { return etcd.asked["/v3/watch"] == 1; });
    CHECK(etcd.asked["/v3/kv/txn"] == 0);
    etcd.end_lease(kOthersLease);
    run_until(context, [&] { return newcomer.elected == 1; });
}

TEST_CASE("etcd record: rounds are recorded, and the job's end leaves nothing") {
    boost::asio::io_context context;
    FakeGateway etcd(context);
    RecordingHost host(context, etcd);
    CHECK(host.agent.news[0].kind == RecordNews::Kind::recorded);
    host.agent.election.record(RecordWish{round_of_job(0, 1), std::nullopt});
    run_until(context, [&] { return host.agent.news.size() == 2; });
    CHECK(host.agent.news[1].kind == RecordNews::Kind::recorded);
    CHECK(etcd.round().value.find(R"("round":1)") != std::string::npos);
    host.agent.election.record(std::nullopt);
    withdraw(context, host.agent);
    CHECK(etcd.host().value.empty());
    CHECK(etcd.round().value.empty());
}

TEST_CASE("etcd record: refused where another one hosts, has recorded, or the record was lost") {
    boost::asio::io_context context;
    FakeGateway etcd(context);
    RecordingHost host(context, etcd);
    std::string cause;
    SECTION("another one hosts") {
        etcd.write_host(key_of_gone(), kOthersLease);
        cause = "the agent on gone (pid 7) leads the job now, as etcd says";
    }
    SECTION("another one has recorded") {
        etcd.write_round(json_of_round(1, 4), kOthersLease);
        cause = "etcd has lost the job's last round";
    }
    SECTION("lost") {
        etcd.end_lease(etcd.round().lease);
        cause = "etcd has lost the job's last round";
    }
    host.agent.election.record(RecordWish{round_of_job(0, 1), std::nullopt});
    run_until(context, [&] { return host.agent.news.size() == 2; });
    CHECK(host.agent.news[1].kind == RecordNews::Kind::refused);
    INFO(host.agent.news[1].cause);
    CHECK(host.agent.news[1].cause.starts_with(cause));
    CHECK(etcd.round().value.find(R"("round":1)") == std::string::npos);
}

TEST_CASE("etcd record: what was lost is begun anew as long as that is safe") {
    boost::asio::io_context context;
    FakeGateway etcd(context);
    RecordingHost host(context, etcd);
    etcd.end_lease(etcd.round().lease);
    host.agent.election.record(RecordWish{round_of_job(0, 1), late()});
    run_until(context, [&] { return host.agent.news.size() == 2; });
    CHECK(host.agent.news[1].kind == RecordNews::Kind::recorded);
    CHECK(etcd.round().value.find(R"("round":1)") != std::string::npos);
}

}  // namespace ddprun
