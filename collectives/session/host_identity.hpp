// HostIdentity: by which ranks know that they are on one host. Containers that do not see each other's processes are hosts of
// their own: memory is handed over by a process's number.
#pragma once

#include <optional>
#include <string>

#include "collectives/wire/membership.hpp"

namespace ddprun::inline detail {

// This host's: `<name>/<boot>/<namespace of its processes>`, without blanks.
std::string host_identity();

// One line without its end, where ranks of one machine are in several such containers; of the first of those ranks, for all.
// Pure.
std::optional<std::string> notice_of_containers(const Membership& membership);

}  // namespace ddprun::inline detail
