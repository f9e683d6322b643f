// Test data: the elements that go into a call, and those that must come out. Pure.
//
// Every element's value is 1 or 2, by chance but known from its rank, its place and the number of the call,
// so the right result can be told without communication, and is exact in every type but for the rounding of
// an average.
#pragma once

#include <cstddef>
#include <vector>

#include "apps/ddpbench/operation.hpp"

namespace ddprun::inline app {

// The values come again after so many elements.
inline constexpr std::size_t kPatternLength = 61;

// A repeating sequence of elements, encoded.
class Pattern {
  public:
    Pattern(DataType type, const std::vector<double>& values);

    // data[i] = element first + i.
    void fill(void* data, std::size_t count, std::size_t first) const;

    // How many of data[i] are not element first + i. Floating-point elements may differ by the rounding of
    // their type; NaN is always wrong.
    std::size_t count_wrong(const void* data, std::size_t count, std::size_t first) const;

  private:
    DataType type_;
    std::size_t element_;
    std::vector<double> values_;
    std::vector<std::byte> bytes_;
};

// The inputs of one rank in one call.
Pattern input_pattern(DataType type, int rank, int call);

// The reduction of all ranks' inputs.
Pattern reduced_pattern(DataType type, const Reduction& reduction, int ranks, int call);

// The first element of each rank's part differs, so that a part in the wrong place is seen.
void fill_input(const TimedOperation& operation, const OperationCall& call, void* in, int rank, int ranks,
                int number);

// Wrong elements in `out` after the call.
std::size_t count_wrong(const TimedOperation& operation, const OperationCall& call, int rank, int ranks,
                        int number);

}  // namespace ddprun::inline app
