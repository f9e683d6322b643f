// A file of hosts, as Open MPI, MPICH, PBS and DeepSpeed have it. Pure.
//
//   # a comment
//   gpu01 slots=8         Open MPI, DeepSpeed; max_slots is passed over
//   alice@gpu[02-04]:8    MPICH, and the brackets of a list
//   gpu05                 one line for each slot, as in a file of PBS, or none said
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/start/host_slots.hpp"

namespace ddprun::inline launch {

// The hosts, at least one; or "FILE:LINE: what is wrong".
std::variant<std::vector<HostSlots>, std::string> parse_host_file(std::string_view text,
                                                                  std::string_view file);

}  // namespace ddprun::inline launch
