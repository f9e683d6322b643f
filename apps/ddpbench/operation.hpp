// operations() returns the operations that ddpbench knows: how nccl-tests counts their bytes, how to call
// them, and the data by which they are checked.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/communicator.hpp"

namespace ddprun {
inline namespace app {

// An OperationCall is one call. If it is in place, `in` and `out` are what the operation's contract asks for.
struct OperationCall {
    const void* in = nullptr;
    void* out = nullptr;
    std::size_t count = 0;  // elements, of each rank's part where the operation has parts
    DataType type = DataType::f32;
    Reduction reduction = ReduceOp::sum;
    int root = 0;
};

struct OperationTraits {
    bool reduces = false;
    bool has_root = false;
    bool out_at_root_only = false;  // the other ranks' `out` is not touched
    // in_has_parts, out_has_parts: how many of a call's `count` the buffer holds: one for each rank, else 1.
    bool in_has_parts = false;
    bool out_has_parts = false;
    bool out_of_place = true;
    bool in_place = true;
    int min_ranks = 1;
};

struct TimedOperation : OperationTraits {
    std::string_view name;
    // bus_factor: the bus bandwidth divided by the algorithm bandwidth, for so many ranks (nccl-tests'
    // PERFORMANCE.md).
    double (*bus_factor)(int ranks) = nullptr;
    void (*run)(Communicator& communicator, const OperationCall& call) = nullptr;

    bool has_parts() const { return in_has_parts || out_has_parts; }
};

std::span<const TimedOperation> operations();

// Finds the operation by its name, with or without nccl-tests' ending "_perf"; null if there is none.
const TimedOperation* find_operation(std::string_view name);

// Pattern and the functions below make test data: the elements that go into a call, and those that must come
// out. Pure.
//
// Every element's value is 1 or 2, by chance but known from its rank, its place and the number of the call.
// Therefore the right result is known without communication, and is exact in every type but for the rounding
// of an average.

// kPatternLength: after how many elements the values come again.
inline constexpr std::size_t kPatternLength = 61;

// A Pattern is a repeating sequence of elements, encoded.
class Pattern {
  public:
    Pattern(DataType type, const std::vector<double>& values);

    // Sets data[i] to element first + i.
    void fill(void* data, std::size_t count, std::size_t first) const;

    // Counts the data[i] that are not element first + i. Floating-point elements may differ by the rounding
    // of their type; NaN is always wrong.
    std::size_t count_wrong(const void* data, std::size_t count, std::size_t first) const;

  private:
    DataType type_;
    std::size_t element_;
    std::vector<double> values_;
    std::vector<std::byte> bytes_;
};

// Returns the inputs of one rank in one call.
Pattern input_pattern(DataType type, int rank, int call);

// Returns the reduction of all ranks' inputs.
Pattern reduced_pattern(DataType type, const Reduction& reduction, int ranks, int call);

// Fills `in`. The first element of each rank's part differs, so that a part in the wrong place is seen.
void fill_input(const TimedOperation& operation, const OperationCall& call, void* in, int rank, int ranks,
                int number);

// Returns the number of wrong elements in `out` after the call.
std::size_t count_wrong(const TimedOperation& operation, const OperationCall& call, int rank, int ranks,
                        int number);

}  // namespace app
}  // namespace ddprun
