// HostSlots are a host on which a job is to be started, and its slots. The functions read hosts as users
// write them: a list, a file, and a selection of these. Pure.
//
//   list  = item { separator item }                      separator = a comma, blanks and newlines, or both
//   item  = [ user "@" ] name [ ":" slots ]              gpu[01-04]:8
//   name  = as host_list.hpp has it, brackets included   or an IPv6 address in brackets: [fd00::1]:8
//
// A host that is named again gets further slots: one where no number is given, as in a file of PBS.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

namespace ddprun {
inline namespace launch {

inline constexpr int kUnsaidSlots = -1;

struct HostSlots {
    std::string target;        // for the remote shell: with the user, an IPv6 address without brackets
    int slots = kUnsaidSlots;  // workers there
    std::string devices = {};  // which of its slots were chosen ("0,2"); empty: no choice was made

    bool operator==(const HostSlots&) const = default;
};

// Returns the target without its user.
std::string host_of(std::string_view target);

// HostCollection: hosts in the order in which they were named first.
class HostCollection {
  public:
    // Adds one item; `slots` are those said beside it, in a file. Returns what is wrong with the item.
    std::optional<std::string> add(std::string_view item, std::optional<int> slots = std::nullopt);

    std::vector<HostSlots> take() { return std::move(hosts_); }

  private:
    void add_host(const std::string& target, int slots);

    std::vector<HostSlots> hosts_;
    std::unordered_map<std::string, std::size_t> places_;
};

// Reads a number of slots, 0 to kMaxWorkersPerNode; nothing for another text.
std::optional<int> parse_slots(std::string_view text);

// Returns the names of one item without user and slots, brackets expanded; or what is wrong with it.
std::variant<std::vector<std::string>, std::string> names_of_item(std::string_view text);

// Makes "ITEM: what is wrong", for a list of several.
std::string named_item(std::string_view item, std::string_view wrong);

// Returns the hosts, at least one; or why there are none, which goes behind the list and its name.
std::variant<std::vector<HostSlots>, std::string> parse_hosts(std::string_view text);

// Reads a file of hosts, as Open MPI, MPICH, PBS and DeepSpeed have it:
//
//   # a comment
//   gpu01 slots=8         Open MPI, DeepSpeed; max_slots is passed over
//   alice@gpu[02-04]:8    MPICH, and the brackets of a list
//   gpu05                 one line for each slot, as in a file of PBS, or none said
//
// Returns the hosts, at least one; or "FILE:LINE: what is wrong".
std::variant<std::vector<HostSlots>, std::string> parse_host_file(std::string_view text,
                                                                  std::string_view file);

// Selection says how some hosts of a list, and some of their slots, are chosen, as DeepSpeed's --include and
// --exclude do, or as lists of hosts do:
//
//   selection = host [ ":" slots ] { separator host [ ":" slots ] }    gpu01@gpu02:0,2-3   gpu[01-03],big:0
//   separator = "@" | ","                                              behind slots, a comma and a number is
//                                                                      one more of these
//
// Hosts are named as host_list.hpp has them, without their users; an IPv6 address stands in brackets.
enum class Selection { include, exclude };

// Returns the hosts that the selection keeps, in the list's order, at least one; or what is wrong, for the
// end of a line that names the flag and its value. A host with chosen slots has that number of workers, and
// the slots as its devices.
std::variant<std::vector<HostSlots>, std::string> select_hosts(const std::vector<HostSlots>& hosts,
                                                               Selection way, std::string_view text);

}  // namespace launch
}  // namespace ddprun
