#include <fmt/core.h>

#include <csignal>
#include <cstdint>

#include "apps/cli/print.hpp"
#include "apps/ddpctl/command.hpp"
#include "apps/ddpctl/job_output.hpp"
#include "apps/ddpctl/running_output.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/job/number_limits.hpp"
#include "rendezvous/system/quiet_thread.hpp"

namespace ddprun {
inline namespace app {
namespace {

class LogsCommand final : public Command {
  public:
    const char* name() const override { return "logs"; }
    const char* help() const override {
        return "Print what a job has printed; of one in the foreground the last MiB of each rank";
    }
    std::vector<OptionRow> rows() override {
        return {
            id_row(id_),
            {"--follow,-f", "", "Go on until the job ends", into(follow_)},
            {"--tail,-n", "N", "Only the last N lines", into(filter_.last, number(0, 1'000'000'000))},
            {"--rank", "R", "Only what this rank has printed, of a job that runs",
             into(filter_.rank, number(0, kMaxRanks - 1))},
            {"--grep", "TEXT", "Only lines with this text, of a job that runs", into(filter_.text, any_text)},
            {"--since", "TIME",
             "Only what was printed in the last so long (90s, 10m, 1h, 2d), of a job that runs",
             into(filter_.age, duration_of)}};
    }

    int run(const KnownJobs& known) override {
        const Job job = known.find_printed(id_);
        if (job.state == JobState::running && (is_in_foreground(job) || filter_.is_set())) {
            refuse_suspended(job);
            if (!print_running_output(job, filter_, follow_).is_whole) known.see_end(job);
            return 0;
        }
        if (filter_.is_set())
            throw UsageError(
                fmt::format("--rank, --grep and --since are for a job that runs; all that {} has printed "
                            "is in {}",
                            job.id, (job.folder / "output").string()));
        JobOutput output(job);
        if (filter_.last) output.seek_tail(*filter_.last);
        if (!follow_) {
            output.print();
            return 0;
        }
        if (job.is_suspended) complain(suspended_text(job));
        output.follow(false);
        known.see_end(job);
        return 0;
    }

  private:
    std::string id_;
    bool follow_ = false;
    LineFilter filter_;
};

// attach shows so many lines of what was printed before.
constexpr std::uint64_t kAttachLines = 10;

class AttachCommand final : public Command {
  public:
    const char* name() const override { return "attach"; }
    const char* help() const override {
        return "Print the last lines, follow the job to its end and exit with its code; Ctrl-C leaves it running";
    }
    std::vector<OptionRow> rows() override { return {id_row(id_)}; }

    int run(const KnownJobs& known) override {
        const Job job = known.find_printed(id_);
        const RunningEnd end = job.state == JobState::running && is_in_foreground(job)
                                   ? follow_in_foreground(job)
                                   : follow_detached(known, job);
        if (end.is_interrupted) {
            complain(fmt::format("job {} goes on; 'ddpctl attach' follows it again, 'ddpctl kill' ends it",
                                 job.id));
            return kExitSignalBase + SIGINT;
        }
        if (end.exit_code) return *end.exit_code;
        known.see_end(job);
        complain(fmt::format("job {} has ended; its launcher did not wait to tell its exit code", job.id));
        return kExitUnavailable;
    }

  private:
    static RunningEnd follow_in_foreground(const Job& job) {
        refuse_suspended(job);
        const OwnedDescriptor interrupts = take_interrupts();
        LineFilter filter;
        filter.last = kAttachLines;
        return print_running_output(job, filter, true, interrupts.get());
    }
    static RunningEnd follow_detached(const KnownJobs& known, const Job& job) {
        JobOutput output(job);
        if (job.is_suspended) complain(suspended_text(job));
        output.seek_tail(kAttachLines);
        if (output.follow(true) == JobOutput::Stop::interrupted) return {.is_interrupted = true};
        block_signals();
        const Job ended = known.find(job.id);
        return {.exit_code = ended.end ? std::optional(ended.end->exit_code) : std::nullopt};
    }

    std::string id_;
};

}  // namespace

std::unique_ptr<Command> make_logs_command() { return std::make_unique<LogsCommand>(); }
std::unique_ptr<Command> make_attach_command() { return std::make_unique<AttachCommand>(); }

}  // namespace app
}  // namespace ddprun
