// A ClusterView is what says on this machine which job it is in: the environment, its own names, and files that schedulers
// name. Plain values, and small questions to them. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/worker/worker_env.hpp"

namespace ddprun::inline launch {

// A longer file that a scheduler names counts as one that cannot be read.
inline constexpr std::size_t kMaxClusterFile = 4 * 1024 * 1024;

struct ClusterView {
    Environment environment;
    std::string host_name;
    std::vector<std::string> addresses;        // numeric, in the system's order, without those of loopback
    std::map<std::string, std::string> files;  // path -> text; what is not in it could not be read
};

// Returns null for what is not set, or empty, and for no name.
const std::string* text_of(const ClusterView& view, std::string_view variable);

// Reads a whole number of at least `lowest`; nothing for anything else.
std::optional<int> number_of(const ClusterView& view, std::string_view variable, int lowest);

// One line about a variable that is set, but to no such number; empty: none.
std::string wrong_number(const ClusterView& view, std::string_view variable, int lowest);

// The first of these variables that is set, and its text.
struct Named {
    std::string name;
    std::string text;
};
std::optional<Named> first_of(const ClusterView& view, const std::vector<std::string_view>& variables);

// Whether a name or an address is this machine's: gpu07 and gpu07.example are one host.
bool is_own_name(const ClusterView& view, const std::string& name);

// Finds where this machine is in the list: by the name of its host, else by one of its addresses. Nothing where it is not, or
// several entries may be meant.
std::optional<int> own_position(const ClusterView& view, const std::vector<std::string>& hosts);

}  // namespace ddprun::inline launch
