// JobKnowledge has what an agent has learnt of its job, and what that means. Pure; what happens then is the
// AgentMachine's.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/agent_machine.hpp"
#include "launcher/agent/feature.hpp"
#include "launcher/agent/launch_options.hpp"
#include "launcher/agent/round_workers.hpp"
#include "launcher/output/launcher_log.hpp"
#include "launcher/report/failure_report.hpp"
#include "rendezvous/control/control_message.hpp"
#include "rendezvous/control/heartbeat.hpp"
#include "rendezvous/job/agent_status.hpp"

namespace ddprun::inline launch {

// A JobEnding has what an agent knows of its job when it ends, and what follows from that: exit code, last
// sentence, report, result. The agent fills it in; all but end_job() is pure.
//
// end_job() is what an agent does last: it finds out what is left of the job, shows why it ended, and writes that down.
// It blocks, on the agent's thread, once the workers are gone and their output is shown.

// It has the part of the result that this node can find out: the job's first failure, the ranks' ends of all nodes as far
// as it was told (else of this node), survivors, unknown nodes, its own name, and the times. job_result adds the rest.
struct JobEnding : JobResult {
    std::optional<Finish> finish;    // the coordinator's last word, if it came
    std::optional<Refused> refusal;  // why this node never became part of the job
    int signal = 0;                  // the first terminating signal that this agent was sent
    std::string signal_reason;       // why it acts as if it had been, where nobody has sent that signal
    std::string no_successor;        // why this node has no coordinator any more, where others may have one
    bool joined = false;             // a round began here
    RoundReady round;                // the last one
    std::string logs;                // of the cause's worker, as the report says it
    std::chrono::seconds utc_offset{0};  // of the time zone in which the cause's time is shown
};

// The launcher ends with this.
struct Verdict {
    int exit_code = kExitInternal;
    std::string message;   // one sentence more; empty for none
    bool is_said = false;  // `message` goes to the console: no report follows that would hold it
};

Verdict verdict_of(const JobEnding& ending);

// Makes the input of failure_report; only where there is a cause.
ReportFacts report_facts(const JobEnding& ending, const Verdict& verdict, const std::string& entry_name);

// Makes what the result file and the features get.
JobResult job_result(const JobEnding& ending, const Verdict& verdict, const LaunchOptions& options);

// Returns what the launcher exits with. `workers` are those of the last round, nullptr if none began here.
int end_job(JobEnding ending, const LaunchOptions& options, const RoundWorkers* workers, LauncherLog& log,
            const Features& features);

class JobKnowledge {
  public:
    explicit JobKnowledge(std::int64_t start_unix_ms) { known_.start_unix_ms = start_unix_ms; }

    // Keeps what the coordinator says; texts of a round, which become the workers', harmless. Nothing if the machine
    // need not hear of it.
    std::optional<AgentEvent> learn(const ControlMessage& message);

    // A worker of this node has failed; told when it has, and again with what is known once all are gone.
    AgentEvent learn_failure(const Failure& failure);
    // A terminating signal has come for this agent; `impatient`: of a user who does not want to wait any more.
    AgentEvent learn_signal(int signal, bool impatient);
    // Returns what the user is told of it at once, before it is learnt; empty where no worker has to end, where it changes nothing,
    // and where another node says it on the screen that all share.
    std::string notice_of(int signal, AgentState state, const LaunchOptions& options) const;
    // It is to act as if it had been sent SIGTERM, for this reason.
    AgentEvent learn_time_is_over(const std::string& reason);
    // The job is never joined, for this reason.
    AgentEvent learn_refusal(const Refused& refused);
    // While a round ran the coordinator was lost, or this node by it; perhaps that is the cause of all. False if something
    // was the cause before.
    bool learn_loss(const CoordinatorLoss& loss, const LaunchOptions& options);

    const RoundReady& round() const { return known_.round; }
    const std::optional<Failure>& first_failure() const { return known_.first_failure; }
    const std::optional<Failure>& own_failure() const { return own_failure_; }
    int signal() const { return known_.signal; }
    bool is_hurried() const { return hurried_; }
    // The coordinator or this agent has said the last word; else nobody says goodbye to the coordinator, since
    // the job still gathers, or that word did not come.
    bool has_last_word() const { return known_.finish || known_.refusal; }

    // Returns what the coordinator is told where the machine says so; nothing for actions that tell it nothing, or how
    // the workers have ended.
    std::optional<ControlMessage> message_for(AgentAction action) const;

    // A signal that one agent was sent reaches the workers of all nodes; everything else ends them by SIGTERM.
    int stop_signal() const;
    // Why workers are stopped, as far as is known, in words that go behind others.
    std::string stop_reason() const;

    AgentStatus status(AgentState state, std::vector<WorkerStatus> workers) const;
    JobEnding ending() const;

  private:
    JobEnding known_;                     // its first failure is the one that the coordinator names
    std::optional<Failure> own_failure_;  // the first one of this node
    bool interrupted_ = false;            // by SIGINT
    bool hurried_ = false;
};

}  // namespace ddprun::inline launch
