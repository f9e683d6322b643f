// with_read_program() reads a program from standard input, or from a pipe as a shell makes it of <(…), which
// is there once. The launcher reads it, and each worker gets all of it for its own standard input.
#pragma once

#include <memory>
#include <string>

#include "apps/ddprun/plan/job_plan.hpp"

namespace ddprun {
inline namespace app {

// kMaxReadProgram: how long a program that is read so may be; a start on several hosts passes it on in one
// frame.
inline constexpr std::size_t kMaxReadProgram = 8 * 1024 * 1024;

// Reads the program where the command line names one to be read, and returns the plan with it: its words, and
// JobPlan::read_program. Nothing is read where the user has said which ranks read standard input
// (--stdin, --tty). Takes until standard input has ended. Throws UsageError: it is a terminal, or empty, or
// holds more than kMaxReadProgram bytes, or a program of another kind, or one of several programs.
JobPlan with_read_program(JobPlan job);

// Returns the plan of an agent that a relay has started, with the program that the starter has read. `path`
// leads to it; empty: there is none.
JobPlan with_starters_program(JobPlan job, const std::string& path);

// Returns that what stands in standard input is not read, where no worker reads it: after --detach, or on
// several hosts. Empty: nothing stands there.
std::string unread_input(const JobPlan& job);

// Returns that rank 0 alone reads what stands in standard input, where a shell's text may run a program from
// it in each worker. Empty: nothing stands there, or the text runs none.
std::string half_read_program(const JobPlan& job);

}  // namespace app
}  // namespace ddprun
