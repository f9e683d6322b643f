// CommunicatorOptions::reproducible with NCCL: what it sets, where it ends, and what contradicts it.
#include "collectives/nccl/nccl_join.hpp"

#include <unistd.h>

#include <filesystem>

#include "collectives/ddprun_collectives.h"
#include "tests/collectives/nccl/nccl_fixture.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/thread_ranks.hpp"

using namespace ddprun;

namespace {

using Code = CollectiveErrorCode;

const std::string kRings = "allreduce:ring;reduce:ring;reducescatter:ring";

CommunicatorOptions reproducible() {
    CommunicatorOptions options;
    options.reproducible = true;
    return options;
}

// What NCCL_ALGO was, each time.
std::vector<std::string> algorithms(const Makings& makings) {
    std::vector<std::string> found;
    for (const standin::Making& making : makings.since()) found.emplace_back(making.algorithms.data());
    return found;
}

}  // namespace

TEST_CASE("which algorithms are rings") {
    for (const char* rings :
         {"ring", "Ring", "tree;allreduce:Ring;reduce:ring;ReduceScatter:RING", "ring;allgather:tree",
          "allreduce:tree;allreduce:ring;reduce:ring;reducescatter:ring"}) {
        INFO(rings);
        CHECK(reduces_by_rings(rings));
    }
    for (const char* others :
         {"", "tree", "Ring,Tree", "^tree", "ring;allreduce:tree", "allreduce:ring", ";", ":"}) {
        INFO(others);
        CHECK(!reduces_by_rings(others));
    }
    for (const int version : {21903, 22304, 22400, 22809}) CHECK(reduces_by_rings(nccl_rings(version)));
    CHECK(std::string(nccl_rings(22304)) == "Ring");
    CHECK(nccl_rings(22400) == kRings);
}

TEST_CASE("NCCL_ALGO is set only while a reproducible communicator is made") {
    ::unsetenv("NCCL_ALGO");
    const StandIn standin;
    const Makings makings;
    run_communicators(
        2,
        [](Communicator& comm) {
            expect(std::getenv("NCCL_ALGO") == nullptr, "it is unset again");
            comm.split(0)->barrier();
            expect(comm.options().reproducible, "the option is kept");
        },
        reproducible());
    run_communicators(2, [](Communicator& comm) { comm.barrier(); });
    CHECK(algorithms(makings) == std::vector<std::string>{kRings, kRings, kRings, kRings, "", ""});
    CHECK(std::getenv("NCCL_ALGO") == nullptr);
}

TEST_CASE("NCCL_ALGO is the user's") {
    StandIn standin;
    const Makings makings;
    standin.set("NCCL_ALGO", "Tree");
    run_communicators(2, [](Communicator& comm) { comm.barrier(); });
    standin.set("NCCL_ALGO", "Ring");
    run_communicators(
        2, [](Communicator& comm) { comm.barrier(); }, reproducible());
    CHECK(algorithms(makings) == std::vector<std::string>{"Tree", "Tree", "Ring", "Ring"});
    CHECK(std::string(std::getenv("NCCL_ALGO")) == "Ring");
}

TEST_CASE("NCCL_ALGO that contradicts reproducible is refused") {
    const Environment environment{{"DDPRUN_BACKEND", "nccl"}, {"NCCL_ALGO", "Tree"}};
    CHECK(!read_nccl_settings(environment, {}, 0)->reproducible);
    const auto error =
        expect_error(Code::invalid_argument, {}, [&] { read_nccl_settings(environment, reproducible(), 0); });
    CHECK(std::string(error.what()) ==
          "join: NCCL_ALGO='Tree' contradicts CommunicatorOptions::reproducible, which reduces by rings: "
          "unset one of them, or set NCCL_ALGO=Ring");
    CHECK(read_nccl_settings({{"DDPRUN_BACKEND", "nccl"}, {"NCCL_ALGO", "ring"}}, reproducible(), 0)
              ->reproducible);
    CHECK(!read_nccl_settings({{"NCCL_ALGO", "Tree"}}, reproducible(), 0));
}

TEST_CASE("ranks that do not agree on reproducible are told so") {
    const StandIn standin;
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("nccl_rings_test." + std::to_string(::getpid()));
    run_ranks(2, [&](int rank) {
        const auto error = expect_error(Code::mismatch, {0, 1}, [&] {
            Communicator::connect("file://" + path.string(), rank, 2,
                                  rank == 1 ? reproducible() : CommunicatorOptions());
        });
        const std::string text = error.what();
        expect(text.find("CommunicatorOptions::reproducible is not set on rank 0, but on rank 1") !=
                   std::string::npos,
               text);
    });
    std::filesystem::remove(path);
}

TEST_CASE("C has the option, too") {
    const StandIn standin;
    const Makings makings;
    ddprun_options options = DDPRUN_OPTIONS_INIT;
    for (const int wanted : {0, 1}) {
        options.reproducible = wanted;
        ddprun_communicator* comm = nullptr;
        REQUIRE(ddprun_connect("tcp://127.0.0.1:1", 0, 1, &options, &comm) == DDPRUN_OK);
        ddprun_destroy(comm);
    }
    CHECK(algorithms(makings) == std::vector<std::string>{"", kRings});
}
