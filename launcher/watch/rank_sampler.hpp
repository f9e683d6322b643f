// RankSampler measures what the ranks of this node have done so far, from what the kernel tells of their
// processes; none is stopped, and no memory is read.
//
// For any one thread at a time; a sample takes a millisecond or so for each rank, by which that is not the
// agent's thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/look/kernel_view.hpp"
#include "launcher/verdict/progress_clock.hpp"
#include "launcher/watch/rank_processes.hpp"
#include "rendezvous/job/agent_status.hpp"

namespace ddprun {
inline namespace launch {

// RisingSum adds up counters that come and go, each of which only rises: those of processes, and of
// connections. Pure.
class RisingSum {
  public:
    void take(std::uint64_t key, std::uint64_t count);
    // Forgets the counters that were not taken since the last call. Returns the sum of all that there ever
    // were.
    std::uint64_t sum();

  private:
    struct Counter {
        std::uint64_t count = 0;
        bool is_new = true;
    };
    std::map<std::uint64_t, Counter> counters_;
    std::uint64_t sum_ = 0;
};

// ProcessBytes: what /proc/PID/io tells.
struct ProcessBytes {
    std::uint64_t rchar = 0;  // through caches, too
    std::uint64_t wchar = 0;
    std::uint64_t read_bytes = 0;  // of disks
    std::uint64_t write_bytes = 0;
};
// Reads the file's text; what is missing is 0. Pure.
ProcessBytes parse_process_bytes(std::string_view text);

// ProcessTicks: CPU time that a line of /proc/PID/stat tells, in ticks of the clock.
struct ProcessTicks {
    std::uint64_t own = 0;
    std::uint64_t of_children = 0;  // of those that have ended and were waited for
};
// Reads the line; what is missing is 0. Pure.
ProcessTicks parse_process_ticks(std::string_view line);

// Says whether a thread waits in a system call that does not end by itself after some time. Pure.
bool waits_untimed(const ThreadView& thread);

struct NodeSample {
    std::map<int, RankMeasure> ranks;  // those that run; without their output
    std::string progress_file;         // file_state() of it
};

class RankSampler {
  public:
    // RankSampler: `progress_file` is --progress-file's; empty: none.
    explicit RankSampler(std::string progress_file) : progress_file_(std::move(progress_file)) {}

    NodeSample sample(const AgentStatus& node);

  private:
    // Seen: what is known of a rank from one sample to the next.
    struct Seen {
        pid_t worker = 0;
        pid_t working = 0;
        std::map<pid_t, bool> children;
        std::uint64_t children_so_far = 0;
        RisingSum disk, file, read, written, cpu, traffic;
    };

    RankMeasure measure(const RankProcesses& rank, Seen& seen);
    void add_traffic(const std::vector<RankProcesses>& ranks, bool has_other_nodes, NodeSample& sample);

    const std::string progress_file_;
    std::map<int, Seen> seen_;  // by rank
};

}  // namespace launch
}  // namespace ddprun
