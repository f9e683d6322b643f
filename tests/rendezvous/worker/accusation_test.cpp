#include "rendezvous/worker/accusation.hpp"

#include <random>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

const std::string kCall = "all_reduce(sum, 16 f32) as call 705";

std::optional<std::pair<Charge, int>> blamed(const std::string& line) {
    const auto found = find_accusation(line);
    if (!found) return std::nullopt;
    return std::pair(found->charge, found->rank);
}

}  // namespace

TEST_CASE("accusation: who is blamed, by what the collectives write") {
    struct Case {
        std::string line;
        Charge charge;
        int rank;
    };
    const std::string late = kCall + ": after 1.500 s (operation_timeout) ";
    const std::vector<Case> cases = {
        {late + "rank 2 does not answer", Charge::does_not_answer, 2},
        {late + "rank 1 has called nothing yet", Charge::called_nothing, 1},
        {kCall + ": Timed out after 5 s (operation_timeout) rank 3 does not answer", Charge::does_not_answer,
         3},
        {late + "rank 1 is at barrier() as call 6, rank 12 does not answer, and 3 more",
         Charge::does_not_answer, 12},
        {late + "rank 1 is at gather(5 u8 to rank 2) as call 1, rank 3 is at barrier() as call 6",
         Charge::is_elsewhere, 1},
        {kCall + ": rank 0 died: its connection: Connection reset by peer", Charge::died, 0},
        {"recv(10 f32 from rank 2): rank 2 left: its process exited", Charge::left, 2},
        {"recv(4 f32 from rank 1): after 5 s (operation_timeout) rank 1 has called nothing yet",
         Charge::called_nothing, 1},
        {late + "rank 1 is at recv(4 f32 from rank 2), rank 2 does not answer", Charge::does_not_answer, 2},
        {"barrier() as call 1: rank 3 aborted: rank 1 died: no", Charge::aborted, 3},
        {"  what():  " + kCall + ": rank 2 died: its process ended", Charge::died, 2},
        {"RuntimeError: step 3: " + kCall + ": rank 2 died: its process ended", Charge::died, 2},
    };
    for (const Case& one : cases) {
        INFO(one.line);
        CHECK(blamed(one.line) == std::pair(one.charge, one.rank));
    }
    CHECK(find_accusation("ddpbench: " + late + "rank 2 does not answer")->sentence ==
          late + "rank 2 does not answer");
}

TEST_CASE("accusation: nobody is blamed by what is none of it") {
    const std::string late = ": after 5 s (operation_timeout) ";
    for (const std::string& line : std::vector<std::string>{
             "",
             ": ",
             "rank 2 died",
             "worker: rank 2 died: out of memory",
             kCall,
             kCall + ": rank 2",
             kCall + ": rank died: x",
             kCall + ": rank -2 died: x",
             kCall + ": rank 99999999999 died: x",
             kCall + ": rank 2 diedx",
             kCall + ": rank 2 leftovers",
             kCall + ": rank 2 has made 10 calls and left, rank 1 called barrier() as call 11",
             kCall + ": after 5 s (operation_timeout",
             kCall + late + "rank 1 is at recv(4 f32 from rank 2)",
             "recv(4 f32 from rank 1)" + late + "rank 1 is at barrier() as call 6",
             kCall + late + "rank 3 is at barrier() as call 6, ranks 0-2 have not made call 6",
             kCall + late + "all ranks have come, but no data from or to rank 1 moves",
             kCall + ": the ranks disagree: rank 0 is at barrier() as call 3, rank 1 is at split() as call 3",
             kCall + ": the communicator that was split ended: rank 1 died: x",
             "ddprun: rank 0" + std::string(kWaitsIn) + kCall + late + "rank 2 does not answer",
             kCall + ": " + std::string(kOwnNumbers) + "rank 1 died: its process ended",
             kCall + ": " + std::string(kOwnNumbers) + "after 5 s (operation_timeout) rank 1 does not answer",
         }) {
        INFO(line);
        CHECK_FALSE(find_accusation(line));
    }
}

TEST_CASE("accusation: what is written is read, and torn lines do no harm") {
    const unsigned seed = std::random_device()();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    constexpr Charge kCharges[] = {
        Charge::does_not_answer, Charge::called_nothing, Charge::is_elsewhere, Charge::died, Charge::left,
        Charge::aborted};
    for (int i = 0; i < 2000; ++i) {
        const int rank = static_cast<int>(random() % 100'000);
        const Charge charge = kCharges[random() % std::size(kCharges)];
        const std::string more = charge == Charge::is_elsewhere ? " barrier() as call 1" : " more";
        const std::string line = kCall + ": " + accuse(rank, charge) + more;
        REQUIRE(blamed(line) == std::pair(charge, rank));
        std::string torn = line.substr(random() % line.size(), random() % line.size());
        for (int hit = 0; hit < 3 && !torn.empty(); ++hit)
            torn[random() % torn.size()] = static_cast<char>(random());
        find_accusation(torn);
    }
}

}  // namespace ddprun
