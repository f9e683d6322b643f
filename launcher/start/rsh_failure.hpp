// What it means that a remote shell has ended, and whether to try again. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/job/exit_status.hpp"

namespace ddprun::inline launch {

// Connections to one host that are tried before it counts as one that cannot be started.
inline constexpr int kMaxConnects = 3;
// How long the host may then take until its relay answers, a login with a slow profile included.
inline constexpr std::chrono::seconds kHostAnswerTimeout{60};
// The pause before the second connection, doubled each time; the jitter makes it up to twice as long.
inline constexpr std::chrono::milliseconds kFirstConnectPause{400};

// How a remote shell ended, and what it said last on stderr.
struct RshEnd {
    ExitStatus status;
    std::string last_line;
};

// "gpu07: ssh exit 255: Connection refused", with a remedy where the last line is one that is known. `command` is what was
// called, with or without folders.
std::string rsh_failure_text(std::string_view target, std::string_view command, const RshEnd& end);

// A connection that may come about the next time: ssh's own failure, but not who may come in or whose host it is.
bool is_worth_another(const RshEnd& end);

// Before the connection after `failed` ones; `chance` is from 0 to 1.
std::chrono::milliseconds pause_before_next(int failed, double chance);

}  // namespace ddprun::inline launch
