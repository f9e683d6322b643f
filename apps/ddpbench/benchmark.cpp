#include "apps/ddpbench/benchmark.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>
#include <numeric>
#include <string>
#include <vector>

#include "apps/ddpbench/operation.hpp"
#include "collectives/communicator.hpp"
#include "collectives/nccl/cuda_driver.hpp"
#include "collectives/nccl/nccl_join.hpp"
#include "collectives/nccl/nccl_launch.hpp"
#include "rendezvous/base/check.hpp"

namespace ddprun {
inline namespace app {
namespace {

// The device that a communicator's buffers are on; nothing for the CPU's backends. It is found from the
// communicator's own choice and the same variables.
std::shared_ptr<const CudaPrimaryContext> device_of(const Communicator& communicator) {
    if (communicator.backend() != BackendChoice::nccl) return nullptr;
    CommunicatorOptions options;
    options.backend = BackendChoice::nccl;
    options.device = communicator.device();
    const auto settings = read_nccl_settings(current_environment(), options, communicator.local_rank());
    return std::make_shared<CudaPrimaryContext>(CudaDriver::open(settings->cuda_library), settings->device);
}

// BenchMemory is where operations read and write: memory of this host, or of this rank's device with a copy
// here.
class BenchMemory {
  public:
    // The memory is on the device if there is one; `shared`, if it has bytes, is the host's.
    BenchMemory(std::shared_ptr<const CudaPrimaryContext> device, std::size_t bytes,
                SharedBuffer<unsigned char> shared = {})
        : bytes_(bytes),
          shared_(std::move(shared)),
          host_(shared_.size() > 0 ? reinterpret_cast<std::byte*>(shared_.data())
                                   : static_cast<std::byte*>(::operator new(bytes + 1, kAlignment))) {
        if (device) device_ = std::make_unique<CudaMemory>(std::move(device), bytes);
    }
    BenchMemory(const BenchMemory&) = delete;
    BenchMemory& operator=(const BenchMemory&) = delete;
    ~BenchMemory() {
        if (shared_.size() == 0) ::operator delete(host_, kAlignment);
    }

    // The operations use this.
    std::byte* data() const { return device_ ? device_->data() : host_; }
    bool holds(const void* place) const { return offset_of(place) < bytes_; }
    // The host's view of a place in data(): written to, it counts after push; read, it is true after pull.
    std::byte* host_view(const void* place) const { return host_ + offset_of(place); }
    void push(const void* place, std::size_t bytes) {
        if (device_) device_->copy_from(host_view(place), bytes, offset_of(place));
    }
    void pull(const void* place, std::size_t bytes) {
        if (device_) device_->copy_to(host_view(place), bytes, offset_of(place));
    }

  private:
    // Page-aligned, as large buffers of real programs are.
    static constexpr std::align_val_t kAlignment{4096};

    std::size_t offset_of(const void* place) const {
        return static_cast<std::size_t>(static_cast<const std::byte*>(place) - data());
    }

    std::size_t bytes_;
    SharedBuffer<unsigned char> shared_;
    std::byte* host_;
    std::unique_ptr<CudaMemory> device_;
};

// A call of up to this size is too short to be timed alone.
constexpr std::size_t kShort = std::size_t{64} << 10;
constexpr int kShortCalls = 50;

// Each rank scales by the same, so that the result is known everywhere.
constexpr double kScalar = 0.5;

// Bytes for the numbers that the ranks compare.
constexpr std::size_t kNumbers = 64;

class Bench {
  public:
    Bench(Communicator& communicator, const BenchOptions& options, std::size_t bytes)
        : communicator_(communicator),
          options_(options),
          operation_(*options.operation),
          device_(device_of(communicator)),
          in_(device_, bytes, shared(bytes)),
          out_(device_, bytes, shared(bytes)),
          numbers_(device_, kNumbers) {}

    std::optional<BenchRow> row(std::size_t wanted_bytes, DataType type, ReduceOp op) {
        const auto ranks = static_cast<std::size_t>(communicator_.world_size());
        const std::size_t parts = operation_.has_parts() ? ranks : 1;
        BenchRow row;
        row.count = wanted_bytes / size_of(type) / parts;
        if (row.count == 0 || (operation_.reduces && !can_reduce(op, type))) return std::nullopt;
        row.bytes = row.count * size_of(type) * parts;
        row.type = bench_name(type);
        if (operation_.reduces) row.op = bench_name(op);
        if (operation_.has_root) row.root = options_.root;
        OperationCall call{.count = row.count, .type = type, .reduction = op, .root = options_.root};
        call.reduction.scalar = op == ReduceOp::premul_sum ? kScalar : 1;
        if (operation_.out_of_place) row.out_of_place = measure(call, row.bytes, false);
        if (operation_.in_place) row.in_place = measure(call, row.bytes, true);
        return row;
    }

  private:
    SharedBuffer<unsigned char> shared(std::size_t bytes) {
        return options_.registered ? communicator_.allocate<unsigned char>(bytes)
                                   : SharedBuffer<unsigned char>();
    }

    bool can_reduce(ReduceOp op, DataType type) const {
        return is_defined(op, type) && (!device_ || nccl_op(op).has_value());
    }

    Measurement measure(OperationCall call, std::size_t bytes, bool in_place) {
        const std::size_t own_part =
            static_cast<std::size_t>(communicator_.rank()) * call.count * size_of(call.type);
        call.in = in_.data();
        call.out = out_.data();
        if (in_place) {
            // The larger buffer holds both; of two equal ones, one.
            const bool same = operation_.in_has_parts == operation_.out_has_parts;
            call.in = in_.data() + (operation_.out_has_parts && !same ? own_part : 0);
            call.out = in_.data() + (operation_.in_has_parts && !same ? own_part : 0);
        }
        const int calls = options_.calls.value_or(bytes <= kShort ? kShortCalls : 1);
        for (int i = 0; i < options_.warm_up; ++i) run(call, i);
        std::vector<double> times;
        for (int i = 0; i < options_.iterations; ++i) times.push_back(timed(call, i, calls));
        Measurement result;
        result.time = of_ranks(statistics_of(std::move(times)));
        result.algorithm_bandwidth = static_cast<double>(bytes) / result.time.median / 1e3;
        result.bus_bandwidth = result.algorithm_bandwidth * operation_.bus_factor(communicator_.world_size());
        if (options_.checks > 0) {
            std::int64_t wrong = 0;
            for (int i = 0; i < options_.checks; ++i) wrong += checked(call, i);
            together(std::span(&wrong, 1), [&](std::span<std::int64_t> numbers) {
                communicator_.all_reduce(numbers, ReduceOp::sum);
            });
            result.wrong = static_cast<std::size_t>(wrong);
        }
        return result;
    }

    void fill(const OperationCall& call, int number) {
        // A broadcast has its input where its output comes.
        const void* in = operation_.out_of_place ? call.in : call.out;
        BenchMemory& memory = in_.holds(in) ? in_ : out_;
        fill_input(operation_, call, memory.host_view(in), communicator_.rank(), communicator_.world_size(),
                   number);
        memory.push(in, bytes_of(call, operation_.in_has_parts));
    }

    void run(const OperationCall& call, int number) {
        fill(call, number);
        operation_.run(communicator_, call);
    }

    // Microseconds of one of `calls` calls. The inputs were written a moment ago, as a program's are.
    double timed(const OperationCall& call, int number, int calls) {
        fill(call, number);
        communicator_.barrier();
        const auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < calls; ++i) operation_.run(communicator_, call);
        const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
        return time.count() / calls;
    }

    std::int64_t checked(const OperationCall& call, int number) {
        run(call, number);
        BenchMemory& memory = in_.holds(call.out) ? in_ : out_;
        memory.pull(call.out, bytes_of(call, operation_.out_has_parts));
        OperationCall seen = call;
        seen.out = memory.host_view(call.out);
        return static_cast<std::int64_t>(
            count_wrong(operation_, seen, communicator_.rank(), communicator_.world_size(), number));
    }

    std::size_t bytes_of(const OperationCall& call, bool parts) const {
        return call.count * size_of(call.type) *
               (parts ? static_cast<std::size_t>(communicator_.world_size()) : 1);
    }

    // body() does something with a few numbers of all ranks, where operations can.
    template <class T, std::size_t N, class Body>
    void together(std::span<T, N> numbers, Body body) {
        const auto place = std::span(reinterpret_cast<T*>(numbers_.data()), numbers.size());
        std::memcpy(numbers_.host_view(place.data()), numbers.data(), numbers.size_bytes());
        numbers_.push(place.data(), place.size_bytes());
        body(place);
        numbers_.pull(place.data(), place.size_bytes());
        std::memcpy(numbers.data(), numbers_.host_view(place.data()), numbers.size_bytes());
    }

    Statistics of_ranks(const Statistics& own) {
        std::array times{own.median, own.min, own.max, own.p99, own.variation_percent};
        together(std::span(times), [&](std::span<double> numbers) {
            if (options_.averaging == Averaging::rank0) {
                communicator_.broadcast(numbers, 0);
            } else {
                communicator_.all_reduce(numbers, options_.averaging == Averaging::fastest   ? ReduceOp::min
                                                  : options_.averaging == Averaging::slowest ? ReduceOp::max
                                                                                             : ReduceOp::avg);
            }
        });
        return {times[0], times[1], times[2], times[3], times[4]};
    }

    Communicator& communicator_;
    const BenchOptions& options_;
    const TimedOperation& operation_;
    std::shared_ptr<const CudaPrimaryContext> device_;
    BenchMemory in_;
    BenchMemory out_;
    BenchMemory numbers_;
};

}  // namespace

std::string backend_text(const Communicator& communicator) {
    const auto device = device_of(communicator);
    const bool alone = communicator.world_size() == 1;
    const std::string how = alone ? ", one rank alone" : "";
    if (device)
        return fmt::format("nccl{}, rank 0 on CUDA device {} ({}); --backend cpu measures memory of the host",
                           how, device->device(), device->device_name());
    // The driver itself is not asked: that takes a while, and it might be stuck.
    std::error_code none;
    const bool has_gpu = std::filesystem::exists("/dev/nvidiactl", none) ||
                         std::filesystem::exists("/dev/dxg", none) ||
                         std::getenv("DDPRUN_CUDA_LIBRARY") != nullptr;
    return "cpu" + how + (has_gpu ? ": memory of the host; --backend nccl measures this node's GPUs" : "");
}

std::vector<BenchRow> run_benchmark(Communicator& communicator, const BenchOptions& options,
                                    const std::function<void(const BenchRow&)>& show) {
    Bench bench(communicator, options, options.max_bytes);
    const std::vector<ReduceOp> ops = options.operation->reduces ? options.ops : std::vector{ReduceOp::sum};
    std::vector<BenchRow> rows;
    for (std::size_t bytes : sizes_of(options)) {
        for (DataType type : options.types) {
            for (ReduceOp op : ops) {
                auto row = bench.row(bytes, type, op);
                if (!row) continue;
                show(*row);
                rows.push_back(std::move(*row));
            }
        }
    }
    return rows;
}

Statistics statistics_of(std::vector<double> times) {
    check(!times.empty(), "statistics of nothing");
    std::sort(times.begin(), times.end());
    const std::size_t places = times.size();
    const auto count = static_cast<double>(places);
    const double mean = std::accumulate(times.begin(), times.end(), 0.0) / count;
    double squares = 0;
    for (double time : times) squares += (time - mean) * (time - mean);
    return {.median = (times[(places - 1) / 2] + times[places / 2]) / 2,
            .min = times.front(),
            .max = times.back(),
            .p99 = times[static_cast<std::size_t>(std::ceil(0.99 * count)) - 1],
            .variation_percent = mean > 0 ? 100 * std::sqrt(squares / count) / mean : 0};
}

namespace {

// Seven places, as nccl-tests has it: fewer digits the larger the number.
std::string time_text(double microseconds) {
    if (microseconds >= 10'000) return fmt::format("{:7.0f}", microseconds);
    if (microseconds >= 100) return fmt::format("{:7.1f}", microseconds);
    return fmt::format("{:7.2f}", microseconds);
}

std::string way_text(const std::optional<Measurement>& way, bool statistics) {
    if (!way)
        return fmt::format("  {0:>7}  {0:>6}  {0:>6} {0:>6}", "N/A") +
               (statistics ? fmt::format(" {0:>7} {0:>7} {0:>7} {0:>6}", "N/A") : "");
    std::string text = fmt::format("  {}  {:6.2f}  {:6.2f}", time_text(way->time.median),
                                   way->algorithm_bandwidth, way->bus_bandwidth);
    text += way->wrong ? fmt::format(" {:6}", *way->wrong) : "    N/A";
    if (!statistics) return text;
    return fmt::format("{} {} {} {} {:6.1f}", text, time_text(way->time.min), time_text(way->time.max),
                       time_text(way->time.p99), way->time.variation_percent);
}

boost::json::value way_json(const std::optional<Measurement>& way) {
    if (!way) return nullptr;
    boost::json::object object{{"time_us", way->time.median},           {"time_min_us", way->time.min},
                               {"time_max_us", way->time.max},          {"time_p99_us", way->time.p99},
                               {"algbw_gbs", way->algorithm_bandwidth}, {"busbw_gbs", way->bus_bandwidth}};
    if (way->wrong) object["wrong"] = *way->wrong;
    return object;
}

}  // namespace

std::string table_head(bool statistics) {
    const std::string none = statistics ? std::string(31, ' ') : "";
    const char* const more = statistics ? "   i_min   i_max   i_p99  i_cv%" : "";
    return fmt::format("#\n#{:>63}{}{:>39}\n", "out-of-place          ", none, "in-place          ") +
           fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", "size", "count", "type", "redop", "root") +
           fmt::format("  {0:>7}  {1:>6}  {2:>6} {3:>6}{4}  {0:>7}  {1:>6}  {2:>6} {3:>6}{4}\n", "time",
                       "algbw", "busbw", "#wrong", more) +
           fmt::format("# {:>10}  {:>12}  {:24}  {:>7}  {:>6}  {:>6} {:6}{}  {:>7}  {:>6}  {:>6}\n", "(B)",
                       "(elements)", "", "(us)", "(GB/s)", "(GB/s)", "", none, "(us)", "(GB/s)", "(GB/s)");
}

std::string table_line(const BenchRow& row, bool statistics) {
    return fmt::format("{:12}  {:12}  {:>8}  {:>6}  {:6}{}{}\n", row.bytes, row.count, row.type, row.op,
                       row.root, way_text(row.out_of_place, statistics), way_text(row.in_place, statistics));
}

BenchTotals totals_of(const std::vector<BenchRow>& rows) {
    BenchTotals totals;
    double sum = 0;
    int ways = 0;
    for (const BenchRow& row : rows) {
        for (const auto& way : {row.out_of_place, row.in_place}) {
            if (!way) continue;
            totals.wrong += way->wrong.value_or(0);
            sum += way->bus_bandwidth;
            ++ways;
        }
    }
    if (ways > 0) totals.mean_bus_bandwidth = sum / ways;
    return totals;
}

std::string table_foot(const BenchTotals& totals) {
    return fmt::format("# Out of bounds values : {} {}\n# Avg bus bandwidth    : {:g}\n#\n", totals.wrong,
                       totals.wrong == 0 ? "OK" : "FAILED", totals.mean_bus_bandwidth);
}

std::string bench_json(const std::string& operation, const std::string& backend, int ranks,
                       const std::vector<BenchRow>& rows) {
    boost::json::array list;
    for (const BenchRow& row : rows) {
        list.push_back(boost::json::object{{"size", row.bytes},
                                           {"count", row.count},
                                           {"type", row.type},
                                           {"redop", row.op},
                                           {"root", row.root},
                                           {"out_of_place", way_json(row.out_of_place)},
                                           {"in_place", way_json(row.in_place)}});
    }
    const BenchTotals totals = totals_of(rows);
    return boost::json::serialize(boost::json::object{{"version", DDPRUN_VERSION},
                                                      {"operation", operation},
                                                      {"backend", backend},
                                                      {"ranks", ranks},
                                                      {"rows", std::move(list)},
                                                      {"wrong", totals.wrong},
                                                      {"avg_busbw_gbs", totals.mean_bus_bandwidth}}) +
           "\n";
}

}  // namespace app
}  // namespace ddprun
