#include "apps/ddpbench/overlap.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "apps/ddpbench/statistics.hpp"

namespace ddprun::inline app {
namespace {

// Work that needs a core and nothing else: it stays in the core's first cache.
class Computation {
  public:
    void run(std::size_t rounds) {
        for (std::size_t i = 0; i < rounds; ++i) {
            for (float& value : values_) value = value * 0.999F + 0.001F;
            // For the compiler somebody reads the values.
            asm volatile("" : : "r"(values_.data()) : "memory");
        }
    }

  private:
    std::array<float, 1024> values_{};
};

template <class Body>
double microseconds(Body body) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

class OverlapBench {
  public:
    OverlapBench(Communicator& communicator, const BenchOptions& options)
        : communicator_(communicator), options_(options), data_(options.max_bytes / sizeof(float)) {}

    OverlapRow row(std::size_t bytes) {
        const auto data = std::span(data_).first(bytes / sizeof(float));
        const auto reduce = [&] { communicator_.all_reduce(data, ReduceOp::avg); };
        for (int i = 0; i < options_.warm_up; ++i) reduce();
        const std::size_t rounds = rounds_of(median_of([&] { return timed(reduce); }));
        std::vector<double> alone;
        std::vector<double> computing;
        std::vector<double> together;
        for (int i = 0; i < options_.iterations; ++i) {
            alone.push_back(timed(reduce));
            computing.push_back(timed([&] { computation_.run(rounds); }));
            together.push_back(timed([&] {
                const Work work = communicator_.async().all_reduce(data, ReduceOp::avg);
                computation_.run(rounds);
                work.wait();
            }));
        }
        std::array medians{statistics_of(std::move(alone)).median, statistics_of(std::move(computing)).median,
                           statistics_of(std::move(together)).median};
        communicator_.all_reduce(std::span(medians), ReduceOp::max);
        return {bytes, medians[0], medians[1], medians[2]};
    }

  private:
    template <class Body>
    double timed(Body body) {
        communicator_.barrier();
        return microseconds(body);
    }

    template <class Time>
    double median_of(Time time) {
        std::vector<double> times;
        for (int i = 0; i < options_.iterations; ++i) times.push_back(time());
        double median = statistics_of(std::move(times)).median;
        communicator_.broadcast(std::span(&median, 1), 0);
        return median;
    }

    // How often to compute for that long.
    std::size_t rounds_of(double wanted) {
        constexpr std::size_t kTrial = 1000;
        const double trial = median_of([&] { return microseconds([&] { computation_.run(kTrial); }); });
        return std::max<std::size_t>(1, static_cast<std::size_t>(wanted / trial * kTrial));
    }

    Communicator& communicator_;
    const BenchOptions& options_;
    std::vector<float> data_;
    Computation computation_;
};

}  // namespace

double OverlapRow::hidden() const { return (alone + computing - together) / std::min(alone, computing); }

std::vector<OverlapRow> run_overlap(Communicator& communicator, const BenchOptions& options) {
    OverlapBench bench(communicator, options);
    std::vector<OverlapRow> rows;
    for (const std::size_t bytes : sizes_of(options)) rows.push_back(bench.row(bytes));
    return rows;
}

std::string overlap_table(const std::vector<OverlapRow>& rows) {
    std::string text = "#    size(B)   alone(us)  compute(us)  together(us)  hidden\n";
    for (const OverlapRow& row : rows) {
        text += fmt::format("{:12}  {:10.1f}   {:10.1f}    {:10.1f}  {:6.2f}\n", row.bytes, row.alone,
                            row.computing, row.together, row.hidden());
    }
    return text;
}

}  // namespace ddprun::inline app
