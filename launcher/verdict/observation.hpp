// Observation is what one look at one rank gave. Plain values; agents tell node 0 theirs as text.
//
// Texts have any bytes that a worker may choose. What is made of them, for people or as JSON, is fit to be
// shown (harmless_line).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/look/frame.hpp"
#include "launcher/look/waits/wait_kind.hpp"
#include "rendezvous/codec/description.hpp"

namespace ddprun {
inline namespace launch {

// StackSource: where frames are from.
enum class StackSource {
    proc,  // there are none: only what the kernel tells
    native,
    python,
};
BOOST_DESCRIBE_ENUM(StackSource, proc, native, python)

// CollectiveCall: the last call of a rank that is known, of our collectives or of NCCL's.
struct CollectiveCall {
    std::string operation;     // "all_reduce"; empty: not known
    std::string group;         // of ranks; empty: not known
    std::uint64_t number = 0;  // among the rank's calls in the group, from 1
    // for_ms: how long the rank has been in the call; nothing: the call is over, or that is not known.
    std::optional<std::int64_t> for_ms;
    std::vector<int> awaited;  // ranks that have not come, kMaxAwaited at most

    bool operator==(const CollectiveCall&) const = default;
};
BOOST_DESCRIBE_STRUCT(CollectiveCall, (), (operation, group, number, for_ms, awaited))

// ThreadObservation: a thread beside the main one.
struct ThreadObservation {
    pid_t id = 0;
    std::string name;
    std::optional<Wait> wait;
    std::vector<Frame> frames;

    bool operator==(const ThreadObservation&) const = default;
};
BOOST_DESCRIBE_STRUCT(ThreadObservation, (), (id, name, wait, frames))

// OwnProgress: what a rank gets on with that no other rank has to do with.
struct OwnProgress {
    std::uint64_t read_per_s = 0;  // bytes, of disks and file systems
    std::uint64_t written_per_s = 0;
    bool children = false;  // it has new ones, or they compute

    bool operator==(const OwnProgress&) const = default;
};
BOOST_DESCRIBE_STRUCT(OwnProgress, (), (read_per_s, written_per_s, children))

struct Observation {
    int rank = 0;
    int node = 0;  // group rank
    std::string host;
    pid_t pid = 0;
    std::optional<Wait> wait;   // of the main thread, as the kernel tells it; nothing: that told nothing
    std::vector<Frame> frames;  // of the main thread, the innermost first
    StackSource source = StackSource::proc;
    bool is_collecting = false;              // Python's collector runs
    std::vector<ThreadObservation> threads;  // where they were asked for
    std::optional<CollectiveCall> call;
    std::vector<int> peers;  // ranks at the other ends of those sockets that the main thread waits for
    OwnProgress own;
    std::optional<int> exit_code;  // of a rank that has ended; 128 + N by signal N
    std::string why_unreadable;    // why frames, or all, are missing; empty: they are not

    bool operator==(const Observation&) const = default;
};
BOOST_DESCRIBE_STRUCT(Observation, (),
                      (rank, node, host, pid, wait, frames, source, is_collecting, threads, call, peers, own,
                       exit_code, why_unreadable))

inline constexpr std::size_t kMaxObservations = 1024;
inline constexpr std::size_t kMaxAwaited = 8;
inline constexpr std::size_t kMaxPeers = 1024;
inline constexpr std::size_t kMaxTold = 64;  // threads of a rank

}  // namespace launch
}  // namespace ddprun
