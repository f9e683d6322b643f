#include "launcher/process/signal_delivery.hpp"

#include <sys/syscall.h>

#include <csignal>
#include <random>
#include <set>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Pids = std::vector<pid_t>;

constexpr std::uint64_t bit(int signal) { return std::uint64_t{1} << static_cast<unsigned>(signal - 1); }

constexpr pid_t kGuardian = 1;
constexpr pid_t kLeader = 10;
constexpr SignalMasks kPlain{};
constexpr SignalMasks kCatchesTerm{.caught = bit(SIGTERM)};
constexpr SignalMasks kWaitsForTerm{.blocked = bit(SIGTERM)};
// As /proc shows an interpreter of Python, a shell that waits, and the shell's background child.
constexpr SignalMasks kPython{.caught = bit(SIGINT)};
constexpr SignalMasks kShell{.ignored = bit(SIGQUIT), .caught = bit(SIGINT) | bit(SIGCHLD)};
constexpr SignalMasks kTrappingShell{.ignored = bit(SIGQUIT),
                                     .caught = bit(SIGINT) | bit(SIGCHLD) | bit(SIGTERM)};
constexpr SignalMasks kBackground{.ignored = bit(SIGINT) | bit(SIGQUIT)};

GroupMember member(pid_t pid, pid_t parent, const SignalMasks& masks,
                   const std::string& executable = "prog") {
    return {{.pid = pid, .state = 'S', .parent = parent, .process_group = kLeader}, masks, executable};
}

Pids receivers(const std::vector<GroupMember>& members, int signal, const ProcessSet& told = {}) {
    Pids pids;
    for (const ProcessStat& process : signal_receivers(members, kLeader, signal, told))
        pids.push_back(process.pid);
    return pids;
}

}  // namespace

TEST_CASE("signal scope: the words of the option") {
    CHECK(parse_signal_scope("auto") == SignalScope::automatic);
    CHECK(parse_signal_scope("leader") == SignalScope::leader);
    CHECK(parse_signal_scope("group") == SignalScope::group);
    for (const char* text : {"", "Auto", "leftovers", "all"}) CHECK_FALSE(parse_signal_scope(text));
}

TEST_CASE("signal scope: who gets it") {
    struct Row {
        const char* what;
        std::vector<GroupMember> members;
        int signal;
        Pids expected;
    };
    const SignalMasks foreground = kCatchesTerm;
    const SignalMasks background{.ignored = bit(SIGQUIT), .caught = bit(SIGINT) | bit(SIGTERM)};
    const Row rows[] = {
        {"a plain program", {member(10, 1, kPlain)}, SIGTERM, {10}},
        {"a handler, with children", {member(10, 1, kCatchesTerm), member(11, 10, kPlain)}, SIGTERM, {10}},
        {"fetched by sigwait", {member(10, 1, kWaitsForTerm), member(11, 10, kPlain)}, SIGTERM, {10}},
        {"another signal than the handler's",
         {member(10, 1, kCatchesTerm), member(11, 10, kPlain)},
         SIGUSR1,
         {10, 11}},
        {"Python without a handler", {member(10, 1, kPython), member(11, 10, kPython)}, SIGTERM, {10, 11}},
        {"Python, which catches SIGINT", {member(10, 1, kPython), member(11, 10, kPython)}, SIGINT, {10}},
        {"a wrapper and a program with children",
         {member(10, 1, kPlain), member(11, 10, kCatchesTerm), member(12, 11, kPlain)},
         SIGTERM,
         {10, 11}},
        {"two wrappers",
         {member(10, 1, kPlain), member(11, 10, kPlain), member(12, 11, kPlain)},
         SIGTERM,
         {10, 11, 12}},
        {"prog & wait", {member(10, 1, kShell, "bash"), member(11, 10, kBackground)}, SIGTERM, {10, 11}},
        {"trap … TERM; prog & wait",
         {member(10, 1, kTrappingShell, "bash"), member(11, 10, background)},
         SIGTERM,
         {10}},
        {"trap … TERM; prog",
         {member(10, 1, kTrappingShell, "dash"), member(11, 10, foreground), member(12, 11, kPlain)},
         SIGTERM,
         {10, 11}},
        {"a script and SIGINT",
         {member(10, 1, kShell, "bash"), member(11, 10, kPython), member(12, 11, kPython)},
         SIGINT,
         {10, 11}},
        {"prog & wait and SIGINT",
         {member(10, 1, kShell, "sh"), member(11, 10, background)},
         SIGINT,
         {10, 11}},
        {"no shell catches SIGINT in vain",
         {member(10, 1, kShell, "prog"), member(11, 10, kPython)},
         SIGINT,
         {10}},
        {"the leader has ended",
         {member(11, kGuardian, kCatchesTerm), member(12, 11, kPlain), member(13, kGuardian, kPlain)},
         SIGTERM,
         {11, 13}},
        {"an orphan below a wrapper",
         {member(10, 1, kPlain), member(12, kGuardian, kPlain)},
         SIGTERM,
         {10, 12}},
        {"an orphan below a handler",
         {member(10, 1, kCatchesTerm), member(12, kGuardian, kPlain)},
         SIGTERM,
         {10}},
        {"nobody", {}, SIGTERM, {}},
    };
    for (const Row& row : rows) {
        INFO(row.what);
        CHECK(receivers(row.members, row.signal) == row.expected);
    }
}

