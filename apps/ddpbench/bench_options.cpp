#include "apps/ddpbench/bench_options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

namespace ddprun {
namespace {

constexpr int kMaxIterations = 1'000'000;
constexpr int kMaxRank = 1'000'000;
constexpr std::size_t kMaxSizes = 100'000;

struct TypeName {
    DataType type;
    const char* name;
};
constexpr std::array kTypes{
    TypeName{DataType::i8, "int8"},   TypeName{DataType::u8, "uint8"},
    TypeName{DataType::i32, "int32"}, TypeName{DataType::u32, "uint32"},
    TypeName{DataType::i64, "int64"}, TypeName{DataType::u64, "uint64"},
    TypeName{DataType::f16, "half"},  TypeName{DataType::bf16, "bfloat16"},
    TypeName{DataType::f32, "float"}, TypeName{DataType::f64, "double"},
};

struct OpName {
    ReduceOp op;
    const char* name;
};
constexpr std::array kOps{
    OpName{ReduceOp::sum, "sum"},   OpName{ReduceOp::prod, "prod"}, OpName{ReduceOp::max, "max"},
    OpName{ReduceOp::min, "min"},   OpName{ReduceOp::avg, "avg"},   OpName{ReduceOp::premul_sum, "mulsum"},
    OpName{ReduceOp::band, "band"}, OpName{ReduceOp::bor, "bor"},   OpName{ReduceOp::bxor, "bxor"},
};

[[noreturn]] void refuse(const std::string& flag, const std::string& text, const std::string& wanted) {
    throw CLI::ValidationError(flag, "'" + text + "' is not " + wanted);
}

int whole_number(const std::string& flag, const std::string& text, int min, int max) {
    int number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < min || number > max) {
        refuse(flag, text, "a number from " + std::to_string(min) + " to " + std::to_string(max));
    }
    return number;
}

void add_number(CLI::App& app, const std::string& flags, int& value, int min, int max,
                const std::string& help) {
    const std::string name = flags.substr(0, flags.find(','));
    app.add_option_function<std::string>(
           flags,
           [&value, name, min, max](const std::string& text) { value = whole_number(name, text, min, max); },
           help)
        ->type_name("N");
}

void add_bytes(CLI::App& app, const std::string& flags, std::size_t& value, std::size_t min,
               const std::string& help) {
    const std::string name = flags.substr(0, flags.find(','));
    app.add_option_function<std::string>(
           flags,
           [&value, name, min](const std::string& text) {
               const auto bytes = parse_bytes(text);
               if (!bytes || *bytes < min) refuse(name, text, "a size like 8, 32K, 1M or 2G");
               value = *bytes;
           },
           help)
        ->type_name("SIZE");
}

std::vector<DataType> parse_types(const std::string& text) {
    std::vector<DataType> types;
    for (const TypeName& known : kTypes) {
        if (text == "all" || text == known.name || text == name_of(known.type)) types.push_back(known.type);
    }
    if (types.empty()) refuse("-d", text, "a type (int8 … double, or all)");
    return types;
}

std::vector<ReduceOp> parse_ops(const std::string& text) {
    std::vector<ReduceOp> ops;
    for (const OpName& known : kOps) {
        if (text == "all" || text == known.name || text == name_of(known.op)) ops.push_back(known.op);
    }
    if (ops.empty())
        refuse("-o", text, "an operation (sum, prod, min, max, avg, mulsum, band, bor, bxor, or all)");
    return ops;
}

std::string operation_names() {
    std::string names;
    for (const TimedOperation& operation : operations())
        names += (names.empty() ? "" : ", ") + std::string(operation.name);
    return names;
}

void describe(CLI::App& app, BenchOptions& options, int& timeout) {
    app.add_option_function<std::string>(
           "OPERATION",
           [&options](const std::string& text) {
               options.operation = find_operation(text);
               if (!options.operation) refuse("OPERATION", text, "one of " + operation_names());
           },
           "what to measure: " + operation_names())
        ->required();
    add_bytes(app, "-b,--minbytes", options.min_bytes, 1, "smallest size (default 32M)");
    add_bytes(app, "-e,--maxbytes", options.max_bytes, 1, "largest size (default 32M)");
    add_bytes(app, "-i,--stepbytes", options.step_bytes, 1, "from one size to the next, added (default 1M)");
    app.add_option_function<std::string>(
           "-f,--stepfactor",
           [&options](const std::string& text) {
               options.step_factor = static_cast<std::size_t>(whole_number("-f", text, 2, 1024));
           },
           "the same, multiplied")
        ->type_name("N");
    add_number(app, "-n,--iters", options.iterations, 1, kMaxIterations,
               "iterations; a row shows their median (20)");
    add_number(app, "-w,--warmup_iters", options.warm_up, 0, kMaxIterations,
               "calls before them, not timed (1)");
    app.add_option_function<std::string>(
           "-m,--agg_iters",
           [&options](const std::string& text) {
               options.calls = whole_number("-m", text, 1, kMaxIterations);
           },
           "calls in one iteration, timed together (50 up to 64K, 1 above)")
        ->type_name("N");
    add_number(app, "-c,--check", options.checks, 0, kMaxIterations, "calls whose data is checked (1)");
    app.add_option_function<std::string>(
           "-o,--op", [&options](const std::string& text) { options.ops = parse_ops(text); },
           "reduction: sum, prod, min, max, avg, mulsum, band, bor, bxor, all (sum)")
        ->type_name("OP");
    app.add_option_function<std::string>(
           "-d,--datatype", [&options](const std::string& text) { options.types = parse_types(text); },
           "int8, uint8, int32, uint32, int64, uint64, half, bfloat16, float, double, all (float)")
        ->type_name("TYPE");
    add_number(app, "-r,--root", options.root, 0, kMaxRank, "root, of the operations that have one (0)");
    app.add_option_function<std::string>(
           "-a,--average",
           [&options](const std::string& text) {
               options.averaging = static_cast<Averaging>(whole_number("-a", text, 0, 3));
           },
           "time of: 0 rank 0, 1 the mean of all ranks, 2 the fastest, 3 the slowest (1)")
        ->type_name("N");
    app.add_option_function<std::string>(
           "-R,--local_register",
           [&options](const std::string& text) { options.registered = whole_number("-R", text, 0, 1) == 1; },
           "1: buffers are allocated from the communicator (0)")
        ->type_name("N");
    app.add_option_function<std::string>(
           "--backend",
           [&options](const std::string& text) {
               if (text != "cpu" && text != "nccl") refuse("--backend", text, "cpu or nccl");
               options.backend = text == "nccl" ? BackendChoice::nccl : BackendChoice::cpu;
           },
           "cpu: buffers of the host; nccl: of one GPU for each rank (DDPRUN_BACKEND, or else cpu)")
        ->type_name("NAME");
    app.add_flag("-I,--statistics", options.statistics, "also the iterations' extremes, p99 and variation");
    app.add_flag("--overlap", options.overlap,
                 "of all_reduce: how much of it goes on behind the caller's own work");
    app.add_option("-J,--json", options.json_file, "write all rows to this file, as JSON")->type_name("FILE");
    add_number(app, "-T,--timeout", timeout, 1, 86'400, "seconds for one call, then it fails (300)");
    app.set_version_flag("--version", "ddpbench " DDPRUN_VERSION);
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
    int timeout = static_cast<int>(options.timeout.count());
    describe(app, options, timeout);
    std::reverse(arguments.begin(), arguments.end());  // the order App::parse takes
    try {
        app.parse(arguments);
        options.timeout = std::chrono::seconds(timeout);
        if (options.min_bytes > options.max_bytes) {
            throw CLI::ValidationError("-b", "the smallest size is larger than the largest (-e)");
        }
        if (options.overlap && options.operation->name != "all_reduce") {
            throw CLI::ValidationError("--overlap", "measures all_reduce only");
        }
        if (sizes_of(options).size() > kMaxSizes) throw CLI::ValidationError("-i", "too many sizes");
    } catch (const CLI::CallForHelp&) {
        return BenchCommandEnd{0, app.help()};
    } catch (const CLI::CallForVersion&) {
        return BenchCommandEnd{0, app.version() + "\n"};
    } catch (const CLI::ParseError& error) {
        return BenchCommandEnd{2, error.what()};
    }
    return options;
}

std::optional<std::size_t> parse_bytes(const std::string& text) {
    std::size_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || end - stop > 1) return std::nullopt;
    int shift = 0;
    if (stop != end) {
        const std::string_view units = "KMG";
        const auto unit = units.find(static_cast<char>(*stop & ~0x20));
        if (unit == std::string_view::npos) return std::nullopt;
        shift = 10 * static_cast<int>(unit + 1);
    }
    if (number > std::numeric_limits<std::size_t>::max() >> shift) return std::nullopt;
    return number << shift;
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

std::string bench_name(DataType type) {
    for (const TypeName& known : kTypes) {
        if (known.type == type) return known.name;
    }
    return "unknown";
}

std::string bench_name(ReduceOp op) {
    for (const OpName& known : kOps) {
        if (known.op == op) return known.name;
    }
    return "unknown";
}

}  // namespace ddprun
