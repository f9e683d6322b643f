// Mapping is a part of a process's memory, as /proc/PID/maps has them.
#pragma once

#include <sys/types.h>

#include <boost/system/result.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {
inline namespace launch {

struct Mapping {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;  // behind its last byte
    std::uint64_t offset = 0;
    std::string permissions;  // "r-xp"
    // path: of the file, as the process's own mount namespace has it; "[stack]" and the like; empty: memory
    // of its own. A file that has no name any more ends in " (deleted)".
    std::string path;

    bool holds(std::uintptr_t address) const { return address >= begin && address < end; }
};

// kMaxMappings: more than kernels allow unless they were told to. What is behind them is left out.
inline constexpr std::size_t kMaxMappings = 70'000;

// Reads a line of maps; nothing for a line of another form. Pure.
std::optional<Mapping> parse_mapping(std::string_view line);

// Reads what the process has mapped, by address. Fails with the system's error, EMSGSIZE for a file of more
// than 32 MiB; a process that has ended has no mappings. to_reason() has words for it.
boost::system::result<std::vector<Mapping>> read_mappings(pid_t pid, const std::string& proc = "/proc");

// Returns the mapping that holds the address, of mappings by address; nullptr if none does. Pure.
const Mapping* mapping_of(const std::vector<Mapping>& mappings, std::uintptr_t address);

}  // namespace launch
}  // namespace ddprun
