#include <csignal>
#include <string>
#include <vector>

#include "rendezvous/coordinator/first_failure.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

const std::string kLost = "ConnectionResetError: [Errno 104] Connection reset by peer";
const std::string kOwn = "ValueError: bad batch";

Failure failed(int rank, const std::string& words, int signal = 0) {
    Failure failure;
    failure.rank = rank;
    failure.signal = signal;
    failure.exit_code = signal == 0 ? 1 : kExitSignalBase + signal;
    if (!words.empty())
        failure.last_lines = {"Traceback (most recent call last):", "  File \"a\", line 1", words};
    return failure;
}

}  // namespace

TEST_CASE("raised first: the failure whose words are its own and were printed first") {
    struct Case {
        std::vector<Failure> told;  // the first of them ended first
        std::vector<int> raised;    // in the order in which it was printed
        int first;
        std::string message;
    };
    const std::vector<Case> cases = {
        {{failed(0, kOwn)}, {0}, 0, ""},
        {{failed(0, kLost)}, {0}, 0, ""},
        {{failed(0, kLost), failed(2, kOwn)},
         {2, 0},
         2,
         "rank 2 raised first; rank 0 then lost its connection"},
        // printed later: its sockets were closed before its words came
        {{failed(0, kLost), failed(2, kOwn)},
         {0, 2},
         2,
         "rank 2 raised first; rank 0 then lost its connection"},
        // of another node: nobody knows when
        {{failed(0, kLost), failed(2, kOwn)}, {}, 2, "rank 2 raised first; rank 0 then lost its connection"},
        {{failed(0, kLost), failed(1, kLost), failed(3, kLost), failed(2, kOwn)},
         {2, 3, 1, 0},
         2,
         "rank 2 raised first; ranks 0-1,3 then lost their connections"},
        {{failed(0, kLost), failed(3, kOwn), failed(2, kOwn)},
         {2, 0, 3},
         2,
         "rank 2 raised first; rank 0 then lost its connection"},
        {{failed(0, kOwn), failed(2, kOwn)}, {2, 0}, 2, "rank 2 raised first"},
        {{failed(0, kOwn), failed(2, kOwn)}, {0, 2}, 0, ""},
        {{failed(0, kOwn), failed(2, kOwn)}, {2}, 0, ""},  // what rank 0 printed has not been read in time
        {{failed(0, kOwn), failed(2, kLost)}, {2, 0}, 0, ""},
        {{failed(0, kLost), failed(2, kLost)}, {2, 0}, 0, ""},
        {{failed(0, kLost), failed(2, "")}, {0}, 0, ""},
        {{failed(0, ""), failed(2, kOwn)}, {2}, 0, ""},  // it said nothing, and may have been first
        {{failed(0, kLost, SIGABRT), failed(2, kOwn)},
         {2, 0},
         2,
         "rank 2 raised first; rank 0 then lost its connection"},
        {{failed(0, kLost, SIGKILL), failed(2, kOwn)}, {2, 0}, 0, ""},
        {{failed(0, kLost), failed(2, kOwn, SIGKILL)}, {2, 0}, 0, ""},
    };
    for (const Case& one : cases) {
        FirstFailure failures;
        for (const Failure& failure : one.told) failures.tell(failure.rank, failure);
        failures.note_raised(one.raised);
        const auto first = failures.first([](int) { return std::nullopt; });
        REQUIRE(first);
        CHECK(first->rank == one.first);
        CHECK(first->message == one.message);
        CHECK(first->witness == -1);
    }
}

TEST_CASE("raised first: an accusation counts more") {
    FirstFailure failures;
    failures.tell(0, failed(0, "all_reduce(sum, 4 f32) as call 7: rank 1 died"));
    failures.tell(2, failed(2, kOwn));
    failures.note_raised({2, 0});
    CHECK(failures.first([](int) { return std::nullopt; })->rank == 0);
}

TEST_CASE("raised first: the words of an error file, and of a rank that was told to end") {
    Failure in_file = failed(2, "");
    in_file.error_message = "KeyError: 'x'\nmore";
    CHECK(raised_by(in_file) == "KeyError: 'x'");
    in_file.traceback =
        "Traceback (most recent call last):\n  File \"a\", line 1\nConnectionResetError: gone\n";
    CHECK(is_victim(in_file));

    const Failure laid = raised_before({.rank = 2, .local_rank = 2, .pid = 7}, kOwn, failed(0, kLost));
    CHECK(laid.rank == 2);
    CHECK(laid.pid == 7);
    CHECK(laid.witness == 0);
    CHECK(laid.exit_code == 1);
    CHECK(laid.accusation == "raised " + kOwn);
    CHECK(laid.testimony == kLost);
    CHECK_FALSE(is_victim(laid));
    // A coordinator that hears of it does not lay it on another node's victim.
    CHECK(first_raised(failed(5, kLost), {&laid}, {}).rank == 2);
}

}  // namespace ddprun
