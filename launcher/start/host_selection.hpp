// Some hosts of a list, and some of their slots, as DeepSpeed's --include and --exclude name them, or as lists of hosts do. Pure.
//
//   selection = host [ ":" slots ] { separator host [ ":" slots ] }    gpu01@gpu02:0,2-3   gpu[01-03],big:0
//   separator = "@" | ","                                              behind slots, a comma and a number is one more of these
//
// Hosts are named as host_list.hpp has them, without their users; an IPv6 address stands in brackets.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/start/host_slots.hpp"

namespace ddprun::inline launch {

enum class Selection { include, exclude };

// The hosts that are left, in the list's order, at least one; or what is wrong, which goes behind the flag and its value.
// A host whose slots were chosen has their number of workers and names the slots as its devices.
std::variant<std::vector<HostSlots>, std::string> select_hosts(const std::vector<HostSlots>& hosts,
                                                               Selection way, std::string_view text);

}  // namespace ddprun::inline launch
