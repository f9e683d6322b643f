#include "apps/cli/print.hpp"
#include "apps/ddpctl/command.hpp"
#include "apps/ddpctl/job_text.hpp"
#include "launcher/wall_clock.hpp"
#include "rendezvous/base/error.hpp"

namespace ddprun {
inline namespace app {
namespace {

class StatusCommand final : public Command {
  public:
    const char* name() const override { return "status"; }
    const char* help() const override { return "Show all nodes and workers, restarts and how the job ended"; }
    std::vector<OptionRow> rows() override {
        return {id_row(id_), {"--json", "", "As one JSON object", into(json_)}};
    }

    int run(const KnownJobs& known) override {
        Job job = known.find(id_);
        std::optional<JobView> status;
        try {
            status = KnownJobs::status_of(job);
        } catch (const Error&) {
            // It may have ended, or been suspended, since it was looked at.
            job = known.find(job.id);
            if (job.state == JobState::running && !job.is_suspended) throw;
        }
        print(json_ ? status_json({job, status, KnownJobs::result_of(job)})
                    : status_text(job, status, unix_time_now_ms()));
        return 0;
    }

  private:
    std::string id_;
    bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_status_command() { return std::make_unique<StatusCommand>(); }

}  // namespace app
}  // namespace ddprun
