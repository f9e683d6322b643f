#include <fmt/core.h>

#include <csignal>
#include <cstdint>

#include "apps/cli/print.hpp"
#include "apps/ddpctl/command.hpp"
#include "apps/ddpctl/job_output.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/system/quiet_thread.hpp"

namespace ddprun {
inline namespace app {
namespace {

class LogsCommand final : public Command {
  public:
    const char* name() const override { return "logs"; }
    const char* help() const override { return "Print what a detached job has printed"; }
    std::vector<OptionRow> rows() override {
        return {id_row(id_),
                {"--follow,-f", "", "Go on until the job ends", into(follow_)},
                {"--tail", "N", "Only the last N lines", into(tail_, number(0, 1'000'000'000))}};
    }

    int run(const KnownJobs& known) override {
        JobOutput output(known.find(id_));
        if (tail_) output.seek_tail(*tail_);
        if (follow_) {
            output.follow(false);
        } else {
            output.print();
        }
        return 0;
    }

  private:
    std::string id_;
    bool follow_ = false;
    std::optional<std::uint64_t> tail_;  // so many last lines instead of all
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
        const Job job = known.find(id_);
        JobOutput output(job);
        output.seek_tail(kAttachLines);
        if (output.follow(true) == JobOutput::Stop::interrupted) {
            complain(fmt::format("job {} goes on; 'ddpctl attach' follows it again, 'ddpctl kill' ends it",
                                 job.id));
            return kExitSignalBase + SIGINT;
        }
        block_signals();
        const Job ended = known.find(job.id);
        if (ended.end) return ended.end->exit_code;
        complain(fmt::format("job {} is lost: its launcher ended without a result", job.id));
        return kExitUnavailable;
    }

  private:
    static void complain(const std::string& line) { std::fprintf(stderr, "ddpctl: %s\n", line.c_str()); }

    std::string id_;
};

}  // namespace

std::unique_ptr<Command> make_logs_command() { return std::make_unique<LogsCommand>(); }
std::unique_ptr<Command> make_attach_command() { return std::make_unique<AttachCommand>(); }

}  // namespace app
}  // namespace ddprun
