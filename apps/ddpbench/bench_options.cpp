#include "apps/ddpbench/bench_options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <span>

#include "apps/cli/option_row.hpp"
#include "apps/cli/print.hpp"

namespace ddprun {
inline namespace app {
namespace {

constexpr int kMaxIterations = 1'000'000;
constexpr int kMaxRank = 1'000'000;
constexpr std::size_t kMaxSizes = 100'000;

template <class Value>
using Named = std::pair<Value, const char*>;

constexpr Named<DataType> kTypes[] = {{DataType::i8, "int8"},   {DataType::u8, "uint8"},
                                      {DataType::i32, "int32"}, {DataType::u32, "uint32"},
                                      {DataType::i64, "int64"}, {DataType::u64, "uint64"},
                                      {DataType::f16, "half"},  {DataType::bf16, "bfloat16"},
                                      {DataType::f32, "float"}, {DataType::f64, "double"}};

constexpr Named<ReduceOp> kOps[] = {
    {ReduceOp::sum, "sum"},   {ReduceOp::prod, "prod"}, {ReduceOp::max, "max"},
    {ReduceOp::min, "min"},   {ReduceOp::avg, "avg"},   {ReduceOp::premul_sum, "mulsum"},
    {ReduceOp::band, "band"}, {ReduceOp::bor, "bor"},   {ReduceOp::bxor, "bxor"}};

// Reads nccl-tests' name of a value or ours; "all" gives several.
template <class Value>
Grammar<std::vector<Value>> named(std::span<const Named<Value>> known, const char* wanted) {
    return [known, wanted](const std::string& text) {
        std::vector<Value> found;
        for (const auto& [value, name] : known) {
            if (text == "all" || text == name || text == name_of(value)) found.push_back(value);
        }
        if (found.empty()) throw BadValue(wanted);
        return found;
    };
}

template <class Value>
std::string name_in(std::span<const Named<Value>> known, Value value) {
    for (const auto& [one, name] : known) {
        if (one == value) return name;
    }
    return "unknown";
}

std::string operation_names() {
    std::string names;
    for (const TimedOperation& operation : operations())
        names += (names.empty() ? "" : ", ") + std::string(operation.name);
    return names;
}

const TimedOperation* parse_operation(const std::string& text) {
    const TimedOperation* operation = find_operation(text);
    if (operation == nullptr) throw BadValue("must be one of " + operation_names());
    return operation;
}

// Stores a number in a member that is no int.
template <class Target>
std::function<void(const std::string&)> number_into(Target& target, int low, int high) {
    return [&target, low, high](const std::string& text) {
        target = static_cast<Target>(number(low, high)(text));
    };
}

std::vector<OptionRow> size_rows(BenchOptions& options) {
    return {
        {"OPERATION", "", "what to measure: " + operation_names(), into(options.operation, parse_operation)},
        {"-b,--minbytes", "SIZE", "smallest size (32M)", into(options.min_bytes, byte_size(1))},
        {"-e,--maxbytes", "SIZE", "largest size (32M)", into(options.max_bytes, byte_size(1))},
        {"-i,--stepbytes", "SIZE", "from one size to the next, added (1M)",
         into(options.step_bytes, byte_size(1))},
        {"-f,--stepfactor", "N", "the same, multiplied", number_into(options.step_factor, 2, 1024)},
        {"-n,--iters", "N", "iterations; a row shows their median (20)",
         into(options.iterations, number(1, kMaxIterations))},
        {"-w,--warmup_iters", "N", "calls before them, not timed (1)",
         into(options.warm_up, number(0, kMaxIterations))},
        {"-m,--agg_iters", "N", "calls in one iteration, timed together (50 up to 64K, 1 above)",
         into(options.calls, number(1, kMaxIterations))},
        {"-c,--check", "N", "calls whose data is checked (1)",
         into(options.checks, number(0, kMaxIterations))}};
}

std::vector<OptionRow> call_rows(BenchOptions& options) {
    return {
        {"-o,--op", "OP", "reduction: sum, prod, min, max, avg, mulsum, band, bor, bxor, all (sum)",
         into(options.ops,
              named<ReduceOp>(kOps,
                              "must be an operation (sum, prod, min, max, avg, mulsum, band, bor, "
                              "bxor, or all)"))},
        {"-d,--datatype", "TYPE",
         "int8, uint8, int32, uint32, int64, uint64, half, bfloat16, float, double, all (float)",
         into(options.types, named<DataType>(kTypes, "must be a type (int8 … double, or all)"))},
        {"-r,--root", "N", "root, of the operations that have one (0)",
         into(options.root, number(0, kMaxRank))},
        {"-a,--average", "N", "time of: 0 rank 0, 1 the mean of all ranks, 2 the fastest, 3 the slowest (1)",
         number_into(options.averaging, 0, 3)},
        {"-R,--local_register", "N", "1: buffers are allocated from the communicator (0)",
         number_into(options.registered, 0, 1)},
        {"--backend", "NAME",
         "cpu: buffers of the host; nccl: of one GPU for each rank (DDPRUN_BACKEND, or else cpu)",
         into(options.backend,
              one_of<BackendChoice>({{"cpu", BackendChoice::cpu}, {"nccl", BackendChoice::nccl}}))},
        {"-I,--statistics", "", "also the iterations' extremes, p99 and variation", into(options.statistics)},
        {"-J,--json", "FILE", "write all rows to this file, as JSON", into(options.json_file), kPath},
        {"-T,--timeout", "N", "seconds for one call, then it fails (300)",
         number_into(options.timeout, 1, 86'400)}};
}

void check_together(const BenchOptions& options) {
    if (options.min_bytes > options.max_bytes)
        throw UsageError("-b: the smallest size is larger than the largest (-e)");
    if (sizes_of(options).size() > kMaxSizes) throw UsageError("-i: too many sizes");
}

}  // namespace

std::variant<BenchOptions, BenchCommandEnd> parse_bench_options(std::vector<std::string> arguments) {
    CLI::App app("Measures the collectives between the workers of a job.", "ddpbench");
    app.footer(
        "Run it under a launcher, for example\n"
        "  ddprun --nproc-per-node 2 ddpbench all_reduce -b 8 -e 32M -f 4\n"
        "Sizes, bandwidths and columns mean what they mean in nccl-tests; a time is the median of the "
        "iterations.\n"
        "Exit codes: 0 done; 1 wrong data, a lost worker, or less than NCCL_TESTS_MIN_BW; 2 wrong command "
        "line.");
    BenchOptions options;
    const std::vector<OptionGroup> groups = {{"", size_rows(options)}, {"", call_rows(options)}};
    add_standard_options(app, DDPRUN_VERSION);
    add_rows(app, groups);
    try {
        if (auto text = parse_words(app, groups, std::move(arguments)))
            return BenchCommandEnd{0, *std::move(text)};
        take_values(app, groups);
        check_together(options);
    } catch (const UsageError& error) {
        return BenchCommandEnd{2, error.what()};
    }
    return options;
}

std::vector<std::size_t> sizes_of(const BenchOptions& options) {
    std::vector<std::size_t> sizes;
    for (std::size_t bytes = options.min_bytes; bytes <= options.max_bytes && sizes.size() <= kMaxSizes;) {
        sizes.push_back(bytes);
        const std::size_t room = options.max_bytes - bytes;
        const std::size_t step =
            options.step_factor > 0 ? bytes * (options.step_factor - 1) : options.step_bytes;
        if (step > room) break;
        bytes += step;
    }
    return sizes;
}

std::string bench_name(DataType type) { return name_in<DataType>(kTypes, type); }
std::string bench_name(ReduceOp op) { return name_in<ReduceOp>(kOps, op); }

}  // namespace app
}  // namespace ddprun
