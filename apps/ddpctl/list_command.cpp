#include "apps/cli/print.hpp"
#include "apps/ddpctl/command.hpp"
#include "apps/ddpctl/job_output.hpp"
#include "apps/ddpctl/job_text.hpp"
#include "launcher/wall_clock.hpp"

namespace ddprun {
inline namespace app {
namespace {

class ListCommand final : public Command {
  public:
    const char* name() const override { return "list"; }
    const char* help() const override {
        return "List the jobs: running, and the last detached ones that ended";
    }
    std::vector<OptionRow> rows() override {
        return {{"--json", "", "As a JSON array, for programs", into(json_)}};
    }

    int run(const KnownJobs& known) override {
        const std::vector<Job> jobs = known.all();
        if (!json_) {
            print(list_text(jobs, unix_time_now_ms()));
            for (const Job& job : jobs) {
                if (job.is_suspended) complain(suspended_text(job));
            }
            return 0;
        }
        print(list_json(KnownJobs::facts_of(jobs), unix_time_now_ms()));
        return 0;
    }

  private:
    bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_list_command() { return std::make_unique<ListCommand>(); }

}  // namespace app
}  // namespace ddprun
