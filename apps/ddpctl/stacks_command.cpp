#include <fmt/core.h>

#include "apps/cli/print.hpp"
#include "apps/ddpctl/command.hpp"
#include "apps/ddpctl/job_text.hpp"
#include "launcher/view/job_socket.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/job/number_limits.hpp"

namespace ddprun {
inline namespace app {
namespace {

class StacksCommand final : public Command {
  public:
    const char* name() const override { return "stacks"; }
    const char* help() const override { return "Show what each rank does at this moment, and where"; }
    std::vector<OptionRow> rows() override {
        return {id_row(id_),
                {"--rank", "R", "Only this rank", into(terms_.rank, number(0, kMaxRanks - 1))},
                {"--threads", "", "All threads of each rank", into(terms_.threads)},
                {"--native", "", "Native calls, too, below Python's", into(terms_.native)},
                {"--json", "", "As one JSON object", into(json_)}};
    }

    int run(const KnownJobs& known) override {
        const Job job = known.find(id_);
        if (job.state == JobState::lost) throw LostJob(job);
        if (job.state != JobState::running)
            throw UsageError(fmt::format("{} has ended; 'ddpctl status {}' says how", job.id, job.id));
        refuse_suspended(job);
        terms_.as_text = !json_;
        try {
            const StacksAnswer answer = ask_stacks(job.folder, terms_);
            if (!answer.refusal.empty()) throw UsageError(refusal_text(answer.refusal));
            print(answer.text);
        } catch (const Error&) {
            // The launcher may have ended since.
            if (!launcher_lives(job)) known.see_end(job);
            throw;
        }
        return 0;
    }

  private:
    std::string refusal_text(const std::string& why) const {
        return terms_.rank ? fmt::format("--rank {}: {}", *terms_.rank, why) : why;
    }

    std::string id_;
    StacksTerms terms_;
    bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_stacks_command() { return std::make_unique<StacksCommand>(); }

}  // namespace app
}  // namespace ddprun
