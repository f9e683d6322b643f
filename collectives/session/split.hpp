// Split: from one communicator to several smaller ones, without a store.
//
// Each rank opens a port of its own for the new communicator and tells the others, over the old one, its
// colour, its key, where it listens, and a random number; so all know the same entries, and those of one
// colour make the same table of members from them. The old communicator is not used again by the new one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/session/session.hpp"
#include "collectives/wire/membership.hpp"

namespace ddprun::inline detail {

// A rank tells the others this. Pure, as are the functions on it.
struct SplitEntry {
    std::int32_t color = -1;  // below 0: takes no part
    std::int32_t key = 0;
    Nonce nonce{};        // that of the group's first rank becomes the group's
    Member member;        // where the rank listens; unused if it takes no part
    std::string problem;  // why it cannot listen, else empty

    bool operator==(const SplitEntry&) const = default;
};

// An entry on its way: i32 color, i32 key, 16 bytes nonce, then, filled up with zeros, the member as text, or
// `!` and the problem, cut off if it is longer.
inline constexpr std::size_t kSplitEntrySize = 512;
using SplitBytes = std::array<std::byte, kSplitEntrySize>;

SplitBytes encode(const SplitEntry& entry);
// Nothing if the bytes are no entry.
std::optional<SplitEntry> decode_split_entry(std::span<const std::byte, kSplitEntrySize> bytes);

// The old ranks of `rank`'s colour, by key, then by old rank. `rank` takes part.
std::vector<int> split_group(std::span<const SplitEntry> entries, int rank);

// Makes this rank's new session; none for a negative colour. Called by all ranks of the old communicator.
// Throws CollectiveError: operation `split` when the old communicator failed, `join` when only the new one
// did, which leaves the old one alone.
std::unique_ptr<Session> open_split_session(Session& old, int color, int key);

// Shrink: from a communicator, ended or not, to one of those of its ranks that go on.
//
// The old communicator's connections are not used, since they may be what has failed: the ranks meet in the
// store again (Gathering in session.hpp), over a connection of its own for each new communicator.

// How long a rank tries to reach the store again; it was there before.
inline constexpr std::chrono::milliseconds kReopenTimeout{5000};

// Names where the survivors of the communicator with this nonce meet, the `shrinks`-th time that they shrink it: its secret
// keeps out who was never in it.
std::string shrunk_prefix(std::uint32_t round, const Nonce& nonce, int shrinks);

// Makes this rank's new session. Called by all ranks of the old communicator but the excluded ones. Throws
// CollectiveError: operation `shrink` for what concerns the old ranks, `join` for what happens while the new
// ones connect.
std::unique_ptr<Session> open_shrunk_session(Session& old, std::vector<int> excluded);

// Subgroup: from a communicator to one of those of its ranks that call it, which meet in the store, too, under a name that
// the program gives. As after a split, the two are of one family.

std::string subgroup_prefix(std::uint32_t round, const Nonce& nonce, const std::string& name);

// Makes this rank's new session. Throws CollectiveError: operation `subgroup` for what concerns the old ranks, `join` for
// what happens while the new ones connect.
std::unique_ptr<Session> open_subgroup_session(Session& old, const std::vector<int>& ranks,
                                               const std::string& name, const CommunicatorOptions& options);

}  // namespace ddprun::inline detail
