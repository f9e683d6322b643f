#include "apps/ddpctl/commands.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "apps/cli/option_values.hpp"
#include "apps/cli/print.hpp"
#include "apps/ddpctl/job_output.hpp"
#include "apps/ddpctl/job_text.hpp"
#include "apps/ddpctl/rerun.hpp"
#include "launcher/jobs/job_control_client.hpp"
#include "launcher/jobs/job_folder.hpp"
#include "launcher/wall_clock.hpp"
#include "rendezvous/control/control_message.hpp"
#include "rendezvous/system/error.hpp"
#include "rendezvous/system/small_file.hpp"

namespace ddprun::inline app {
namespace {

// What attach shows of what was printed before.
constexpr std::uint64_t kAttachLines = 10;
constexpr std::size_t kMaxResultShown = 64 << 20;

void say(const std::string& line) { std::fprintf(stderr, "ddpctl: %s\n", line.c_str()); }

// The commands, each an overload for std::visit.
class Commands {
  public:
    explicit Commands(const std::filesystem::path& jobs) : jobs_(jobs) {}

    int operator()(const ShowCommand& command) const {
        print(command.text);
        return 0;
    }

    int operator()(const ListCommand& command) const {
        const std::vector<Job> jobs = all();
        if (!command.json) {
            print(list_text(jobs, unix_time_now_ms()));
            return 0;
        }
        std::vector<JobFacts> facts;
        for (const Job& job : jobs) {
            facts.push_back({job, std::nullopt, read_result(job)});
            try {
                facts.back().status = status_of(job);
            } catch (const Error&) {
                // One that has ended since, or does not answer, does not keep the others from being listed.
            }
        }
        print(list_json(facts));
        return 0;
    }

    int operator()(const StatusCommand& command) const {
        Job job = find(command.id);
        std::optional<AgentStatus> status;
        try {
            status = status_of(job);
        } catch (const Error&) {
            // It may have ended since it was looked at.
            job = find(job.id);
            if (job.state == JobState::running) throw;
        }
        print(command.json ? status_json({job, status, read_result(job)})
                           : status_text(job, status, unix_time_now_ms()));
        return 0;
    }

    int operator()(const LogsCommand& command) const {
        JobOutput output(find(command.id));
        if (command.tail) output.seek_tail(*command.tail);
        if (command.follow) {
            output.follow(false);
        } else {
            output.print();
        }
        return 0;
    }

    int operator()(const AttachCommand& command) const {
        const Job job = find(command.id);
        JobOutput output(job);
        output.seek_tail(kAttachLines);
        if (output.follow(true) == JobOutput::Stop::interrupted) {
            say(fmt::format("job {} goes on; 'ddpctl attach' follows it again, 'ddpctl kill' ends it",
                            job.id));
            return kExitSignalBase + SIGINT;
        }
        return exit_code_of(find(job.id));
    }

    int operator()(const KillCommand& command) const {
        const Job job = find(command.id);
        const bool needs_process = command.wait || command.signal == SIGKILL;
        const auto launcher = needs_process ? open_launcher(job) : std::nullopt;
        const int process = launcher ? launcher->get() : -1;
        const bool lived = launcher || launcher_lives(job);
        if (lived && send(job, process, command.signal) && command.wait) {
            pollfd ended{process, POLLIN, 0};
            while (::poll(&ended, 1, -1) < 0 && errno == EINTR) {
            }
        }
        if (lived && (!command.wait || launcher_lives(job))) return 0;
        print(fmt::format("{}: {}\n", job.id, state_text(find(job.id))));
        return 0;
    }

    int operator()(const RerunCommand& command) const { return run_again(command); }

  private:
    std::vector<Job> all() const { return is_private_folder(jobs_) ? list_jobs(jobs_) : std::vector<Job>(); }

    Job find(const std::string& id) const { return value_or_throw<UsageError>(find_job(all(), id)); }

    static std::optional<AgentStatus> status_of(const Job& job) {
        if (job.state != JobState::running) return std::nullopt;
        return ask_job(job.folder, StatusRequest{}).status;
    }

    static std::optional<std::string> read_result(const Job& job) {
        const auto result = read_small_file(job.folder / "result.json", kMaxResultShown);
        return result.has_value() ? std::optional(*result) : std::nullopt;
    }

    static int exit_code_of(const Job& job) {
        if (job.end) return job.end->exit_code;
        say(fmt::format("job {} is lost: its launcher ended without a result", job.id));
        return kExitUnavailable;
    }

    // True if the signal ends the job. SIGKILL needs nobody to take it.
    static bool send(const Job& job, int launcher, int signal) {
        if (signal == SIGKILL) {
            if (::syscall(SYS_pidfd_send_signal, launcher, SIGKILL, nullptr, 0) != 0 && errno != ESRCH)
                fail_errno(errno, "cannot kill the launcher");
            return true;
        }
        try {
            const ControlReply reply = ask_job(job.folder, SignalRequest{signal});
            if (!reply.error.empty()) throw UsageError("--signal: " + reply.error);
            return reply.ends_job;
        } catch (const Error&) {
            // One that ends at this moment does not answer any more.
            if (launcher_lives(job)) throw;
            return true;
        }
    }

    std::filesystem::path jobs_;
};

}  // namespace

int run_control_command(const ControlCommand& command, const std::filesystem::path& jobs) {
    return std::visit(Commands(jobs), command);
}

}  // namespace ddprun::inline app
