// ddpbench: measures the collectives between the workers of a job, in nccl-tests' words.
#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "apps/ddpbench/bench_options.hpp"
#include "apps/ddpbench/benchmark.hpp"
#include "rendezvous/system/own_process.hpp"
#include "rendezvous/system/small_file.hpp"

namespace {

using namespace ddprun;

constexpr int kFailed = 1;
constexpr int kUsage = 2;

int conclude(const BenchOptions& options, const Communicator& communicator,
             const std::vector<BenchRow>& rows) {
    const BenchTotals totals = totals_of(rows);
    std::fputs(table_foot(totals).c_str(), stdout);
    std::fflush(stdout);
    if (!options.json_file.empty()) {
        const std::string json = bench_json(std::string(options.operation->name),
                                            communicator.backend() == BackendChoice::nccl ? "nccl" : "cpu",
                                            communicator.world_size(), rows);
        if (const auto error = replace_file(options.json_file, json)) {
            std::fprintf(stderr, "ddpbench: -J '%s' cannot be written: %s\n", options.json_file.c_str(),
                         error.message().c_str());
            return kFailed;
        }
    }
    const char* const wanted = std::getenv("NCCL_TESTS_MIN_BW");
    if (wanted != nullptr && totals.mean_bus_bandwidth < std::atof(wanted)) {
        std::fprintf(stderr, "ddpbench: the mean bus bandwidth is below NCCL_TESTS_MIN_BW=%s\n", wanted);
        return kFailed;
    }
    return totals.wrong == 0 ? 0 : kFailed;
}

// Rank 0 says why; the others end after it, so that a launcher that ends everybody then cannot cut it short.
int refuse(Communicator& communicator, const std::string& why) {
    if (communicator.rank() == 0) std::fprintf(stderr, "ddpbench: %s\n", why.c_str());
    communicator.barrier();
    return kUsage;
}

int run(const BenchOptions& options) {
    CommunicatorOptions communicator_options;
    communicator_options.operation_timeout = options.timeout;
    communicator_options.backend = options.backend;
    Communicator communicator = Communicator::from_env(communicator_options);
    const bool shows = communicator.rank() == 0;
    if (options.root >= communicator.world_size()) {
        return refuse(communicator, fmt::format("-r {}: there are ranks 0 to {}", options.root,
                                                communicator.world_size() - 1));
    }
    if (options.operation->min_ranks > communicator.world_size())
        return refuse(communicator, std::string(options.operation->name) + " needs two ranks");
    if (shows) {
        std::printf("# ddpbench %s %s, %d ranks, %d on rank 0's host\n", DDPRUN_VERSION,
                    std::string(options.operation->name).c_str(), communicator.world_size(),
                    communicator.local_world_size());
        std::printf("# backend %s\n", backend_text(communicator).c_str());
    }
    if (shows) std::fputs(table_head(options.statistics).c_str(), stdout);
    const auto rows = run_benchmark(communicator, options, [&](const BenchRow& row) {
        if (!shows) return;
        std::fputs(table_line(row, options.statistics).c_str(), stdout);
        std::fflush(stdout);
    });
    const int code = shows ? conclude(options, communicator, rows) : totals_of(rows).wrong == 0 ? 0 : kFailed;
    communicator.barrier();
    return code;
}

}  // namespace

int main(int argc, char** argv) {
    open_missing_streams();
    auto parsed = parse_bench_options({argv + 1, argv + argc});
    if (const auto* end = std::get_if<BenchCommandEnd>(&parsed)) {
        if (end->exit_code == 0) return std::fputs(end->text.c_str(), stdout) < 0 ? kFailed : 0;
        std::fprintf(stderr, "ddpbench: %s\n", end->text.c_str());
        return end->exit_code;
    }
    try {
        return run(std::get<BenchOptions>(parsed));
    } catch (const CollectiveError& error) {
        std::fprintf(stderr, "ddpbench: %s\n", error.what());
        return kFailed;
    } catch (const std::bad_alloc&) {
        std::fprintf(stderr, "ddpbench: not enough memory for two buffers of -e bytes\n");
        return kFailed;
    }
}
