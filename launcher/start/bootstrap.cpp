#include "launcher/start/bootstrap.hpp"

#include <fmt/core.h>

namespace ddprun::inline launch {
namespace {

constexpr std::string_view kNeedLine = "ddprun-relay need";

// The file goes into a folder that nobody else may look into; the relay removes it as the first thing it does, and the shell if
// it never becomes that. `wc` finds out whether the connection broke on the way.
constexpr std::string_view kShipping =
    R"sh(umask 077;d=$(mktemp -d "${{TMPDIR:-/tmp}}/ddprun_relay_XXXXXX")||exit 73;)sh"
    R"sh(trap "rm -rf \"$d\"" EXIT;trap "exit 1" HUP INT TERM;)sh"
    R"sh(head -c {0} >"$d/ddprun"&&[ "$(wc -c <"$d/ddprun")" -eq {0} ]&&chmod 700 "$d/ddprun"&&)sh"
    R"sh(exec "$d/ddprun" {1} {2} "$d")sh";

}  // namespace

std::string shell_quoted(std::string_view text) {
    std::string quoted = "'";
    for (const char c : text) {
        if (c == '\'') {
            quoted += R"('\'')";
        } else {
            quoted += c;
        }
    }
    return quoted += '\'';
}

std::string bootstrap_line(const BootstrapRequest& request) {
    // The relay is not put in the shell's place: only by how it ends the shell knows whether it is of this build. A signal
    // to both ends neither before the agent has ended.
    const std::string script = fmt::format(
        R"sh(trap : INT TERM;p={};[ -x "$p" ]||p=ddprun;"$p" {} {};c=$?;case $c in 2|{}|126|127);;*)exit $c;;esac;echo {};{})sh",
        shell_quoted(request.file), kRelayFlag, request.identity, kExitOtherBuild, kNeedLine,
        request.ships ? fmt::format(kShipping, request.size, kRelayFlag, request.identity) : "exit 0");
    return "exec /bin/sh -c " + shell_quoted(script);
}

Handshake::Word Handshake::push(std::string_view bytes) {
    held_ += bytes;
    for (auto end = held_.find('\n'); end != std::string::npos; end = held_.find('\n')) {
        std::string line = held_.substr(0, end);
        held_.erase(0, end + 1);
        passed_ += end + 1;
        if (line.ends_with('\r')) line.pop_back();
        // A shell's noise may end without a newline.
        if (line.ends_with(kHaveLine)) return Word::have;
        if (line.ends_with(kNeedLine)) return Word::need;
        noise_ = std::move(line);
    }
    return passed_ + held_.size() > kMaxNoise ? Word::too_much : Word::none;
}

}  // namespace ddprun::inline launch
