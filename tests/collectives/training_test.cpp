// GradBuckets and the helpers around a training. Ranks are threads here.
#include "collectives/training.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "collectives/grad_buckets.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/thread_ranks.hpp"

using namespace ddprun;

namespace {

using Code = CollectiveErrorCode;

// Several buckets of a few parameters each.
GradBucketsOptions small_buckets() {
    GradBucketsOptions options;
    options.first_bucket_bytes = 400;
    options.bucket_bytes = 40'000;
    return options;
}

const std::vector<std::size_t> kSizes{5000, 17, 20'000, 1, 0, 300, 90};

// Values whose sums and means over few ranks are exact.
template <class T>
void fill(std::span<T> gradient, int rank, int step) {
    for (std::size_t i = 0; i < gradient.size(); ++i)
        gradient[i] = static_cast<T>(static_cast<int>(i % 50) + rank * 4 + step);
}

template <class T>
void check_reduced(std::span<const T> gradient, int n, int step, bool average) {
    for (std::size_t i = 0; i < gradient.size(); ++i) {
        const double sum = n * (static_cast<double>(i % 50) + step) + 4.0 * n * (n - 1) / 2;
        expect(static_cast<double>(gradient[i]) == (average ? sum / n : sum), "a reduced gradient");
    }
}

template <class T>
void check_steps(Communicator& comm, const GradBucketsOptions& options, unsigned seed) {
    GradBuckets<T> gradients(comm, kSizes, options);
    expect(gradients.buckets() > 2, "several buckets");
    expect(gradients.gradients().size() == 25'408, "all gradients together");
    // Ready in an order of each rank's own.
    std::mt19937 random(seed + static_cast<unsigned>(comm.rank()));
    std::vector<std::size_t> order(kSizes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (int step = 0; step < 5; ++step) {
        std::shuffle(order.begin(), order.end(), random);
        for (const std::size_t parameter : order) {
            expect(gradients.gradient(parameter).size() == kSizes[parameter], "a gradient's size");
            fill(gradients.gradient(parameter), comm.rank(), step);
            gradients.mark_ready(parameter);
        }
        gradients.wait_all();
        for (const std::size_t parameter : order)
            check_reduced<T>(gradients.gradient(parameter), comm.world_size(), step, options.average);
    }
}

}  // namespace

TEST_CASE("gradients are averaged or summed over all ranks, step after step", "[training]") {
    const auto seed = std::random_device{}();
    INFO("seed " << seed);
    for (const int n : {1, 2, 4}) {
        for (const bool average : {true, false}) {
            run_communicators(n, [&](Communicator& comm) {
                GradBucketsOptions options = small_buckets();
                options.average = average;
                check_steps<float>(comm, options, seed);
                check_steps<double>(comm, options, seed);
                // Few enough digits for both short types.
                options.compression = GradCompression::f16;
                check_steps<float>(comm, options, seed);
                options.compression = GradCompression::bf16;
                check_steps<float>(comm, options, seed);
            });
        }
    }
}

TEST_CASE("gradients travel rounded when they are compressed, and are not otherwise", "[training]") {
    run_on_hosts(host_names(2, 1), [](Communicator& comm) {
        const std::vector<std::size_t> one{1};
        const float third = 1.0F / 3.0F;
        for (const auto& [compression, error] :
             {std::pair{GradCompression::none, 0.0F}, std::pair{GradCompression::f16, 2e-4F},
              std::pair{GradCompression::bf16, 2e-3F}}) {
            GradBucketsOptions options;
            options.compression = compression;
            GradBuckets<float> gradients(comm, one, options);
            gradients.gradient(0)[0] = third;
            gradients.mark_ready(0);
            gradients.wait_all();
            const float off = std::abs(gradients.gradient(0)[0] - third);
            expect(off <= error && (off > 0 || error == 0), "the rounding of a compressed gradient");
        }
    });
}

TEST_CASE("wrong use of gradient buckets is refused and changes nothing", "[training]") {
    auto comm = Communicator::connect("tcp://127.0.0.1:1", 0, 1);
    GradBucketsOptions options;
    options.first_bucket_bytes = 0;
    expect_error(Code::invalid_argument, {}, [&] { GradBuckets<float>(comm, kSizes, options); });
    options = {};
    options.bucket_bytes = 0;
    expect_error(Code::invalid_argument, {}, [&] { GradBuckets<float>(comm, kSizes, options); });
    options = {};
    options.compression = GradCompression::bf16;
    expect_error(Code::invalid_argument, {}, [&] { GradBuckets<double>(comm, kSizes, options); });

    GradBuckets<float> gradients(comm, kSizes);
    expect_error(Code::invalid_argument, {}, [&] { gradients.mark_ready(kSizes.size()); });
    gradients.mark_ready(2);
    expect_error(Code::invalid_argument, {}, [&] { gradients.mark_ready(2); });
    const auto missing = expect_error(Code::invalid_argument, {}, [&] { gradients.wait_all(); });
    REQUIRE(std::string(missing.what()).find("0 1 3 4 5 6") != std::string::npos);
    for (const std::size_t parameter : {0, 1, 3, 4, 5, 6}) gradients.mark_ready(parameter);
    gradients.wait_all();
    gradients.mark_ready(2);
}

TEST_CASE("ranks with other parameters get a mismatch", "[training]") {
    run_communicators(2, [](Communicator& comm) {
        const std::vector<std::size_t> sizes{comm.rank() == 0 ? std::size_t{10} : std::size_t{11}};
        expect_error(Code::mismatch, {0, 1}, [&] {
            GradBuckets<float> gradients(comm, sizes);
            // Ranks that share no memory find out here.
            gradients.mark_ready(0);
            gradients.wait_all();
        });
    });
}

TEST_CASE("metrics are averaged by weight", "[training]") {
    run_communicators(3, [](Communicator& comm) {
        const double rank = comm.rank();
        expect(average(comm, rank) == 1, "the mean of equal weights");
        expect(average(comm, rank, rank) == 5.0 / 3, "the mean by weight");
        // A rank without samples has no mean.
        expect(average(comm, rank == 0 ? NAN : rank, rank == 0 ? 0 : 1) == 1.5, "a rank without weight");
        expect(std::isnan(average(comm, rank, 0)), "no weight at all");
        std::vector<double> metrics{rank, 10 * rank};
        average(comm, std::span(metrics), 2);
        expect(metrics == std::vector<double>{1, 10}, "several metrics");
    });
}

TEST_CASE("the root's state becomes everybody's", "[training]") {
    run_communicators(3, [](Communicator& comm) {
        const int rank = comm.rank();
        std::vector<float> large(100'000, static_cast<float>(rank));
        std::vector<double> small(3, rank);
        std::vector<std::int64_t> step{rank};
        std::vector<float> nothing;
        std::vector<std::vector<float>> many(40, std::vector<float>(16'000, static_cast<float>(rank)));
        std::vector<StatePart> parts{std::span(step), std::span(large), std::span(nothing), std::span(small)};
        for (auto& part : many) parts.emplace_back(std::span(part));
        broadcast_state(comm, parts, 1);
        expect(large == std::vector<float>(100'000, 1), "a large part");
        expect(small == std::vector<double>(3, 1) && step[0] == 1, "small parts");
        for (const auto& part : many) expect(part == std::vector<float>(16'000, 1), "many parts");
        broadcast_state(comm, {});
    });
}

TEST_CASE("an action runs on one rank while the others wait, longer than an operation may take",
          "[training]") {
    CommunicatorOptions options;
    options.operation_timeout = std::chrono::milliseconds(6000);
    std::atomic<int> runs{0};
    std::atomic<bool> over{false};
    run_communicators(
        3,
        [&](Communicator& comm) {
            run_on_rank(comm, 1, [&] {
                expect(comm.rank() == 1, "on that rank");
                ++runs;
                // No event marks the passing of a deadline that is not missed.
                std::this_thread::sleep_for(options.operation_timeout + std::chrono::milliseconds(500));
                over = true;
            });
            expect(over, "nobody returns before the action has ended");
            comm.barrier();
        },
        options);
    REQUIRE(runs == 1);
}

TEST_CASE("an action that fails fails on every rank, and the communicator goes on", "[training]") {
    run_communicators(3, [](Communicator& comm) {
        bool own = false;
        std::string text;
        try {
            run_on_rank(comm, 2, [] { throw std::logic_error("no such data set"); });
        } catch (const std::logic_error&) {
            own = true;
        } catch (const ActionFailed& error) {
            text = error.what();
        }
        expect(own == (comm.rank() == 2), "the rank's own exception");
        expect(own || text == "run_on_rank: the action failed on rank 2: no such data set", text);
        comm.barrier();
        expect_error(Code::invalid_argument, {}, [&] { run_on_rank(comm, 3, [] {}); });
    });
}

TEST_CASE("a rank that leaves while others wait for its action is named", "[training]") {
    run_communicators(2, [](Communicator& comm) {
        if (comm.rank() == 0) {
            comm.barrier();
            return;
        }
        comm.barrier();
        expect_error(Code::peer_left, {0}, [&] { run_on_rank(comm, 0, [] {}); });
    });
}
