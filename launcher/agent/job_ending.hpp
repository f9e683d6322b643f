// A JobEnding has what an agent knows of its job when it ends. From it follow exit code, last sentence,
// report and result. The agent fills it in. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "launcher/agent/launch_options.hpp"
#include "launcher/report/failure_report.hpp"
#include "launcher/report/result_file.hpp"
#include "rendezvous/control/control_message.hpp"
#include "rendezvous/job/exit_status.hpp"

namespace ddprun {
inline namespace launch {

// A JobEnding has the part of the result that this node can find out; job_result adds the rest. The ranks'
// ends are those of all nodes as far as this node was told, else its own.
struct JobEnding : JobResult {
    std::optional<Finish> finish;    // the coordinator's last word, if it came
    std::optional<Refused> refusal;  // why this node never became part of the job
    int signal = 0;                  // the first terminating signal that this agent was sent
    std::string signal_reason;  // why the agent acts as if it had been sent one, where no process has sent it
    std::string no_successor;   // why this node has no coordinator any more, where other nodes may have one
    bool joined = false;        // a round began here
    RoundReady round;           // the last one
    std::string logs;           // of the cause's worker, as the report says it
    std::chrono::seconds utc_offset{0};  // of the time zone in which the cause's time is shown
};

// Verdict: what the launcher ends with.
struct Verdict {
    int exit_code = kExitInternal;
    std::string message;   // one sentence more; empty for none
    bool is_said = false;  // `message` goes to the console: no report follows that would hold it
};

Verdict verdict_of(const JobEnding& ending);

// Makes the input of failure_report; called only where there is a cause.
ReportFacts report_facts(const JobEnding& ending, const Verdict& verdict, const std::string& entry_name);

// Makes what the result file and the features get.
JobResult job_result(const JobEnding& ending, const Verdict& verdict, const LaunchOptions& options);

}  // namespace launch
}  // namespace ddprun
