// host_identity: the texts by which ranks know that they are on one host. Containers that do not see each
// other's processes are hosts of their own, since memory is handed over by a process's number. Containers
// that share an IPC namespace have memory with numbers of its own (shared_memory.hpp), and are one.
#pragma once

#include <optional>
#include <string>

#include "collectives/wire/membership.hpp"

namespace ddprun {
inline namespace detail {

// Returns this host's identity: `<name>/<boot>/<namespace of its processes>`, without blanks.
std::string host_identity();

// Returns where memory has numbers that this process and others of its user can map: `<boot>/<IPC
// namespace>/<user>`, without blanks. Empty where the system has none, or refuses it.
std::string memory_numbers();

// Makes one host of a machine's containers that share memory numbers. Does not if one host would have too
// many ranks, or hosts would then differ in their numbers of ranks. Undoes earlier joins of members first.
// Pure.
void join_containers(Membership& membership);

// Returns one line, without its end, where ranks of one machine are in several such containers, and are not
// joined or, without `joined_share`, share no memory. Only the first of those ranks gets the line, for all.
// Pure.
std::optional<std::string> notice_of_containers(Membership membership, bool joined_share = true);

}  // namespace detail
}  // namespace ddprun
