// Lists of hosts in files and variables that batch systems write, one word or line for each slot or host. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/cluster/family.hpp"
#include "launcher/cluster/host_list.hpp"

namespace ddprun::inline launch {

// Without the blanks and line ends between them; at most kMaxListedHosts times as many slots as a host may have.
std::vector<std::string_view> words_between_blanks(std::string_view text);

// A word for each slot: the hosts in the order in which they come first, and how often each comes.
std::vector<ListedHost> count_repeats(const std::vector<std::string_view>& words);

// The text of the file whose path the variable holds; null where it is not set, or could not be read.
const std::string* named_file(const ClusterView& view, std::string_view variable);

// One line where a variable counts other hosts than a list has; empty: they agree, or one of them is not there.
std::string count_conflict(std::string_view variable, std::optional<int> count, std::string_view list,
                           const std::vector<ListedHost>& hosts);

// Of a batch system's hosts: how many, which of them this machine is, and that they meet at the first.
void claim_listed_hosts(const ClusterView& view, FamilyFacts& facts);

}  // namespace ddprun::inline launch