TEST_CASE("signal scope: everyone once, and nobody below a handler, whatever the tree") {
    const auto seed = std::random_device{}();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    for (int turn = 0; turn < 300; ++turn) {
        std::vector<GroupMember> members;
        std::vector<bool> shielded;  // below somebody who handles it
        const int count = static_cast<int>(random() % 12);
        for (int i = 0; i < count; ++i) {
            // Parents come before their children, as in a process table that nobody disturbs.
            const int parent = i == 0 ? -1 : static_cast<int>(random() % static_cast<unsigned>(i));
            const auto at = static_cast<std::size_t>(parent);
            members.push_back(member(10 + i, parent < 0 ? kGuardian : 10 + parent,
                                     random() % 3 == 0 ? kCatchesTerm : kPlain));
            shielded.push_back(parent >= 0 && (shielded[at] || members[at].masks.handles(SIGTERM)));
        }
        const Pids pids = receivers(members, SIGTERM);
        const std::set<pid_t> unique(pids.begin(), pids.end());
        CHECK(unique.size() == pids.size());
        for (int i = 0; i < count; ++i)
            CHECK(unique.contains(10 + i) != shielded[static_cast<std::size_t>(i)]);
    }
}

TEST_CASE(
    "signal scope: what a wrapper has left is spared where it was told before, and what it needs, too") {
    // The wrapper, process 10, ended by the signal that 11 is at work on.
    const std::vector<GroupMember> left = {member(11, 1, kCatchesTerm), member(12, 11, kPlain),
                                           member(13, 1, kPlain)};
    CHECK(receivers(left, SIGINT) == Pids{11, 12, 13});
    CHECK(receivers(left, SIGINT, {{11, 0}}) == Pids{13});
    CHECK(receivers(left, SIGINT, {{11, 7}}) == Pids{11, 12, 13});  // another process by this number
}

TEST_CASE("signal scope: masks out of /proc") {
    const auto masks = parse_signal_masks(
        "Name:\tprog\nSigQ:\t0/1\nSigPnd:\t0000000000000000\nSigBlk:\t0000000000000200\n"
        "SigIgn:\t0000000000001000\nSigCgt:\t8000000000004002\n",
        "do_select", "23 0x1 0x2");
    REQUIRE(masks.has_value());
    CHECK(masks->handles(SIGTERM));
    CHECK(masks->handles(SIGINT));
    CHECK(masks->handles(SIGUSR1));
    CHECK(masks->handles(64));
    CHECK(masks->ignores(SIGPIPE));
    for (int signal : {0, 1, 3, 63, 65, -1}) CHECK_FALSE(masks->handles(signal));
    // Asleep in sigwait, the signals that it waits for are in no mask.
    const std::string_view plain =
        "SigBlk:\t0000000000000000\nSigIgn:\t0000000000001000\nSigCgt:\t0000000000000000\n";
    const std::string in_sigwait = std::to_string(SYS_rt_sigtimedwait) + " 0x7ffca2af9390 0x0 0x0 0x8";
    for (const auto& waiting : {parse_signal_masks(plain, "do_sigtimedwait.isra.0", ""),
                                parse_signal_masks(plain, "0", in_sigwait)}) {
        REQUIRE(waiting.has_value());
        CHECK(waiting->handles(SIGTERM));
        CHECK_FALSE(waiting->handles(SIGPIPE));
    }
    for (const char* syscall : {"", "running", "-1 0x7ffca2af9390 0x0", "x"}) {
        const auto other = parse_signal_masks(plain, "0", syscall);
        REQUIRE(other.has_value());
        CHECK_FALSE(other->handles(SIGTERM));
    }
    CHECK_FALSE(parse_signal_masks("", "", ""));
    CHECK_FALSE(parse_signal_masks("SigBlk:\t0\nSigIgn:\t0\n", "", ""));
    CHECK_FALSE(parse_signal_masks("SigBlk:\t0\nSigIgn:\t0\nSigCgt:\tx\n", "", ""));
}

}  // namespace ddprun
