#include "apps/ddprun/explain/dry_run.hpp"

#include <fmt/core.h>

#include "launcher/agent/worker_placement.hpp"
#include "launcher/harmless_text.hpp"

namespace ddprun::inline app {
namespace {

std::string command_text(const std::vector<std::string>& argv) {
    std::string text;
    for (const std::string& word : argv) text += (text.empty() ? "" : " ") + word;
    return harmless_line(text);
}

}  // namespace

std::string dry_run_text(const LaunchOptions& options, const std::string& host) {
    const char* rank = options.nnodes == 1 ? "rank" : "local rank";
    const std::string node = options.node_rank < 0 ? "a node" : fmt::format("node {}", options.node_rank);
    std::string text;
    for (std::size_t i = 0; i < options.workers.size(); ++i) {
        const WorkerPlan& worker = options.workers[i];
        const int number = static_cast<int>(i);
        const auto threads = worker.additions.find("OMP_NUM_THREADS");
        text += fmt::format("{} {} on {} ({}): {}{}; runs {}\n", rank, i, node, host, worker.place,
                            threads == worker.additions.end() ? "" : ", OMP_NUM_THREADS=" + threads->second,
                            command_text(argv_of_worker(options, {number, number, host})));
    }
    return text;
}

}  // namespace ddprun::inline app
