// read_published_call() reads which call of our collectives a process is in, as the process itself publishes
// it (rendezvous/worker/call_page.hpp).
//
// The process may write anything there: the numbers are checked, and texts are names or empty; that they are
// true is nowhere assumed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/look/mappings.hpp"
#include "launcher/look/memory_reader.hpp"

namespace ddprun {
inline namespace launch {

// PublishedWait: what a thread tells that has waited in its call for long.
struct PublishedWait {
    std::int64_t since_ns = 0;  // CLOCK_MONOTONIC: when the call began
    bool is_main = false;       // the process's first thread
    std::vector<int> awaited;   // ranks of the job that have not come, kCallAwaited at most

    bool operator==(const PublishedWait&) const = default;
};

struct PublishedCall {
    std::string operation;       // "all_reduce"; empty: not known
    std::string group;           // of ranks; equal on all of them, and on those of no other
    std::uint64_t number = 0;    // among the rank's calls in the group, from 1
    std::uint64_t position = 0;  // grows with each call in the group, with those that have no number, too
    std::optional<PublishedWait> wait;

    bool operator==(const PublishedCall&) const = default;
};

// Says whether the process uses our collectives.
bool publishes_calls(const std::vector<Mapping>& mappings);

// Returns the call in which the first thread waits, else that in which another one waits, else the last;
// nothing where there was none.
std::optional<PublishedCall> read_published_call(const MemoryReader& memory,
                                                 const std::vector<Mapping>& mappings);

}  // namespace launch
}  // namespace ddprun
