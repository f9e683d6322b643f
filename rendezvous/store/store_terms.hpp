// What a StoreService is told when it is made, and what it tells of itself. Plain values.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "rendezvous/store/store_state.hpp"

namespace ddprun::inline base {

// The sums of memory become smaller where this process may only take little (memory_limit()): an eighth of that each.
struct StoreLimits {
    std::size_t connections = 16384;
    std::size_t pipes = std::size_t{1} << 18;  // clients without a socket, besides
    // A peer that has begun a request must go on with it: in this time it is complete, or another MiB of it has come.
    // Silence is no offence: a legacy client's second connection never says anything.
    std::chrono::milliseconds request_progress{30'000};
    // Replies that nobody takes: closed after this time, or when there are this many bytes of them.
    std::chrono::milliseconds stalled_output{60'000};
    std::size_t pending_output = kMaxReplyLength + kMaxValueLength;
    // Half-received requests and replies not taken yet, of all connections together; values that the store holds, too,
    // do not count. When it is more, those who hold most are closed, but nobody who holds less than a MiB.
    std::size_t buffered = std::size_t{1} << 30;
    // Keys, queues and waits.
    std::size_t stored = kMaxStoreBytes;
};

// Told, on the executor, what the owner's user should know: once, that the store is full, and of what.
using StoreRemark = std::function<void(const std::string& sentence)>;

// No client has this number.
inline constexpr ConnectionId kNoStoreConnection = 0;

struct StoreCounters {
    std::size_t connections = 0;      // open now
    std::size_t keys = 0;             // stored now
    std::size_t bytes = 0;            // stored now, as counted against the limit
    std::uint64_t accepted = 0;       // connections since the start
    std::uint64_t refused = 0;        // of these, closed by us for what the peer did
    std::uint64_t requests = 0;       // since the start
    std::string_view last_refusal{};  // why, for the log
};

}  // namespace ddprun::inline base
