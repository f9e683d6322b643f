// CallPage is a page of memory in which a process tells which calls of our collectives it makes, for an agent
// that reads the process's memory. Standard library only.
//
// The page is a memfd, so that /proc/PID/maps names it; no descriptor is kept, and forked children do not
// have the page. A communicator has a slot, a cache line of its own. A call is one store, at its begin. What
// else there is to say is written only by a thread that waits for long, between two stores of `turn`, which
// is odd meanwhile; the end is told of a call that has waited.
//
// Nothing in the page is to be believed by a reader: a process may write anything into its memory.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ddprun {
inline namespace base {

// kCallPageName: of the memfd. kCallPageInMaps: how the path of its mapping begins.
inline constexpr char kCallPageName[] = "ddprun-calls";
inline constexpr std::string_view kCallPageInMaps = "/memfd:ddprun-calls";
inline constexpr std::uint64_t kCallPageMagic = 0x534c'4c41'4350'4444;  // "DDPCALLS"
inline constexpr std::uint32_t kCallPageVersion = 1;                    // of the layout
inline constexpr std::size_t kCallSlots = 32;
inline constexpr std::size_t kCallNames = 32;
inline constexpr std::size_t kCallNameSize = 16;
inline constexpr std::size_t kCallAwaited = 8;  // ranks that a slot names
inline constexpr std::size_t kCallLine = 64;

// CallSlotOf is what a communicator tells. The writer's Word is an atomic, the reader's a plain number; they
// lie alike.
template <class Word>
struct alignas(kCallLine) CallSlotOf {
    Word call;   // CallWord; 0: none yet
    Word group;  // equal on all ranks of the communicator, and on those of no other; 0: the slot is free
    Word turn;
    Word waiting_call;  // `call` as it was when a thread began to wait for long; other calls have not waited
    Word since_ns;      // CLOCK_MONOTONIC: when the waiting call began
    Word about;         // WaitWord
    std::array<Word, 2> awaited;  // ranks of the job, four to a word, the first in its lowest bits
};

template <class Word>
struct CallPageOf {
    std::uint64_t magic;
    std::uint32_t version;
    std::uint32_t size;  // bytes of all this
    Word latest;         // the slot of the last call
    alignas(kCallLine) std::array<std::array<char, kCallNameSize>, kCallNames> names;  // by number
    std::array<CallSlotOf<Word>, kCallSlots> slots;
};

using CallPage = CallPageOf<std::atomic<std::uint64_t>>;
using CallPageCopy = CallPageOf<std::uint64_t>;
using CallSlotCopy = CallSlotOf<std::uint64_t>;
static_assert(sizeof(CallPage) == sizeof(CallPageCopy) && sizeof(CallPage) <= 4096);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// CallWord: a call in one word, which grows from call to call.
struct CallWord {
    std::uint64_t number = 0;     // among the rank's collectives in the group, from 1; 40 bits
    std::uint32_t count = 0;      // sends, receives and groups since that one; 16 bits
    std::uint32_t operation = 0;  // the place of its name; 7 bits
    bool is_open = false;         // it has not ended; stays where it has not waited for long

    bool operator==(const CallWord&) const = default;
};

constexpr std::uint64_t to_word(const CallWord& call) {
    constexpr std::uint64_t kMostNumber = (std::uint64_t{1} << 40) - 1;
    return (call.number & kMostNumber) << 24 | std::uint64_t{call.count & 0xffff} << 8 |
           (call.operation & 0x7f) << 1 | (call.is_open ? 1 : 0);
}

constexpr CallWord call_of(std::uint64_t word) {
    return {word >> 24, static_cast<std::uint32_t>(word >> 8 & 0xffff),
            static_cast<std::uint32_t>(word >> 1 & 0x7f), (word & 1) != 0};
}

// WaitWord: which thread waits, and for how many ranks.
struct WaitWord {
    bool is_main = false;       // the process's first thread
    std::uint32_t awaited = 0;  // ranks that are named, kCallAwaited at most

    bool operator==(const WaitWord&) const = default;
};

constexpr std::uint64_t to_word(const WaitWord& wait) {
    return std::uint64_t{wait.awaited & 0xff} << 1 | (wait.is_main ? 1 : 0);
}

constexpr WaitWord wait_of(std::uint64_t word) {
    const auto awaited = static_cast<std::uint32_t>(word >> 1 & 0xff);
    return {(word & 1) != 0, awaited < kCallAwaited ? awaited : static_cast<std::uint32_t>(kCallAwaited)};
}

// kMostCallRank: the largest rank that has room among the awaited.
inline constexpr int kMostCallRank = 0xffff;
inline constexpr std::size_t kCallRanksInWord = 4;
inline constexpr unsigned kCallRankBits = 16;

constexpr int awaited_rank(const std::array<std::uint64_t, 2>& awaited, std::size_t place) {
    const std::uint64_t word = awaited[place / kCallRanksInWord];
    return static_cast<int>(word >> place % kCallRanksInWord * kCallRankBits & kMostCallRank);
}

constexpr void set_awaited_rank(std::array<std::uint64_t, 2>& awaited, std::size_t place, int rank) {
    awaited[place / kCallRanksInWord] |= static_cast<std::uint64_t>(rank)
                                         << place % kCallRanksInWord * kCallRankBits;
}

}  // namespace base
}  // namespace ddprun
