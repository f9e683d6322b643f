#include <fmt/core.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "apps/cli/print.hpp"
#include "apps/ddpctl/command.hpp"
#include "apps/ddpctl/job_text.hpp"
#include "launcher/view/job_socket.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/system/quiet_thread.hpp"

namespace ddprun {
inline namespace app {
namespace {

class KillCommand final : public Command {
  public:
    const char* name() const override { return "kill"; }
    const char* help() const override { return "End the job, with its grace, and wait for its end"; }
    std::vector<OptionRow> rows() override {
        return {id_row(id_),
                {"--signal,-s", "NAME", "The signal that its launcher gets (TERM); -9 is KILL",
                 into(signal_, signal_of)},
                {"--no-wait", "", "Return at once", into(returns_at_once_)}};
    }

    int run(const KnownJobs& known) override {
        const Job job = known.find(id_);
        if (signal_ != SIGKILL) refuse_suspended(job);
        const bool needs_process = !returns_at_once_ || signal_ == SIGKILL;
        const auto launcher = needs_process ? open_launcher(job) : std::nullopt;
        const int process = launcher ? launcher->get() : -1;
        const bool lived = launcher || launcher_lives(job);
        if (lived) {
            if (!send(job, process) || returns_at_once_) return 0;
            pollfd ended{process, POLLIN, 0};
            while (::poll(&ended, 1, -1) < 0 && errno == EINTR) {
            }
        }
        block_signals();
        const auto left = known.after_end(job);
        print(fmt::format("{}: {}\n", job.id, left ? state_text(*left) : "ended"));
        return 0;
    }

  private:
    // True if the signal ends the job. SIGKILL needs nobody to take it.
    bool send(const Job& job, int launcher) const {
        if (signal_ == SIGKILL) {
            if (::syscall(SYS_pidfd_send_signal, launcher, SIGKILL, nullptr, 0) != 0 && errno != ESRCH)
                fail_errno(errno, "cannot kill the launcher");
            return true;
        }
        try {
            const SignalEffect effect = send_signal(job.folder, signal_);
            if (!effect.refusal.empty()) throw UsageError("--signal: " + effect.refusal);
            return effect.ends_job;
        } catch (const Error&) {
            // A launcher that ends at this moment does not answer any more.
            if (launcher_lives(job)) throw;
            return true;
        }
    }

    std::string id_;
    int signal_ = SIGTERM;
    bool returns_at_once_ = false;
};

}  // namespace

std::unique_ptr<Command> make_kill_command() { return std::make_unique<KillCommand>(); }

}  // namespace app
}  // namespace ddprun
