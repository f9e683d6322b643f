// Lists of CPUs (and of NUMA nodes) as the kernel writes them: "0-3,8". Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::inline launch {

using CpuList = std::vector<int>;  // ascending, each number once

// More than any machine that Linux runs on.
inline constexpr int kMaxCpus = 65536;

// The text may end with a newline, and may be empty. Nothing for another text, and for a number of kMaxCpus or more.
std::optional<CpuList> parse_cpu_list(std::string_view text);

std::string cpu_list_text(const CpuList& cpus);

// Those that are in both.
CpuList common_cpus(const CpuList& one, const CpuList& other);

}  // namespace ddprun::inline launch
