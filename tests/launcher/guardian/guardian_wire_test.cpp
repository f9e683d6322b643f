#include "launcher/guardian/guardian_channel.hpp"

#include <random>

#include "rendezvous/base/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random_values.hpp"

namespace ddprun {

// For RandomValues.
BOOST_DESCRIBE_STRUCT(Exited, (), (code))
BOOST_DESCRIBE_STRUCT(Signaled, (), (signal, core_dumped))

namespace {

WorkerSpec full_spec() {
    WorkerSpec spec;
    spec.argv = {"program", "", std::string("\0\n\xff", 3)};
    spec.environment = {{"A", "1"}, {"EMPTY", ""}, {"LONG", std::string(100'000, 'x')}};
    spec.rank = 12345;
    spec.local_rank = 7;
    spec.standard_input = GivenDescriptor{31};
    spec.standard_output = Stdio::null;
    spec.standard_error = GivenDescriptor{32};
    spec.ignore_hangup = true;
    spec.takes_terminal = true;
    spec.cpus = {0, 7, 1023};
    spec.memory_node = 3;
    spec.open_files = 1024;
    return spec;
}

std::vector<std::string> all_orders() {
    return {encode_order(StartWorker{full_spec()}),
            encode_order(SignalWorker{12, 15, SignalScope::group}),
            encode_order(ForgetWorker{13}),
            encode_order(SweepAll{std::chrono::milliseconds(15'000)}),
            encode_order(WatchLease{}),
            encode_order(
                LauncherTraces{std::string("\0b", 2), std::string("s\0", 2), "/tmp/ddprun_a", "/tmp/b"})};
}

std::vector<std::string> one_of_each_event() {
    return {encode_event(Started{14, true}),
            encode_event(StartFailure{2, "no\nway", 127}),
            encode_event(WorkerExited{15, Exited{255}}),
            encode_event(WorkerExited{15, Signaled{11, true}}),
            encode_event(GroupGone{16}),
            encode_event(SweepResult{3, {{17, 'D', "nfs", "sh"}, {}}, true}),
            encode_event(WorkerUse{18, {1'500'000, 20, std::int64_t{1} << 40, 3}})};
}

}  // namespace

TEST_CASE("guardian wire: a blueprint arrives whole, its descriptors by their place") {
    auto order = decode_order(encode_order(StartWorker{full_spec(), true}));
    REQUIRE(order.has_value());
    WorkerSpec spec = std::get<StartWorker>(*order).spec;
    CHECK(std::get<StartWorker>(*order).in_series);
    const WorkerSpec sent = full_spec();
    CHECK(spec.argv == sent.argv);
    CHECK(spec.environment == sent.environment);
    CHECK(spec.rank == sent.rank);
    CHECK(spec.local_rank == sent.local_rank);
    CHECK(spec.standard_input == StreamTarget(GivenDescriptor{-1}));
    CHECK(spec.standard_output == sent.standard_output);
    CHECK(spec.standard_error == StreamTarget(GivenDescriptor{-1}));
    CHECK(spec.ignore_hangup);
    CHECK(spec.takes_terminal);
    CHECK(spec.cpus == sent.cpus);
    CHECK(spec.memory_node == 3);
    CHECK(spec.open_files == 1024);
    CHECK(given_descriptors(sent) == std::vector<int>{31, 32});
    CHECK_FALSE(give_descriptors(spec, std::vector<int>{5}));
    CHECK_FALSE(give_descriptors(spec, std::vector<int>{5, 6, 7}));
    CHECK(give_descriptors(spec, std::vector<int>{5, 6}));
    CHECK(given_descriptors(spec) == std::vector<int>{5, 6});
    const WorkerSpec plain = std::get<StartWorker>(*decode_order(encode_order(StartWorker{}))).spec;
    CHECK(plain.standard_output == StreamTarget(Stdio::inherit));
    CHECK_FALSE(plain.ignore_hangup);
    CHECK_FALSE(plain.takes_terminal);
    CHECK(plain.cpus.empty());
    CHECK(plain.memory_node == -1);
    CHECK(plain.open_files == 0);
}

TEST_CASE("guardian wire: orders and events arrive as they were") {
    CHECK(std::get<SignalWorker>(*decode_order(all_orders()[1])).worker == 12);
    CHECK(std::get<SignalWorker>(*decode_order(all_orders()[1])).signal == 15);
    CHECK(std::get<SignalWorker>(*decode_order(all_orders()[1])).scope == SignalScope::group);
    CHECK(std::get<ForgetWorker>(*decode_order(all_orders()[2])).worker == 13);
    CHECK(std::get<SweepAll>(*decode_order(all_orders()[3])).timeout == std::chrono::seconds(15));
    const auto traces = std::get<LauncherTraces>(*decode_order(all_orders()[5]));
    CHECK(traces.modes_before == std::string("\0b", 2));
    CHECK(traces.modes_set == std::string("s\0", 2));
    CHECK(traces.folder == "/tmp/ddprun_a");
    CHECK(traces.pipe == "/tmp/b");

    const auto events = one_of_each_event();
    CHECK(std::get<Started>(*decode_event(events[0])).pid == 14);
    CHECK(std::get<Started>(*decode_event(events[0])).in_own_cgroup);
    const auto failure = std::get<StartFailure>(*decode_event(events[1]));
    CHECK(failure.error_number == 2);
    CHECK(failure.text == "no\nway");
    CHECK(failure.exit_code == 127);
    CHECK(to_string(std::get<WorkerExited>(*decode_event(events[2])).status) == "exit code 255");
    CHECK(to_string(std::get<WorkerExited>(*decode_event(events[3])).status) ==
          "signal 11 (SIGSEGV, core dumped)");
    CHECK(std::get<WorkerExited>(*decode_event(events[3])).worker == 15);
    CHECK(std::get<GroupGone>(*decode_event(events[4])).worker == 16);
    const auto swept = std::get<SweepResult>(*decode_event(events[5]));
    CHECK(swept.killed == 3);
    CHECK(swept.nothing_left);
    REQUIRE(swept.survivors.size() == 2);
    CHECK(to_string(swept.survivors[0]) == "pid 17 (sh, state D in nfs)");
    const auto used = std::get<WorkerUse>(*decode_event(events[6]));
    CHECK(used.worker == 18);
    CHECK(used.use == ResourceUse{1'500'000, 20, std::int64_t{1} << 40, 3});
}

TEST_CASE("guardian wire: whatever is said comes back") {
    const unsigned seed = std::random_device()();
    INFO("seed " << seed);
    RandomValues values(seed);
    for (int i = 0; i < 2000; ++i) {
        const std::string order = encode_order(values.make<GuardianOrder>());
        REQUIRE(encode_order(decode_order(order).value()) == order);
        const std::string event = encode_event(values.make<GuardianEvent>());
        REQUIRE(encode_event(decode_event(event).value()) == event);
    }
}

TEST_CASE("guardian wire: what is cut, too long or damaged is refused, not believed") {
    auto messages = all_orders();
    messages.front() =
        encode_order(StartWorker{WorkerSpec{.argv = {"a", "b"}, .environment = {{"N", "v"}}}, true});
    for (const std::string& message : messages) {
        for (std::size_t size = 0; size < message.size(); ++size) {
            const auto cut = decode_order(std::string_view(message).substr(0, size));
            CHECK(cut.error() == make_error_code(Errc::protocol_violation));
        }
        CHECK(decode_order(message + "x").has_error());
    }
    const unsigned seed = std::random_device()();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    for (int i = 0; i < 20'000; ++i) {
        std::string message =
            i % 2 == 0 ? messages[random() % messages.size()] : one_of_each_event()[random() % 6];
        for (int damage = 0; damage < 3; ++damage)
            message[random() % message.size()] = static_cast<char>(random());
        // Either answer is right, as long as it comes and takes no more memory than the message has.
        decode_order(message);
        decode_event(message);
    }
}

}  // namespace ddprun
