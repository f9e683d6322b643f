#include "apps/cli/print.hpp"
#include "apps/ddpctl/command.hpp"
#include "apps/ddpctl/job_text.hpp"
#include "launcher/view/job_socket.hpp"
#include "rendezvous/base/error.hpp"

namespace ddprun {
inline namespace app {
namespace {

class EventsCommand final : public Command {
  public:
    const char* name() const override { return "events"; }
    const char* help() const override { return "Print what has happened on this node in a job that runs"; }
    std::vector<OptionRow> rows() override {
        return {id_row(id_), {"--json", "", "As the lines that --events writes", into(json_)}};
    }

    int run(const KnownJobs& known) override {
        const Job job = known.find(id_);
        if (job.state != JobState::running)
            fail(Errc::refused,
                 "job " + job.id + " does not run any more; ddprun --events FILE keeps its events");
        const std::string lines = ask_events(job.folder);
        print(json_ ? lines : events_text(lines));
        return 0;
    }

  private:
    std::string id_;
    bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_events_command() { return std::make_unique<EventsCommand>(); }

}  // namespace app
}  // namespace ddprun
