// JobEnding: what an agent knows of its job when it ends, and what follows from that: exit code, last
// sentence, report, result. Pure; the agent fills it in and shows what comes out.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/launch_options.hpp"
#include "launcher/report/failure_report.hpp"
#include "launcher/report/result_file.hpp"
#include "rendezvous/coordinator/control_message.hpp"

namespace ddprun {

struct JobEnding {
    std::optional<Failure> cause;        // the job's first failure, as far as this node knows it
    std::optional<Finish> finish;        // the coordinator's last word, if it came
    std::optional<Refused> refusal;      // why this node never became part of the job
    int signal = 0;                      // the first terminating signal that this agent was sent
    bool joined = false;                 // a round began here
    RoundReady round;                    // the last one
    std::vector<RankEnd> rank_ends;      // of all nodes as far as this one was told, else of this node
    std::vector<std::string> survivors;  // of this node
    // Nodes that nobody could ask for survivors: the first of them by name, if known, and how many in all.
    std::vector<std::string> unknown_nodes;
    int unknown_node_count = 0;
    std::string logs;                // of the cause's worker, as the report says it
    std::string host;                // this node's
    std::int64_t start_unix_ms = 0;  // of the launcher
    std::int64_t end_unix_ms = 0;
    std::chrono::seconds utc_offset{0};  // of the time zone in which the cause's time is shown
};

// What the launcher ends with.
struct Verdict {
    int exit_code = kExitInternal;
    std::string message;   // one sentence more; empty for none
    bool is_said = false;  // `message` goes to the console: no report follows that would hold it
};

Verdict verdict_of(const JobEnding& ending);

// For failure_report; only where there is a cause.
ReportFacts report_facts(const JobEnding& ending, const Verdict& verdict, const std::string& entry_name);

// For the result file and the agent's watcher.
JobResult job_result(const JobEnding& ending, const Verdict& verdict, const LaunchOptions& options);

}  // namespace ddprun
