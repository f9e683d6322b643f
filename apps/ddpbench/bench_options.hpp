// BenchOptions are the command line of ddpbench as values: nccl-tests' flags. Pure: arguments in, options or
// a text out.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "apps/ddpbench/operation.hpp"

namespace ddprun {
inline namespace app {

// Averaging says which ranks' times a row shows. The numbers are nccl-tests'.
enum class Averaging { rank0 = 0, mean = 1, fastest = 2, slowest = 3 };

struct BenchOptions {
    const TimedOperation* operation = nullptr;
    std::size_t min_bytes = std::size_t{32} << 20;
    std::size_t max_bytes = std::size_t{32} << 20;
    std::size_t step_bytes = std::size_t{1} << 20;  // unless there is a factor
    std::size_t step_factor = 0;                    // 0: none
    int iterations = 20;
    int warm_up = 1;
    std::optional<int> calls;  // in one iteration, timed together; unset: many for small sizes
    int checks = 1;            // calls with checked data; 0: none
    std::vector<ReduceOp> ops{ReduceOp::sum};
    std::vector<DataType> types{DataType::f32};
    int root = 0;
    Averaging averaging = Averaging::mean;
    bool registered = false;  // buffers from Communicator::allocate()
    BackendChoice backend = BackendChoice::automatic;
    bool statistics = false;
    std::string json_file;  // empty: none
    std::chrono::seconds timeout{300};
};

// BenchCommandEnd: the command line asks for no work: --help and --version (exit code 0, text for stdout), or
// it is wrong (2, one line for stderr that names the flag and the value).
struct BenchCommandEnd {
    int exit_code = 0;
    std::string text;
};

// Parses `arguments`, which are without the program's name.
std::variant<BenchOptions, BenchCommandEnd> parse_bench_options(std::vector<std::string> arguments);

// Returns the sizes to measure, ascending.
std::vector<std::size_t> sizes_of(const BenchOptions& options);

// Returns nccl-tests' name of a type or an operation.
std::string bench_name(DataType type);
std::string bench_name(ReduceOp op);

}  // namespace app
}  // namespace ddprun
