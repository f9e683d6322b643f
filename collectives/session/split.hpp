// Split: from one communicator to several smaller ones, without a store.
//
// Each rank tells the others its colour and its key, over the old one; so all know the same entries, and
// those of one colour make the same list of members from them. A second exchange says that all may be
// dialled: the members' processes have one listener for all communicators of a family. The new ones go on
// when the old one has ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/session/session.hpp"
#include "collectives/wire/frame.hpp"

namespace ddprun {
inline namespace detail {

// A rank tells the others this.
struct SplitEntry {
    std::int32_t color = -1;  // below 0: takes no part
    std::int32_t key = 0;
};

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

// Names where the survivors of the communicator with this nonce meet, the `shrinks`-th time that they shrink
// it: its secret keeps out who was never in it.
std::string shrunk_prefix(std::uint32_t round, const Nonce& nonce, int shrinks);

// Makes this rank's new session. Called by all ranks of the old communicator but the excluded ones. Throws
// CollectiveError: operation `shrink` for what concerns the old ranks, `join` for what happens while the new
// ones connect.
std::unique_ptr<Session> open_shrunk_session(Session& old, std::vector<int> excluded);

// Subgroup: from a communicator to one of those of its ranks that call it. They meet by messages of the old
// one, under a name that the program gives; and in the store where they are so many, on several hosts, that
// each cannot be connected to each other one. As after a split, the two are of one family.

inline constexpr std::size_t kMostByMessages = 32;

// Makes this rank's new session. Throws CollectiveError: operation `subgroup` for what concerns the old
// ranks, `join` for what happens while the new ones connect.
std::unique_ptr<Session> open_subgroup_session(Session& old, const std::vector<int>& ranks,
                                               const std::string& name, const CommunicatorOptions& options);

}  // namespace detail
}  // namespace ddprun
