// How many tasks each node has, as Slurm writes it: 4(x2),3 is 4 4 3. Pure.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun::inline launch {

// Of at most kMaxListedHosts nodes; or why there are none, which goes behind the text's name ("4(x0): …").
std::variant<std::vector<int>, std::string> expand_task_counts(std::string_view text);

}  // namespace ddprun::inline launch
