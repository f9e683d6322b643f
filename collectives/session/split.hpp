// open_split_session: from one communicator to several smaller ones, without a store.
//
// Each rank tells the others its colour and its key, over the old communicator. All ranks then know the same
// entries, and ranks of one colour make the same list of members from them. A second exchange says that all
// may be dialled: the members' processes have one listener for all communicators of a family. The new
// communicators go on when the old one has ended.
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

// SplitEntry: what a rank tells the others.
struct SplitEntry {
    std::int32_t color = -1;  // below 0: takes no part
    std::int32_t key = 0;
};

// Returns the old ranks of `rank`'s colour, by key, then by old rank. `rank` takes part.
std::vector<int> split_group(std::span<const SplitEntry> entries, int rank);

// Makes this rank's new session; none for a negative colour. Called by all ranks of the old communicator.
// Throws CollectiveError: operation `split` when the old communicator failed, `join` when only the new one
// did, which leaves the old one alone.
std::unique_ptr<Session> open_split_session(Session& old, int color, int key);

// open_shrunk_session: from a communicator, ended or not, to a new one of the ranks that go on.
//
// The old communicator's connections are not used, since they may be what has failed. The ranks meet in the
// store again (Gathering in session.hpp), over a connection of its own for each new communicator.

// kReopenTimeout: how long a rank tries to reach the store again, which was there before. A host with busy
// processors and ports that strangers call thousands of times a second may take many seconds.
inline constexpr std::chrono::milliseconds kReopenTimeout{30'000};

// Returns where the survivors of the communicator with this nonce meet, the `shrinks`-th time that they
// shrink it. The nonce is secret, which keeps out ranks that were never in the communicator.
std::string shrunk_prefix(std::uint32_t round, const Nonce& nonce, int shrinks);

// Makes this rank's new session. Called by all ranks of the old communicator but the excluded ones. Throws
// CollectiveError: operation `shrink` for what concerns the old ranks, `join` for what happens while the new
// ones connect.
std::unique_ptr<Session> open_shrunk_session(Session& old, std::vector<int> excluded);

// open_subgroup_session: from a communicator to a new one of the ranks that call it. The ranks meet by
// messages of the old one, under a name that the program gives. Where they are so many, on several hosts,
// that not each can be connected to each other, they meet in the store. As after a split, the two
// communicators are of one family.

inline constexpr std::size_t kMostByMessages = 32;

// Makes this rank's new session. Throws CollectiveError: operation `subgroup` for what concerns the old
// ranks, `join` for what happens while the new ones connect.
std::unique_ptr<Session> open_subgroup_session(Session& old, const std::vector<int>& ranks,
                                               const std::string& name, const CommunicatorOptions& options);

}  // namespace detail
}  // namespace ddprun
