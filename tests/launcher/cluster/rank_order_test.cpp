#include "launcher/cluster/host_list.hpp"

#include <fmt/core.h>

#include "rendezvous/control/control_message.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("a node's place among Slurm's switches") {
    const RankOrder known = order_by_topology({{"SLURM_TOPOLOGY_ADDR", "s0.s4.gpu07"}});
    CHECK((known.text == "s0.s4.gpu07" && known.complaint.empty()));
    const std::string longest(kMaxRankOrderText, 's');
    CHECK(order_by_topology({{"SLURM_TOPOLOGY_ADDR", longest}}).text == longest);
    for (const Environment& environment :
         {Environment{}, {{"SLURM_TOPOLOGY_ADDR", ""}}, {{"SLURM_TOPOLOGY_ADDR", longest + "s"}}}) {
        const RankOrder unknown = order_by_topology(environment);
        CHECK(unknown.text.empty());
        CHECK_THAT(unknown.complaint, Catch::StartsWith("--rank-order topology: SLURM_TOPOLOGY_ADDR is "));
    }
}

TEST_CASE("a node's place in a file of hosts") {
    const auto place = [](std::string_view text, const char* host) {
        return std::get<RankOrder>(order_by_file(text, host)).text;
    };
    CHECK(place("b\na", "a") == "1");
    CHECK(place("# by hand\n\n  b # first\r\na\n", "a") == "1");
    CHECK(place("gpu[10-12]\ngpu[1-3], x\n", "gpu2.example") == "4");
    const RankOrder none = std::get<RankOrder>(order_by_file("a\nb\n", "c"));
    CHECK(none.text.empty());
    CHECK_THAT(none.complaint, Catch::StartsWith("this host (c) is not in it"));
}

TEST_CASE("what is wrong with a file of hosts is said with its line") {
    const auto wrong = [](std::string_view text) { return std::get<std::string>(order_by_file(text, "a")); };
    CHECK(wrong("") == "names no host");
    CHECK(wrong("# a\n\n") == "names no host");
    CHECK(wrong("a\n\nn[3-1]\n") == "line 3: n[3-1]: the range 3-1 runs backwards");
    CHECK(wrong(fmt::format("n[1-{}]\na\n", kMaxListedHosts)) ==
          fmt::format("line 2: more than {} hosts", kMaxListedHosts));
}

}  // namespace ddprun
