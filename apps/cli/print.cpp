#include "apps/cli/print.hpp"

#include <cerrno>
#include <cstdio>

#include "rendezvous/system/error.hpp"

namespace ddprun::inline app {

void print(const std::string& text) {
    const bool is_written = std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
    if (!is_written && errno != EPIPE) fail_errno(errno, "cannot write to stdout");
}

}  // namespace ddprun::inline app
