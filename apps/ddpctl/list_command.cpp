#include "apps/cli/print.hpp"
#include "apps/ddpctl/command.hpp"
#include "apps/ddpctl/job_text.hpp"
#include "launcher/wall_clock.hpp"
#include "rendezvous/base/error.hpp"

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
            return 0;
        }
        std::vector<JobFacts> facts;
        for (const Job& job : jobs) {
            facts.push_back({job, std::nullopt, KnownJobs::result_of(job)});
            try {
                facts.back().status = KnownJobs::status_of(job);
            } catch (const Error&) {
                // A job that has ended since, or does not answer, does not keep the others from being listed.
            }
        }
        print(list_json(facts, unix_time_now_ms()));
        return 0;
    }

  private:
    bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_list_command() { return std::make_unique<ListCommand>(); }

}  // namespace app
}  // namespace ddprun
