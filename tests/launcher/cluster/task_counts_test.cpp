
#include "launcher/cluster/host_list.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("task counts: as Slurm writes them") {
    const auto counts = [](const char* text) { return std::get<std::vector<int>>(expand_task_counts(text)); };
    CHECK(counts("4") == std::vector{4});
    CHECK(counts("4(x2),3") == std::vector{4, 4, 3});
    CHECK(counts("1(x1),0,2(x3)") == std::vector{1, 0, 2, 2, 2});
    CHECK(counts("1(x65536)").size() == kMaxListedHosts);
}

TEST_CASE("task counts: what is none is said") {
    for (const char* text :
         {"", ",", "4,", "4(x0)", "4(x2", "4(2)", "(x2)", "-1", "4 (x2)", "1000001", "4(x2)3"}) {
        CAPTURE(text);
        CHECK_THAT(std::get<std::string>(expand_task_counts(text)), Catch::Contains("no number of tasks"));
    }
    CHECK(std::get<std::string>(expand_task_counts("1(x65536),1")) == "more than 65536 nodes");
}

}  // namespace ddprun
