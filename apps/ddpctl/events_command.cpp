#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "apps/cli/print.hpp"
#include "apps/ddpctl/command.hpp"
#include "apps/ddpctl/job_output.hpp"
#include "apps/ddpctl/job_text.hpp"
#include "apps/ddpctl/running_output.hpp"
#include "launcher/harmless_text.hpp"
#include "rendezvous/base/error.hpp"

namespace ddprun {
inline namespace app {
namespace {

class EventsCommand final : public Command {
  public:
    const char* name() const override { return "events"; }
    const char* help() const override { return "Print what has happened on all nodes of a job that runs"; }
    std::vector<OptionRow> rows() override {
        return {id_row(id_),
                {"--follow,-f", "", "Go on until the job ends", into(follow_)},
                {"--json", "", "As the lines that --events writes", into(json_)}};
    }

    int run(const KnownJobs& known) override {
        const Job job = known.find(id_);
        if (job.state == JobState::lost) throw LostJob(job);
        if (job.state != JobState::running)
            fail(Errc::refused,
                 "job " + job.id + " does not run any more; ddprun --events FILE keeps its events");
        refuse_suspended(job);
        const StreamTerms terms{.kind = std::string(kEventsQuestion), .rank = {}, .follows = follow_};
        std::vector<ToldEvent> told;
        bool has_caught_up = false;
        const RunningEnd end = follow_running(job, terms, -1, [&](const StreamLine& line) {
            for (const KeptBlock& block : line.blocks) {
                if (block.stream == KeptBlock::kGap)
                    complain(fmt::format("events of node {}: {}", line.node,
                                         harmless_line(lines_of(block.text).front())));
                else
                    add_events(told, block.text, line.node);
            }
            has_caught_up = has_caught_up || line.has_caught_up;
            if (has_caught_up) show(std::exchange(told, {}), job);
        });
        show(std::move(told), job);
        if (!end.is_whole) known.see_end(job);
        return 0;
    }

  private:
    void show(std::vector<ToldEvent> told, const Job& job) const {
        // The nodes have told one after another.
        std::stable_sort(told.begin(), told.end(),
                         [](const ToldEvent& a, const ToldEvent& b) { return a.unix_ms < b.unix_ms; });
        const bool has_nodes = job.record && job.record->nnodes > 1;
        for (const ToldEvent& event : told)
            write_out(json_ ? event.line + "\n" : event_text(event, has_nodes));
    }

    std::string id_;
    bool follow_ = false;
    bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_events_command() { return std::make_unique<EventsCommand>(); }

}  // namespace app
}  // namespace ddprun
