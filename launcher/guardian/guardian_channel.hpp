// GuardianChannel carries the conversation of the agent and its guardian. GuardianOrder and GuardianEvent are
// what they say to each other, as bytes, and WorkerLease is the lease that they share in memory.
//
// Agent and guardian are the same program on the same machine, so numbers are written as they lie in memory:
//
//     message = i64 kind (place in the variant) + the fields of the struct in order
//     number  = i64          text = u64 length + bytes          list = u64 count + items
//
// A stream that leads to a given descriptor is written as its kind only. The descriptors travel beside the
// message, in the order stdin, stdout, stderr.
#pragma once

#include <boost/system/result.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/process/process_runner.hpp"
#include "rendezvous/control/heartbeat.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace launch {

// kMaxGuardianMessage: more bytes than any start that could succeed needs. The kernel takes no more than 6
// MiB of arguments and environment (three quarters of its greatest stack for them).
inline constexpr std::size_t kMaxGuardianMessage = 8 * 1024 * 1024;

// --- from the agent

struct StartWorker {
    WorkerSpec spec;
    bool in_series = false;  // not to be started if the worker before could not be
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
// WatchLease: the lease (WorkerLease) has a new end that the guardian does not wait for yet: there was no end
// before, or a later one, or one that has passed.
struct WatchLease {};
BOOST_DESCRIBE_STRUCT(WatchLease, (), ())
// GuardianOrder: what the agent sends. LauncherTraces says what the guardian is to clean up at the end.
using GuardianOrder =
    std::variant<StartWorker, SignalWorker, ForgetWorker, SweepAll, WatchLease, LauncherTraces>;

// --- from the guardian

// WorkerExited comes by itself. Started and StartFailure answer StartWorker, SweepResult answers SweepAll.
struct WorkerExited {
    pid_t worker = 0;
    ExitStatus status;
};
BOOST_DESCRIBE_STRUCT(WorkerExited, (), (worker, status))
struct GroupGone {
    pid_t worker = 0;
};
BOOST_DESCRIBE_STRUCT(GroupGone, (), (worker))
// WorkerUse comes before WorkerExited, if it comes.
struct WorkerUse {
    pid_t worker = 0;
    ResourceUse use;
};
BOOST_DESCRIBE_STRUCT(WorkerUse, (), (worker, use))
using GuardianEvent = std::variant<Started, StartFailure, WorkerExited, GroupGone, SweepResult, WorkerUse>;

// --- both

std::string encode_order(const GuardianOrder& order);
std::string encode_event(const GuardianEvent& event);

// decode_order and decode_event return Errc::protocol_violation for bytes that are no message. A given
// descriptor has the number -1 until give_descriptors.
boost::system::result<GuardianOrder> decode_order(std::string_view bytes);
boost::system::result<GuardianEvent> decode_event(std::string_view bytes);

// Returns the numbers of the descriptors that go with the spec, in order.
std::vector<int> given_descriptors(const WorkerSpec& spec);

// Puts the numbers into the spec; false if there are not just as many as it needs.
bool give_descriptors(WorkerSpec& spec, std::span<const int> numbers);

// GuardianChannel is one end of the conversation. Messages keep their borders, descriptors travel beside
// them, and the end of the other process is an event. The channel is a local socket, close-on-exec, not
// blocking. A message too long for the socket's buffer goes through an unnamed file in memory. Used by one
// thread.
class GuardianChannel {
  public:
    // kMaxInline: a longer message is not put into the socket.
    static constexpr std::size_t kMaxInline = 32 * 1024;
    // kMaxDescriptors: as many as there are standard streams.
    static constexpr std::size_t kMaxDescriptors = 3;

    struct Packet {
        std::string bytes;
        std::vector<OwnedDescriptor> descriptors;
        bool incomplete = false;  // this process had no descriptor numbers left for what was sent along
    };
    struct Nothing {};  // not yet
    struct Lost {};     // the other end is closed, as a rule because its process ended

    // Makes both ends, none of them on the numbers 0 to 2. Throws system_error when there are no descriptors
    // left.
    static std::pair<GuardianChannel, GuardianChannel> make_pair();

    explicit GuardianChannel(OwnedDescriptor socket) : socket_(std::move(socket)) {}

    int fd() const { return socket_.get(); }
    void close() { socket_.reset(); }

    // Sends at most kMaxGuardianMessage bytes. Returns 0, or an errno if nothing was sent. EAGAIN: the other
    // end must read first; EPIPE: it is lost; others: the file in memory cannot be had.
    int send(std::string_view bytes, std::span<const int> descriptors = {});

    std::variant<Packet, Nothing, Lost> receive();

  private:
    int send_packet(std::string_view head, std::string_view bytes, std::span<const int> descriptors);

    OwnedDescriptor socket_;
    std::unique_ptr<char[]> buffer_;  // of a packet; not filled with zeros, which each start would pay for
};

// WorkerLease says until when the workers of this node may run without a sign of their agent. The lease is
// memory that the agent and its guardian share. The agent moves the end on. The guardian looks only when the
// end has come, and stops the workers if it has passed (SIGSTOP).
//
// An agent that was stopped cannot stop the workers itself, and the other nodes go on without it. But if all
// nodes stood still, the job goes on with this one. Hence the workers go on if the agent moves the end on
// within the patience of the lease; else the guardian kills them. The patience counts from when the guardian
// itself has seen the end, as it may have stood still, too.
//
// Made by the agent before it forks the guardian. Afterwards each uses its own object, on any one thread.
class WorkerLease {
  public:
    // Makes a lease that never ends if the system has no memory for it.
    WorkerLease();

    // Sets the end of the lease; without one the workers may run for ever.
    void set_end(const std::optional<LeaseEnd>& end) noexcept;
    std::optional<LeaseEnd> end() const noexcept;

  private:
    struct Shared;
    struct Unmap {
        void operator()(Shared* shared) const noexcept;
    };

    std::unique_ptr<Shared, Unmap> shared_;
};

}  // namespace launch
}  // namespace ddprun
