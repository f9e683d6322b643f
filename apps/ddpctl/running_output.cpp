#include "apps/ddpctl/running_output.hpp"

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <deque>
#include <string_view>
#include <utility>

#include "apps/cli/option_values.hpp"
#include "apps/ddpctl/job_output.hpp"
#include "launcher/output/kept_output.hpp"
#include "launcher/view/job_socket.hpp"
#include "launcher/wall_clock.hpp"
#include "rendezvous/base/error.hpp"

namespace ddprun {
inline namespace app {
namespace {

// So long a launcher that does not answer any more may take to end.
constexpr int kEndingMs = 5'000;

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
            take_line(block.rank, rest.substr(0, size));
            rest.remove_prefix(size);
        }
        if (!holds_) show();
    }

    // What there was is all taken: from now on lines are printed as they come.
    void show() {
        holds_ = false;
        std::string text;
        for (const std::string& line : std::exchange(lines_, {})) text += line;
        write_out(text);
    }

  private:
    void take_line(int rank, std::string_view line) {
        if (!filter_.text.empty() && line.find(filter_.text) == line.npos) return;
        std::string shown = names_ranks_ ? fmt::format("[{}] {}", rank, line) : std::string(line);
        if (!shown.ends_with('\n')) shown += '\n';
        lines_.push_back(std::move(shown));
        if (holds_ && lines_.size() > filter_.last) lines_.pop_front();
    }

    const LineFilter& filter_;
    const bool names_ranks_;
    const std::int64_t first_unix_ms_;
    bool holds_;
    std::deque<std::string> lines_;
};

bool ends(const std::optional<OwnedDescriptor>& launcher) {
    if (!launcher) return true;
    pollfd end{launcher->get(), POLLIN, 0};
    return ::poll(&end, 1, kEndingMs) > 0;
}

}  // namespace

void print_running_output(const Job& job, const LineFilter& filter, bool follow) {
    const JobView view = ask_status(job.folder);
    const auto own = std::find_if(view.nodes.begin(), view.nodes.end(), [&job](const NodeView& node) {
        return job.record && node.pid == job.record->pid;
    });
    const auto has_rank = [&](const RankView& rank) {
        return rank.rank == filter.rank && own != view.nodes.end() && rank.node == own->node;
    };
    if (filter.rank && std::none_of(view.ranks.begin(), view.ranks.end(), has_rank))
        throw UsageError(fmt::format("--rank {}: job {} has no such rank on this node; see ddpctl status {}",
                                     *filter.rank, job.id, job.id));
    const auto launcher = follow ? open_launcher(job) : std::nullopt;
    LinePrinter printer(filter, !filter.rank && job.record && job.record->workers > 1);
    KeptQuestion question{.rank = filter.rank};
    for (;;) {
        KeptPiece piece;
        try {
            piece = ask_output(job.folder, question);
        } catch (const Error&) {
            if (follow && ends(launcher)) return printer.show();
            throw;
        }
        for (const KeptBlock& block : piece.blocks) printer.take(block);
        question.from = piece.next;
        if (!piece.is_all) continue;
        printer.show();
        if (!follow) return;
        question.waits = true;
    }
}

}  // namespace app
}  // namespace ddprun
