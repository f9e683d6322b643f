// Nodes that say that they are not fit for the job: --check.
#include "tests/support/catch.hpp"
#include "tests/support/coordinator_fixture.hpp"

namespace ddprun {
namespace {

using namespace std::chrono_literals;

Hello unfit_hello(int node_rank, int nnodes) {
    Hello hello = ddprun::hello(node_rank, nnodes);
    hello.unfit = "folder /tmp: is full; make room";
    return hello;
}

Hello elastic_hello(int node_rank, bool is_fit = true) {
    Hello hello = is_fit ? ddprun::hello(node_rank, 3) : unfit_hello(node_rank, 3);
    hello.min_nodes = 2;
    return hello;
}

Coordinator make_elastic(int spares = 0) {
    CoordinatorOptions options;
    options.version = "1";
    options.job_id = "job";
    options.nnodes = 3;
    options.elasticity.min_nodes = 2;
    options.elasticity.spares = spares;
    options.elasticity.last_call = 3600s;
    return Coordinator(std::move(options), kStart);
}

const std::string kWhy = "it is not fit for the job (--check): folder /tmp: is full; make room";
const std::string kNoJob =
    "there is no job, since node 1 (gpu1) is not fit for it (--check): folder /tmp: is full; make room";

}  // namespace

TEST_CASE("a job begins without an unfit node as soon as all others are there") {
    Coordinator coordinator = make_elastic();
    CHECK(coordinator.receive(1, elastic_hello(0), kStart).empty());
    const auto told = coordinator.receive(2, elastic_hello(1, false), kStart);
    REQUIRE(of_type<Refused>(told).size() == 1);
    CHECK(of_type<Refused>(told)[0].reason == kWhy);
    CHECK(of_type<Refused>(told)[0].exit_code == kExitSystem);
    REQUIRE(of_type<PeerRefused>(told).size() == 1);
    CHECK(of_type<PeerRefused>(told)[0].reason == kWhy);
    CHECK(of_type<PeerRefused>(told)[0].host == "gpu1");
    const auto ready = of_type<RoundReady>(coordinator.receive(3, elastic_hello(2), kStart));
    REQUIRE(ready.size() == 2);
    CHECK(ready[0].group_world_size == 2);
}

TEST_CASE("an unfit node that says so last lets the job begin at once") {
    Coordinator coordinator = make_elastic();
    coordinator.receive(1, elastic_hello(0), kStart);
    coordinator.receive(2, elastic_hello(2), kStart);
    CHECK(of_type<RoundReady>(coordinator.receive(3, elastic_hello(1, false), kStart)).size() == 2);
}

TEST_CASE("node 0 hears of an unfit node that was there before it") {
    Coordinator coordinator = make_elastic();
    CHECK(of_type<PeerRefused>(coordinator.receive(2, elastic_hello(1, false), kStart)).empty());
    coordinator.receive(3, elastic_hello(2), kStart);
    const auto out = coordinator.receive(1, elastic_hello(0), kStart);
    CHECK(of_type<PeerRefused>(out).size() == 1);
    CHECK(of_type<RoundReady>(out).size() == 2);
}

TEST_CASE("an unfit node that comes again, and is fit, is waited for as before") {
    Coordinator coordinator = make_elastic();
    coordinator.receive(1, elastic_hello(0), kStart);
    coordinator.receive(2, elastic_hello(1, false), kStart);
    coordinator.closed(2, kStart);
    CHECK(of_type<RoundReady>(coordinator.receive(3, elastic_hello(1), kStart)).empty());
    CHECK(of_type<RoundReady>(coordinator.receive(4, elastic_hello(2), kStart)).size() == 3);
}

TEST_CASE("with a spare an unfit node is not missed, whenever it says so") {
    for (const bool is_late : {false, true}) {
        Coordinator coordinator = make_elastic(1);
        coordinator.receive(1, elastic_hello(0), kStart);
        if (!is_late) coordinator.receive(2, elastic_hello(1, false), kStart);
        CHECK(of_type<RoundReady>(coordinator.receive(3, elastic_hello(2), kStart)).size() == 2);
        if (is_late)
            CHECK(of_type<Refused>(coordinator.receive(2, elastic_hello(1, false), kStart))[0].reason ==
                  kWhy);
    }
}

TEST_CASE("a job that cannot be without an unfit node ends when all have come, or soon after") {
    Coordinator coordinator = make(3);
    coordinator.receive(1, hello(0, 3), kStart);
    CHECK(of_type<Refused>(coordinator.receive(2, unfit_hello(1, 3), kStart)).size() == 1);
    auto refused = of_type<Refused>(coordinator.receive(3, hello(2, 3), kStart));
    REQUIRE(refused.size() == 2);
    for (const Refused& one : refused) {
        CHECK(one.reason == kNoJob);
        CHECK(one.exit_code == kExitSystem);
    }

    Coordinator waiting = make(3);
    waiting.receive(1, hello(0, 3), kStart);
    waiting.receive(2, unfit_hello(1, 3), kStart);
    REQUIRE(waiting.next_deadline());
    refused = of_type<Refused>(waiting.tick(kStart + Roster::kUnfitTime));
    REQUIRE(refused.size() == 1);
    CHECK(refused[0].reason == kNoJob);
    // Who comes too late hears it, too.
    refused = of_type<Refused>(waiting.receive(3, hello(2, 3), kStart + 20s));
    REQUIRE(refused.size() == 1);
    CHECK(refused[0].reason == kNoJob);
}

TEST_CASE("several unfit nodes are counted, and node 0 alone is told") {
    Coordinator coordinator = make(3);
    coordinator.receive(1, unfit_hello(1, 3), kStart);
    coordinator.receive(2, unfit_hello(2, 3), kStart);
    const auto refused = of_type<Refused>(coordinator.receive(3, hello(0, 3), kStart));
    REQUIRE(refused.size() == 1);
    CHECK(refused[0].reason == kNoJob + "; and 1 more");
}

TEST_CASE("a job ends whose host is unfit, after it has told the others") {
    Coordinator coordinator = make_elastic();
    CHECK(coordinator.receive(1, elastic_hello(0, false), kStart).empty());
    coordinator.receive(2, elastic_hello(1), kStart);
    const auto refused = of_type<Refused>(coordinator.receive(3, elastic_hello(2), kStart));
    REQUIRE(refused.size() == 3);
    CHECK(refused[0].reason ==
          "there is no job, since node 0 (gpu0) is not fit for it (--check): folder /tmp: is full; make "
          "room; it hosts "
          "the job, which cannot do without it");
}

TEST_CASE("an unfit agent of another job, or of a taken number, is no node of this one") {
    Coordinator coordinator = make(2);
    coordinator.receive(1, hello(0, 2), kStart);
    Hello other = unfit_hello(1, 2);
    other.run_id = "other";
    coordinator.receive(2, other, kStart);
    CHECK(of_type<RoundReady>(coordinator.receive(3, hello(1, 2), kStart)).size() == 2);
}

}  // namespace ddprun
