// LauncherTraces says what a launcher puts right at its end; its guardian does that where the launcher was killed.
#pragma once

#include <termios.h>

#include <string>

#include "rendezvous/codec/description.hpp"

namespace ddprun::inline launch {

struct LauncherTraces {
    // These are the modes of the terminal that one worker has or gets, as they were and as the launcher sets them
    // (bytes_of_modes); empty while no worker has it.
    std::string modes_before;
    std::string modes_set;
    std::string folder;  // the launcher's own, in the folder for temporary files
    std::string pipe;    // a named one that it has made; empty for none
};
BOOST_DESCRIBE_STRUCT(LauncherTraces, (), (modes_before, modes_set, folder, pipe))

std::string bytes_of_modes(const termios& modes);

// Restores the terminal's modes unless somebody (a shell) has set others meanwhile, and removes the pipe, and the folder if
// nothing is in it. The caller may be in the background (SIGTTOU is blocked then); -1 for no terminal.
void remove_traces(const LauncherTraces& traces, int terminal) noexcept;

}  // namespace ddprun::inline launch
