// Shrink: from a communicator, ended or not, to one of those of its ranks that go on.
//
// The old communicator's connections are not used, since they may be what has failed: the ranks meet in the
// store again (gathering.hpp), over a connection of its own for each new communicator.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/session/session.hpp"

namespace ddprun::inline detail {

// How long a rank tries to reach the store again; it was there before.
inline constexpr std::chrono::milliseconds kReopenTimeout{5000};

// Where the survivors of the communicator with this nonce meet, the `shrinks`-th time that they shrink it: its secret
// keeps out who was never in it.
std::string shrunk_prefix(std::uint32_t round, const Nonce& nonce, int shrinks);

// Makes this rank's new session. Called by all ranks of the old communicator but the excluded ones. Throws
// CollectiveError: operation `shrink` for what concerns the old ranks, `join` for what happens while the new
// ones connect.
std::unique_ptr<Session> open_shrunk_session(Session& old, std::vector<int> excluded);

}  // namespace ddprun::inline detail
