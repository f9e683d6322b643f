// A CpuList has CPUs (or NUMA nodes), as the kernel lists them: "0-3,8".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {
inline namespace launch {

using CpuList = std::vector<int>;  // ascending, each number once

// kMaxCpus: more than any machine that Linux runs on.
inline constexpr int kMaxCpus = 65536;

// Reads a text that may end with a newline, and may be empty. Nothing for another text, and for a number of
// kMaxCpus or more.
std::optional<CpuList> parse_cpu_list(std::string_view text);

std::string cpu_list_text(const CpuList& cpus);

// Returns the CPUs that are in both lists.
CpuList common_cpus(const CpuList& one, const CpuList& other);

}  // namespace launch
}  // namespace ddprun
