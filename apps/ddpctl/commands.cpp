#include "apps/ddpctl/commands.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "apps/ddpctl/job_output.hpp"
#include "apps/ddpctl/job_text.hpp"
#include "apps/ddprun/option_values.hpp"
#include "launcher/job_control_client.hpp"
#include "launcher/small_file.hpp"
#include "launcher/wall_clock.hpp"
#include "rendezvous/control_message.hpp"
#include "rendezvous/error.hpp"

namespace ddprun {
namespace {

// What attach shows of what was printed before.
constexpr std::uint64_t kAttachLines = 10;
constexpr std::size_t kMaxResultShown = 64 << 20;

void print(const std::string& text) {
    if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0)
        fail_errno(errno, "cannot write to stdout");
}

void say(const std::string& line) { std::fprintf(stderr, "ddpctl: %s\n", line.c_str()); }

// The commands, each an overload for std::visit.
class Commands {
  public:
    explicit Commands(const std::filesystem::path& jobs) : jobs_(jobs) {}

    int operator()(const ShowCommand& command) const {
        print(command.text);
        return 0;
    }

    int operator()(const ListCommand&) const {
        print(list_text(all(), unix_time_now_ms()));
        return 0;
    }

    int operator()(const StatusCommand& command) const {
        Job job = find(command.id);
        std::optional<AgentStatus> status;
        if (job.state == JobState::running) {
            try {
                status = ask_job(job.folder, StatusRequest{}).status;
            } catch (const Error&) {
                // It may have ended since it was looked at.
                job = find(job.id);
                if (job.state == JobState::running) throw;
            }
        }
        if (!command.json) {
            print(status_text(job, status, unix_time_now_ms()));
            return 0;
        }
        const auto result = read_small_file(job.folder / "result.json", kMaxResultShown);
        print(status_json(job, status, result.has_value() ? std::optional(*result) : std::nullopt));
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
            say("job " + job.id + " goes on; 'ddpctl attach' follows it again, 'ddpctl kill' ends it");
            return kExitSignalBase + SIGINT;
        }
        return exit_code_of(find(job.id));
    }

    int operator()(const KillCommand& command) const {
        const Job job = find(command.id);
        const auto launcher = job.record ? open_launcher(*job.record) : std::nullopt;
        if (launcher && send(job, launcher->get(), command.signal) && command.wait) {
            pollfd ended{launcher->get(), POLLIN, 0};
            while (::poll(&ended, 1, -1) < 0 && errno == EINTR) {
            }
        }
        if (launcher && (!command.wait || launcher_lives(*job.record))) return 0;
        print(job.id + ": " + state_text(find(job.id)) + "\n");
        return 0;
    }

  private:
    std::vector<Job> all() const { return is_private_folder(jobs_) ? list_jobs(jobs_) : std::vector<Job>(); }

    Job find(const std::string& id) const {
        auto found = find_job(all(), id);
        if (const auto* why = std::get_if<std::string>(&found)) throw UsageError(*why);
        return std::get<Job>(found);
    }

    static int exit_code_of(const Job& job) {
        if (job.end) return job.end->exit_code;
        say("job " + job.id + " is lost: its launcher ended without a result");
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
            if (launcher_lives(*job.record)) throw;
            return true;
        }
    }

    std::filesystem::path jobs_;
};

}  // namespace

int run_control_command(const ControlCommand& command, const std::filesystem::path& jobs) {
    return std::visit(Commands(jobs), command);
}

}  // namespace ddprun
