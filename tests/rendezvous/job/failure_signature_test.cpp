#include "rendezvous/job/failure_signature.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/coordinator_fixture.hpp"

namespace ddprun {
namespace {

using Hosts = std::vector<std::string>;

Failure crash(int rank, const std::string& host, std::vector<std::string> last_lines) {
    return {.kind = Failure::Kind::worker_failed,
            .node_rank = rank / 8,
            .host = host,
            .rank = rank,
            .local_rank = rank % 8,
            .pid = 4000 + rank,
            .exit_code = 1,
            .unix_time_ms = 1'700'000'000'000 + rank,
            .last_lines = std::move(last_lines)};
}

bool same(const Failure& a, const Failure& b, const Hosts& hosts = {}) {
    return failure_signature(a, hosts) == failure_signature(b, hosts);
}

}  // namespace

TEST_CASE("failure signature: numbers of every form are masked") {
    const std::pair<const char*, const char*> cases[] = {
        {"[rank3]: step 1,200 loss 2.5e-05", "[rank#]: step # loss #"},
        {"loss -0.5", "loss #"},
        {"loss nan", "loss nan"},
        {"at 0x7ffd12ab, 0XDEADBEEF", "at #, #"},
        {"commit 9eb6766 of deadbeef", "commit # of #"},
        {"2026-11-23 07:17:24,123 UTC", "# # UTC"},
        {"2026-11-23T07:17:24Z", "#T#:#Z"},
        {"cannot reach 10.0.0.1:29500", "cannot reach #"},
        {"cannot reach [fe80::1ff:fe23:4567:890a]:29500", "cannot reach [#]:#"},
        {"GPU-550e8400-e29b-41d4-abcd-446655440000", "GPU-#"},
        {"file \"train.py\", line 12, in step", "file \"train.py\", line #, in step"},
        {"cuda:7 has 1.94 GiB, cuda0 16MiB, 1.5GiB", "cuda:# has # GiB, cuda# #MiB, #GiB"},
        {"a bad face fed the decade", "a bad face fed the decade"},
        {"rank 3: bad", "rank #: bad"},
        {"#5 5# -", "## ## -"},
        {"non-5 x-1", "non-# x-#"},
        {"", ""},
    };
    for (const auto& [text, expected] : cases) {
        CAPTURE(text);
        CHECK(masked(text, {}) == expected);
    }
}

TEST_CASE("failure signature: nodes' names are masked, as whole words") {
    const Hosts hosts = {"gpu07.site", "gpu07", "node-a", "lab"};
    CHECK(masked("gpu07.site: gpu07 and node-a, not gpu071, node-a-b or label", hosts) ==
          "@: @ and @, not gpu#, node-a-b or label");
    CHECK(masked("collab", hosts) == "collab");
}

TEST_CASE("failure signature: another rank, node and process is the same failure") {
    const auto lines = [](int rank, const std::string& host, int step) {
        return std::vector<std::string>{"[" + host + "] step " + std::to_string(step),
                                        "[rank" + std::to_string(rank) + "]: ValueError: no such file"};
    };
    const Hosts hosts = {"gpu07.site", "gpu12.site"};
    const Failure first = crash(3, "gpu07.site", lines(3, "gpu07", 40));
    CHECK(same(first, crash(11, "gpu12.site", lines(11, "gpu12", 7)), hosts));
    // Its own node need not be told.
    CHECK(same(crash(3, "anna", {"anna died"}), crash(3, "berta", {"berta died"})));
    // How often it has told its progress does not matter.
    Failure longer = first;
    longer.last_lines.insert(longer.last_lines.begin(), {"[gpu07] step 38", "[gpu07] step 39"});
    CHECK(same(first, longer, hosts));
}

TEST_CASE("failure signature: another end, message or last line is another failure") {
    const Failure first = crash(3, "gpu07", {"ValueError: no such file"});
    const auto changed = [&](const auto& change) {
        Failure other = first;
        change(other);
        return !same(first, other);
    };
    CHECK(changed([](Failure& other) { other.exit_code = 2; }));
    CHECK(changed([](Failure& other) { other.signal = 9; }));
    CHECK(changed([](Failure& other) { other.kind = Failure::Kind::overdue; }));
    CHECK(changed([](Failure& other) { other.message = "it says why"; }));
    CHECK(changed([](Failure& other) { other.error_message = "ValueError: boom"; }));
    CHECK(changed([](Failure& other) { other.accusation = "does not answer"; }));
    CHECK(changed([](Failure& other) { other.last_lines = {"ValueError: no such folder"}; }));
    CHECK(changed([](Failure& other) { other.last_lines.clear(); }));
    CHECK_FALSE(changed([](Failure& other) { other.hint = "the kernel's words may come too late"; }));
}

TEST_CASE("failure signature: where a long line was cut does not matter, and nothing grows without a bound") {
    const auto long_line = [](const std::string& number) {
        return crash(0, "a", {(number + " rows of " + std::string(1000, 'x')).substr(0, 400)});
    };
    CHECK(same(long_line("7"), long_line("123456")));
    Failure endless = crash(0, "a", {});
    for (int i = 0; i < 10'000; ++i) endless.error_message += std::string(1 + i % 300, 'y') + "\n";
    CHECK(failure_signature(endless, {}).size() <= kMaxComparedText + 2 * kMaxComparedLine);
}

TEST_CASE("failure signature: the job ends by the same failure on whichever node") {
    Coordinator coordinator =
        make_restarting(2, {.max_restarts = 10, .min_uptime = std::chrono::milliseconds(0)});
    const std::string names[] = {"anna", "berta"};
    for (int rank = 0; rank < 2; ++rank) {
        Hello joining = hello(rank, 2, 1);
        joining.host = names[rank];
        coordinator.receive(static_cast<std::uint64_t>(rank) + 1, joining, kStart);
    }
    Coordinator::Outbox last;
    for (int round = 0; round < 3; ++round) {
        CHECK(of_type<Finish>(last).empty());
        const int rank = round % 2;
        WorkerFailed failed = failed_with(7, rank);
        failed.round = round;
        failed.failure.last_lines = {names[rank] + " cannot reach " + names[1 - rank]};
        coordinator.receive(static_cast<std::uint64_t>(rank) + 1, failed, kStart);
        coordinator.receive(1, gone(round, false), kStart);
        last = coordinator.receive(2, gone(round, false), kStart);
    }
    const auto finish = of_type<Finish>(last);
    REQUIRE(finish.size() == 2);
    CHECK(finish[0].message == "no restart: the same failure 3 times in a row (--same-failure 3)");
}

TEST_CASE("failure signature: what is not the program's failure has none") {
    for (const auto kind : {Failure::Kind::node_lost, Failure::Kind::signalled}) {
        Failure failure = crash(0, "a", {});
        failure.kind = kind;
        CHECK(failure_signature(failure, {}).empty());
    }
    CHECK_FALSE(failure_signature({}, {}).empty());
}

}  // namespace ddprun
