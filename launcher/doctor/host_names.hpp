// The names of several hosts in few words: gpu[01-03,07]. Pure.
#pragma once

#include <string>
#include <vector>

namespace ddprun::inline launch {

// Writes a list as expand_host_list (launcher/cluster) reads it, each name once. Names that differ in their last number only stand
// together, by that number; the rest in the order in which they come.
std::string compressed_hosts(const std::vector<std::string>& hosts);

// Returns what to call each of these nodes: its host's name, with its rank behind it where several have the same one.
std::vector<std::string> node_labels(const std::vector<std::string>& hosts);

}  // namespace ddprun::inline launch
