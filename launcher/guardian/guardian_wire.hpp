// What the agent and its guardian say to each other, as bytes. Pure.
//
// Both are the same program on the same machine, so numbers are written as they lie in memory:
//
//     message = i64 kind (place in the variant) + the fields of the struct in order
//     number  = i64          text = u64 length + bytes          list = u64 count + items
//
// A stream that leads to a given descriptor is written as its kind only; the descriptors travel beside the
// message, in the order stdin, stdout, stderr.
#pragma once

#include <boost/system/result.hpp>
#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/process/process_runner.hpp"

namespace ddprun::inline launch {

// The kernel takes no more than 6 MiB of arguments and environment (three quarters of its greatest stack for
// them), so a longer message cannot be one that would have succeeded.
inline constexpr std::size_t kMaxGuardianMessage = 8 * 1024 * 1024;

// --- from the agent

struct StartWorker {
    WorkerSpec spec;
    bool in_series = false;  // not to be started if the one before could not be
};
BOOST_DESCRIBE_STRUCT(StartWorker, (), (spec, in_series))
struct SignalWorker {
    pid_t worker = 0;
    int signal = 0;
    SignalScope scope = SignalScope::automatic;
};
BOOST_DESCRIBE_STRUCT(SignalWorker, (), (worker, signal, scope))
struct ForgetWorker {
    pid_t worker = 0;
};
BOOST_DESCRIBE_STRUCT(ForgetWorker, (), (worker))
struct SweepAll {
    std::chrono::milliseconds timeout{0};
};
BOOST_DESCRIBE_STRUCT(SweepAll, (), (timeout))
// The lease has an end that the guardian does not wait for (WorkerLease): it had none, or it was later, or is over.
struct WatchLease {};
BOOST_DESCRIBE_STRUCT(WatchLease, (), ())
// LauncherTraces: what is to be put right at the end from now on.
using GuardianOrder =
    std::variant<StartWorker, SignalWorker, ForgetWorker, SweepAll, WatchLease, LauncherTraces>;

// --- from the guardian

// Started and StartFailure answer StartWorker, SweepResult answers SweepAll.
struct WorkerExited {
    pid_t worker = 0;
    ExitStatus status;
};
BOOST_DESCRIBE_STRUCT(WorkerExited, (), (worker, status))
struct GroupGone {
    pid_t worker = 0;
};
BOOST_DESCRIBE_STRUCT(GroupGone, (), (worker))
// Before WorkerExited, if it comes.
struct WorkerUse {
    pid_t worker = 0;
    ResourceUse use;
};
BOOST_DESCRIBE_STRUCT(WorkerUse, (), (worker, use))
using GuardianEvent = std::variant<Started, StartFailure, WorkerExited, GroupGone, SweepResult, WorkerUse>;

// --- both

std::string encode_order(const GuardianOrder& order);
std::string encode_event(const GuardianEvent& event);

// Errc::protocol_violation for bytes that are no message. A given descriptor has the number -1 until
// give_descriptors.
boost::system::result<GuardianOrder> decode_order(std::string_view bytes);
boost::system::result<GuardianEvent> decode_event(std::string_view bytes);

// The numbers of the descriptors that go with the spec, in order.
std::vector<int> given_descriptors(const WorkerSpec& spec);

// The reverse: puts the numbers in. False if there are not just as many as the spec needs.
bool give_descriptors(WorkerSpec& spec, std::span<const int> numbers);

}  // namespace ddprun::inline launch
