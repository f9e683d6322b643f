// Sends signals to a worker and its process group as a SignalScope says. The thin shell around
// signal_receivers: reads /proc, at the moment of the signal. Blocking, short.
#pragma once

#include <sys/types.h>

#include <filesystem>

#include "launcher/process/process_table.hpp"
#include "launcher/process/signal_scope.hpp"

namespace ddprun::inline launch {

// What the caller, who reaps it, knows of a worker.
struct SignalTarget {
    pid_t leader = 0;           // also the number of the process group
    bool leader_ended = false;  // and was reaped, so that its number names the group only
};

// Who was sent the last signal that asked for something, besides the leader.
struct ToldProcesses {
    bool all = false;
    ProcessSet some;
    bool leader_handles_term = false;  // when it was sent
};

// Sends the signal, and keeps `told` up to date. SIGKILL, SIGSTOP and SIGCONT ask for nothing and go to all.
// Where /proc does not tell who does what, all get the others as well.
void deliver_signal(const SignalTarget& target, int signal, SignalScope scope, ToldProcesses& told,
                    const std::filesystem::path& proc = "/proc");

// Sends the signal to just this process, be it our child or not.
void signal_process(const ProcessStat& process, int signal);

}  // namespace ddprun::inline launch
