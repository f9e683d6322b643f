// take_read_program() reads a program from standard input, or from a pipe as a shell makes it of <(…), which
// is there once. The launcher reads it, and each worker gets all of it for its own standard input.
#pragma once

#include <memory>
#include <string>

#include "apps/ddprun/options/command_line.hpp"

namespace ddprun {
inline namespace app {

// kMaxReadProgram: how long a program that is read so may be; a start on several hosts passes it on in one
// frame.
inline constexpr std::size_t kMaxReadProgram = 8 * 1024 * 1024;

// Reads the program where the command line names one to be read, and says so in the line: words, and
// LaunchOptions::read_program. Nothing is read where the user has said which ranks read standard input
// (--stdin, --tty). Takes until standard input has ended. Throws UsageError: it is a terminal, or empty, or
// holds more than kMaxReadProgram bytes, or a program of another kind, or one of several programs.
void take_read_program(CommandLine& line);

// Takes the program for an agent that a relay has started: the starter has read it. `path` leads to it.
void take_starters_program(CommandLine& line, const std::string& path);

// Returns that what stands in standard input is not read, where no worker reads it: after --detach, or on
// several hosts. Empty: nothing stands there.
std::string unread_input(const CommandLine& line);

// Returns that rank 0 alone reads what stands in standard input, where a shell's text may run a program from
// it in each worker. Empty: nothing stands there, or the text runs none.
std::string half_read_program(const CommandLine& line);

}  // namespace app
}  // namespace ddprun
