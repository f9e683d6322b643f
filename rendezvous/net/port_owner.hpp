// Who holds a TCP port: the process behind a listening socket, as /proc shows it.
//
// For messages only. A process of another user, or of another namespace, cannot be seen without privilege;
// then nothing is returned. Callable from any thread; reads files, takes milliseconds.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::inline base {

struct PortOwner {
    pid_t pid = 0;
    std::string command;  // the command line, as shown_command() has it
};

inline constexpr std::size_t kMaxCommandText = 200;

// The arguments, each with its end as /proc has them, joined by blanks and cut at kMaxCommandText. Anybody may have
// written them: what is no printable ASCII becomes '?'. Pure.
std::string shown_command(std::string_view arguments);

// Socket inodes listening on `port`, from the text of /proc/net/tcp or /proc/net/tcp6. Pure.
std::vector<std::uint64_t> listening_inodes(std::string_view proc_net_tcp, std::uint16_t port);

// The first process found that holds a listening socket on `port`.
std::optional<PortOwner> find_port_owner(std::uint16_t port);

}  // namespace ddprun::inline base
