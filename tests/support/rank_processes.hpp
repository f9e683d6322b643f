// Ranks as processes: the true way to test what happens when one dies.
//
// Starts `world_size` processes of one program with a worker environment each, over a store that this process
// hosts, and collects what each prints. Whatever happens, all are gone when the object is.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "rendezvous/store/store_host.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {

class RankProcesses {
  public:
    // The program's path and arguments; the same for all ranks.
    // `change` may add to each rank's environment.
    RankProcesses(int world_size, const std::vector<std::string>& command,
                  const std::function<void(int rank, Environment&)>& change = {});
    ~RankProcesses();
    RankProcesses(const RankProcesses&) = delete;
    RankProcesses& operator=(const RankProcesses&) = delete;

    struct Result {
        std::string output;   // standard output, to its end
        int wait_status = 0;  // as waitpid gives it
    };

    // Waits until the rank has printed `text`. Throws when it has ended without, or `guard` has passed.
    void wait_for(int rank, const std::string& text, std::chrono::seconds guard);
    // Waits until the rank has ended. Throws when `guard` has passed, with what it has printed so far.
    Result finish(int rank, std::chrono::seconds guard);
    void kill(int rank, int signal);
    // While the rank has not been finished.
    pid_t process_id(int rank) const { return processes_[static_cast<std::size_t>(rank)].pid; }
    // Closes the rank's standard input.
    void close_input(int rank);

  private:
    struct Process {
        pid_t pid = -1;
        int input = -1;
        int output = -1;
        std::string text;
    };

    void start(Process& process, const Environment& environment, const std::vector<std::string>& command);
    // Reads a piece of the output. False at its end.
    bool read_more(Process& process, std::chrono::steady_clock::time_point limit);

    StoreHost store_;
    std::vector<Process> processes_;
};

// Whether the rank has mapped a segment of its communicator's: ranks of one host have, of several hosts each
// with those of its own.
bool shares_memory(const RankProcesses& ranks, int rank);

// A moment of its own for each round; what it is for is that it is arbitrary.
void let_time_pass(std::mt19937& random);

}  // namespace ddprun
