#include "apps/ddprun/explain/explanation.hpp"

#include <fmt/core.h>

#include "apps/ddprun/explain/shown_words.hpp"
#include "launcher/agent/worker_placement.hpp"
#include "launcher/cluster/cluster_text.hpp"
#include "launcher/harmless_text.hpp"
#include "rendezvous/system/split.hpp"

namespace ddprun::inline app {
namespace {

std::string origin_name(const OptionOrigin& origin) {
    return origin.name.empty() ? "the command line" : harmless_line(origin.name);
}

std::string words_text(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
    return harmless_line(text);
}

std::string told_text(const std::string& option, const ToldValue& value) {
    std::vector<std::string> shown;
    for (const std::string& text : value.texts) shown.push_back(shown_option_value(option, text));
    const std::string text = words_text(shown);
    return fmt::format("{}by {}", text.empty() ? "" : text + " ", origin_name(value.origin));
}

class TextOf {
  public:
    void heading(const std::string& line) { text_ += line + "\n"; }
    void line(const std::string& line) { text_ += "  " + line + "\n"; }
    std::string take() { return std::move(text_); }

  private:
    std::string text_;
};

void add_options(TextOf& text, const std::vector<ToldOption>& options) {
    if (options.empty()) return;
    text.heading("Options");
    for (const ToldOption& option : options) {
        std::string line = fmt::format("{} {}", option.name, told_text(option.name, option.told.front()));
        for (std::size_t i = 1; i < option.told.size(); ++i) {
            if (option.told[i].texts != option.told.front().texts)
                line += "; not " + told_text(option.name, option.told[i]);
        }
        text.line(line);
    }
}

void add_start(TextOf& text, const ExplainedStart& start) {
    text.heading("The start");
    if (!start.decided.empty()) text.line(harmless_line(start.decided));
    text.line("other hosts: " + words_text(start.shell));
    const std::string lines = start_text(start);
    for (const std::string_view line : split_at(lines, '\n')) {
        if (!line.empty()) text.line(std::string(line));
    }
}

void add_worker(TextOf& text, const ExplainedWorker& worker) {
    text.heading(worker.rank ? fmt::format("Rank {}", *worker.rank)
                             : fmt::format("Local rank {}", worker.local_rank));
    text.line("runs: " + words_text(worker.command));
    if (!worker.place.empty()) text.line("on: " + harmless_line(worker.place));
    for (const EnvironmentChange& change : worker.changes) text.line(to_text(change));
}

}  // namespace

std::vector<ExplainedWorker> explained_workers(const LaunchOptions& options, const Environment& inherited,
                                               const std::string& host) {
    std::vector<ExplainedWorker> workers;
    const int count = static_cast<int>(options.workers.size());
    for (int local_rank = 0; local_rank < count; ++local_rank) {
        const WorkerPlan& plan = options.workers[static_cast<std::size_t>(local_rank)];
        workers.push_back({.local_rank = local_rank,
                           .rank = options.nnodes == 1 ? std::optional(local_rank) : std::nullopt,
                           .place = plan.place,
                           .cpus = plan.cpus,
                           .memory_node = plan.memory_node,
                           .command = argv_of_worker(options, {local_rank, local_rank, host}),
                           .changes = changes_of_worker(options, inherited, local_rank, host)});
    }
    return workers;
}

std::string explanation_text(const Explanation& explanation) {
    TextOf text;
    text.heading(fmt::format("What is told here, on {}", harmless_line(explanation.host)));
    for (const std::string& line : cluster_lines(explanation.table)) text.line(line);
    add_options(text, explanation.options);
    if (explanation.start) add_start(text, *explanation.start);
    if (!explanation.values.empty()) text.heading("The launch");
    for (const LaunchValue& value : explanation.values)
        text.line(harmless_line(fmt::format("{}: {} ({})", value.name, value.value, value.source)));
    if (!explanation.changes.empty()) text.heading("Each worker's environment, over the inherited one");
    for (const EnvironmentChange& change : explanation.changes) text.line(to_text(change));
    for (const ExplainedWorker& worker : explanation.workers) add_worker(text, worker);
    if (!explanation.remarks.empty()) text.heading("Remarks");
    for (const std::string& remark : explanation.remarks) text.line(harmless_line(remark));
    // The table's own stands at its end.
    if (explanation.refusal != explanation.table.refusal)
        text.heading("refused: " + harmless_line(explanation.refusal));
    return text.take();
}

}  // namespace ddprun::inline app
