// HostIdentity: by which ranks know that they are on one host. Containers that do not see each other's processes are hosts of
// their own, since memory is handed over by a process's number; but those that share an IPC namespace have memory with
// numbers of its own (shared_memory.hpp), and are one.
#pragma once

#include <optional>
#include <string>

#include "collectives/wire/membership.hpp"

namespace ddprun::inline detail {

// This host's: `<name>/<boot>/<namespace of its processes>`, without blanks.
std::string host_identity();

// What a rank tells the others: what a user has `given`, else its identity and behind it its IPC namespace, `/ipc:[…]`.
std::string told_identity(const std::string& given);

// Makes one host, `<name>/<boot>/<IPC namespace>`, of a machine's containers that share such a namespace, unless hosts would
// then have different numbers of ranks; of what all others have told, their identities. Returns what it is with each
// container a host. Pure.
Membership join_containers(Membership& membership);

// One line without its end, where ranks of one machine are in several such containers; of the first of those ranks, for all.
// Pure.
std::optional<std::string> notice_of_containers(const Membership& membership);

}  // namespace ddprun::inline detail
