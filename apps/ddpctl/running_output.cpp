#include "apps/ddpctl/running_output.hpp"

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "apps/cli/option_values.hpp"
#include "apps/ddpctl/job_output.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/view/job_socket.hpp"
#include "launcher/wall_clock.hpp"

namespace ddprun {
inline namespace app {
namespace {

// LinePrinter chooses lines and prints them, the last ones first of all held back where only those are
// wanted.
class LinePrinter {
  public:
    LinePrinter(const LineFilter& filter, bool names_ranks)
        : filter_(filter),
          names_ranks_(names_ranks),
          first_unix_ms_(filter.age ? unix_time_now_ms() - filter.age->count() : 0),
          holds_(filter.last.has_value()) {}

    void take(const KeptBlock& block) {
        if (block.unix_ms < first_unix_ms_) return;
        std::string_view rest = block.text;
        while (!rest.empty()) {
            const std::size_t size = std::min(rest.find('\n'), rest.size() - 1) + 1;
            take_line(block, rest.substr(0, size));
            rest.remove_prefix(size);
        }
        if (!holds_) show();
    }

    // What there was is all taken: from now on lines are printed as they come.
    void show() {
        holds_ = false;
        std::string text;
        for (const auto& [time, line] : std::exchange(lines_, {})) text += line;
        write_out(text);
    }

  private:
    void take_line(const KeptBlock& block, std::string_view line) {
        const bool is_gap = block.stream == KeptBlock::kGap;
        if (!is_gap && !filter_.text.empty() && line.find(filter_.text) == line.npos) return;
        std::string shown = names_ranks_ ? fmt::format("[{}] {}", block.rank, line) : std::string(line);
        if (!shown.ends_with('\n')) shown += '\n';
        // Those of another node may be older than what has come already.
        lines_.emplace(holds_ ? block.unix_ms : 0, std::move(shown));
        if (holds_ && lines_.size() > filter_.last) lines_.erase(lines_.begin());
    }

    const LineFilter& filter_;
    const bool names_ranks_;
    const std::int64_t first_unix_ms_;
    bool holds_;
    std::multimap<std::int64_t, std::string> lines_;  // by time, then as they came
};

void note_trouble(const StreamLine& line) {
    const std::string node = line.host.empty()
                                 ? fmt::format("node {}", line.node)
                                 : fmt::format("node {} ({})", line.node, harmless_line(line.host));
    if (!line.log_folder.empty())
        complain(fmt::format("{} has what goes to files in {}", node, harmless_line(line.log_folder)));
    if (!line.trouble.empty())
        complain(line.node == StreamLine::kJob ? line.trouble
                                               : fmt::format("{}: {}", node, harmless_line(line.trouble)));
}

bool can_be_read(int descriptor) {
    pollfd event{descriptor, POLLIN, 0};
    return ::poll(&event, 1, 0) > 0;
}

}  // namespace

RunningEnd follow_running(const Job& job, const StreamTerms& terms, int interrupt,
                          const std::function<void(const StreamLine&)>& take) {
    StreamReader reader(job.folder, terms);
    RunningEnd end;
    while (const auto line = reader.next(interrupt)) {
        if (!line->refusal.empty() && terms.rank)
            throw UsageError(fmt::format("--rank {}: {}", *terms.rank, line->refusal));
        note_trouble(*line);
        if (line->exit_code) end.exit_code = line->exit_code;
        end.is_whole = end.is_whole || line->exit_code || (line->has_caught_up && !terms.follows);
        take(*line);
    }
    end.is_interrupted = interrupt >= 0 && !end.exit_code && can_be_read(interrupt);
    return end;
}

RunningEnd print_running_output(const Job& job, const LineFilter& filter, bool follow, int interrupt) {
    const bool has_several = job.record && (job.record->workers > 1 || job.record->nnodes > 1);
    LinePrinter printer(filter, !filter.rank && has_several);
    const StreamTerms terms{.kind = std::string(kOutputQuestion), .rank = filter.rank, .follows = follow};
    const RunningEnd end = follow_running(job, terms, interrupt, [&printer](const StreamLine& line) {
        for (const KeptBlock& block : line.blocks) printer.take(block);
        if (line.has_caught_up) printer.show();
    });
    printer.show();
    return end;
}

}  // namespace app
}  // namespace ddprun
