// failure_report says why a job ended: the first failure and its last words, how the others ended, and what
// is left, on one screen; the same on every node. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "rendezvous/control/control_message.hpp"

namespace ddprun {
inline namespace launch {

// kMaxReportLines: lines of the report at most, whatever the facts are.
inline constexpr std::size_t kMaxReportLines = 30;

struct ReportFacts {
    std::string entry_name;  // what the user calls the program (Program::entry_name)
    // finish is the coordinator's last word. An agent that is left alone fills in what it knows: cause,
    // exit_code and the ends of its own workers.
    Finish finish;
    int restarts = 0;  // how many there were, of `max_restarts` that were allowed
    int max_restarts = 0;
    int resizes = 0;
    std::chrono::seconds utc_offset{0};  // of the time zone in which times are shown
    std::vector<std::string> survivors;  // what is left of the job on this node, in words; normally nothing
    // unknown_nodes: nodes that could not be asked for survivors: the first of them by name, if known, and
    // how many in all.
    std::vector<std::string> unknown_nodes;
    int unknown_node_count = 0;
    std::string logs;  // the logs of the first failure's worker, if they are on this node
};

// Returns lines without "ddprun: " in front (the LauncherLog's part) and without a newline at the end. The
// report's parts in order are below. What does not fit is counted, and the evidence loses its middle.
//
//     train.py failed; first failure: rank 5 (local rank 1) on node 1 (gpu07), pid 4242: exit code 7
//       at 2024-05-01 12:34:56.789 +0200; restarts so far: 1 of 3, the last one because of: rank 3: exit code
//       1
//       cannot start './a.out': no such file     (where a worker could not be started, or a node was lost)
//       others when it failed: ...               (doing_lines())
//       hint: ...
//       its error file says:                     (message and traceback; with it or without:)
//       its last lines on stderr:                (the reason first if it stands above them, see last_words())
//         | ...
//       rank 3 (local rank 3) on node 0 (gpu06), pid 17: failed too, exit code 1
//       ranks 0-2,4: stopped by ddprun, signal 15 (SIGTERM)
//       and 12 more: 12 stopped by ddprun
//       gave up after 3 restarts without progress   (Finish::message)
//       exiting with code 7
//       survivors: 0, unknown on node 1 (gpu07)
//       logs: /tmp/ddprun_AbC123/none_x1Y2z3/attempt_0 (rank 5: 1/stderr.log)   (if there are any here)
std::string failure_report(const ReportFacts& facts);

// Returns the first line of the report, by which the result file, ddpctl and Python tell of the failure, too.
std::string failure_sentence(const std::string& entry_name, const Failure& cause);

// Returns what ranks did when it failed, and those that were left at half of the grace: a line each, if there
// is something to tell.
//
//     others when it failed: rank 3 slept in next_batch (data.py:88); ranks 0-2 waited in all_reduce
//     (train.py:140)
std::vector<std::string> doing_lines(const Failure& failure);

// Says how the ranks besides the first failure ended: at most `room` (at least 1) lines about Finish::others
// and the counts beside it. Each rank has a line if they fit, else all ranks that ended alike share one. The
// last line has the number of those that are not listed.
std::vector<std::string> end_lines(const Finish& finish, std::size_t room);

// Returns "rank 3", "ranks 0-2,5".
std::string ranks_text(std::vector<int> ranks);

}  // namespace launch
}  // namespace ddprun
