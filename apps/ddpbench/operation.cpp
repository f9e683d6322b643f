#include "apps/ddpbench/operation.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "collectives/group.hpp"
#include "rendezvous/base/check.hpp"

namespace ddprun {
inline namespace app {
namespace {

double whole(int) { return 1; }
double without_own(int ranks) { return static_cast<double>(ranks - 1) / ranks; }
double each(int ranks) { return ranks; }
double there_and_back(int ranks) { return 2 * without_own(ranks); }

// Each rank sends to the next.
void run_sendrecv(Communicator& communicator, const OperationCall& call) {
    const int ranks = communicator.world_size();
    const int next = (communicator.rank() + 1) % ranks;
    const int before = (communicator.rank() + ranks - 1) % ranks;
    Group group(communicator);
    group.send(call.in, call.count, call.type, next);
    group.recv(call.out, call.count, call.type, before);
    group.run();
}

// A message by tag goes from rank 0 to the next, and when it has come the next one, until rank 0 has the
// last.
void run_pingpong(Communicator& communicator, const OperationCall& call) {
    const int ranks = communicator.world_size();
    const int rank = communicator.rank();
    const std::size_t bytes = call.count * size_of(call.type);
    const auto send = [&] { communicator.send_tagged(call.in, bytes, (rank + 1) % ranks, 0); };
    if (rank == 0) send();
    communicator.recv_tagged(call.out, bytes, (rank + ranks - 1) % ranks, 0);
    if (rank > 0) send();
}

void run_all_reduce(Communicator& communicator, const OperationCall& call) {
    communicator.all_reduce(call.in, call.out, call.count, call.type, call.reduction);
}
void run_all_gather(Communicator& communicator, const OperationCall& call) {
    communicator.all_gather(call.in, call.out, call.count, call.type);
}
void run_reduce_scatter(Communicator& communicator, const OperationCall& call) {
    communicator.reduce_scatter(call.in, call.out, call.count, call.type, call.reduction);
}
void run_broadcast(Communicator& communicator, const OperationCall& call) {
    communicator.broadcast(call.out, call.count, call.type, call.root);
}
void run_reduce(Communicator& communicator, const OperationCall& call) {
    communicator.reduce(call.in, call.out, call.count, call.type, call.reduction, call.root);
}
void run_gather(Communicator& communicator, const OperationCall& call) {
    communicator.gather(call.in, call.out, call.count, call.type, call.root);
}
void run_scatter(Communicator& communicator, const OperationCall& call) {
    communicator.scatter(call.in, call.out, call.count, call.type, call.root);
}
void run_all_to_all(Communicator& communicator, const OperationCall& call) {
    communicator.all_to_all(call.in, call.out, call.count, call.type);
}

constexpr TimedOperation kOperations[] = {
    {{.reduces = true}, "all_reduce", there_and_back, run_all_reduce},
    {{.out_has_parts = true}, "all_gather", without_own, run_all_gather},
    {{.reduces = true, .in_has_parts = true}, "reduce_scatter", without_own, run_reduce_scatter},
    {{.has_root = true, .out_of_place = false}, "broadcast", whole, run_broadcast},
    {{.reduces = true, .has_root = true, .out_at_root_only = true}, "reduce", whole, run_reduce},
    {{.has_root = true, .out_at_root_only = true, .out_has_parts = true}, "gather", without_own, run_gather},
    {{.has_root = true, .in_has_parts = true}, "scatter", without_own, run_scatter},
    {{.in_has_parts = true, .out_has_parts = true}, "all_to_all", without_own, run_all_to_all},
    {{.in_place = false, .min_ranks = 2}, "sendrecv", whole, run_sendrecv},
    {{.in_place = false, .min_ranks = 2}, "pingpong", each, run_pingpong}};

}  // namespace

std::span<const TimedOperation> operations() { return kOperations; }

const TimedOperation* find_operation(std::string_view name) {
    constexpr std::string_view kEnding = "_perf";
    if (name.ends_with(kEnding)) name.remove_suffix(kEnding.size());
    for (const TimedOperation& operation : kOperations) {
        if (operation.name == name) return &operation;
    }
    return nullptr;
}

namespace {

template <class T, class Body>
auto as(Body body) {
    return body(T{});
}

// body(T{}) for the C++ type of the elements.
template <class Body>
auto with_type(DataType type, Body body) {
    switch (type) {
        case DataType::f32: return as<float>(body);
        case DataType::f64: return as<double>(body);
        case DataType::i32: return as<std::int32_t>(body);
        case DataType::i64: return as<std::int64_t>(body);
        case DataType::i8: return as<std::int8_t>(body);
        case DataType::u8: return as<std::uint8_t>(body);
        case DataType::u32: return as<std::uint32_t>(body);
        case DataType::u64: return as<std::uint64_t>(body);
        case DataType::f16: return as<Float16>(body);
        case DataType::bf16: return as<BFloat16>(body);
    }
    check(false, "an unknown element type");
    return as<float>(body);
}

// Integers wrap around.
void encode(DataType type, double value, std::byte* slot) {
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        T element{};
        if constexpr (std::is_integral_v<T>) {
            element = static_cast<T>(static_cast<std::int64_t>(value));
        } else {
            element = T(static_cast<float>(value));
        }
        std::memcpy(slot, &element, sizeof element);
    });
}

double decode(DataType type, const std::byte* slot) {
    return with_type(type, [&](auto zero) {
        decltype(zero) element;
        std::memcpy(&element, slot, sizeof element);
        if constexpr (sizeof element == 2)
            return static_cast<double>(static_cast<float>(element));
        else
            return static_cast<double>(element);
    });
}

double tolerance(DataType type) {
    switch (type) {
        case DataType::f16: return 0x1p-10;
        case DataType::bf16: return 0x1p-7;
        case DataType::f32: return 0x1p-22;
        case DataType::f64: return 0x1p-22;  // an average is encoded by way of a float
        case DataType::i32:
        case DataType::i64:
        case DataType::i8:
        case DataType::u8:
        case DataType::u32:
        case DataType::u64: return 0;
    }
    return 0;
}

bool is_integer(DataType type) { return tolerance(type) == 0; }

// 1 or 2, by chance.
double value_of(int rank, std::size_t place, int call) {
    // SplitMix64's last steps.
    std::uint64_t bits = place * 0x9e3779b97f4a7c15 + static_cast<std::uint64_t>(rank) * 0xbf58476d1ce4e5b9 +
                         static_cast<std::uint64_t>(call) * 0x94d049bb133111eb;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
    return static_cast<double>(1 + (bits >> 63));
}

double fold(ReduceOp op, double one, double other) {
    const auto left = static_cast<std::uint64_t>(one);
    const auto right = static_cast<std::uint64_t>(other);
    switch (op) {
        case ReduceOp::sum:
        case ReduceOp::avg:
        case ReduceOp::premul_sum: return one + other;
        // Powers of two up to 2^62, beyond which integers wrap around to 0 in every type.
        case ReduceOp::prod: return one * other;
        case ReduceOp::min: return std::min(one, other);
        case ReduceOp::max: return std::max(one, other);
        case ReduceOp::band: return static_cast<double>(left & right);
        case ReduceOp::bor: return static_cast<double>(left | right);
        case ReduceOp::bxor: return static_cast<double>(left ^ right);
    }
    return 0;
}

std::vector<double> values_of(int rank, int call) {
    std::vector<double> values(kPatternLength);
    for (std::size_t place = 0; place < kPatternLength; ++place) values[place] = value_of(rank, place, call);
    return values;
}

}  // namespace

Pattern::Pattern(DataType type, const std::vector<double>& values)
    : type_(type), element_(size_of(type)), values_(values), bytes_(values.size() * element_) {
    for (std::size_t i = 0; i < values.size(); ++i) {
        encode(type, values[i], bytes_.data() + i * element_);
        values_[i] = decode(type, bytes_.data() + i * element_);
    }
}

void Pattern::fill(void* data, std::size_t count, std::size_t first) const {
    auto* slot = static_cast<std::byte*>(data);
    std::size_t place = first % values_.size();
    while (count > 0) {
        const std::size_t run = std::min(count, values_.size() - place);
        std::memcpy(slot, bytes_.data() + place * element_, run * element_);
        slot += run * element_;
        count -= run;
        place = 0;
    }
}

std::size_t Pattern::count_wrong(const void* data, std::size_t count, std::size_t first) const {
    const auto* slot = static_cast<const std::byte*>(data);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i, slot += element_) {
        const double expected = values_[(first + i) % values_.size()];
        const double found = decode(type_, slot);
        const bool right =
            found == expected || std::abs(found - expected) <= tolerance(type_) * std::abs(expected);
        if (!right) ++wrong;
    }
    return wrong;
}

Pattern input_pattern(DataType type, int rank, int call) { return {type, values_of(rank, call)}; }

Pattern reduced_pattern(DataType type, const Reduction& reduction, int ranks, int call) {
    std::vector<double> result;
    for (int rank = 0; rank < ranks; ++rank) {
        std::vector<double> values = values_of(rank, call);
        if (reduction.op == ReduceOp::premul_sum) {
            for (double& value : values) value *= reduction.scalar;
        }
        if (result.empty()) {
            result = std::move(values);
        } else {
            for (std::size_t i = 0; i < result.size(); ++i)
                result[i] = fold(reduction.op, result[i], values[i]);
        }
    }
    if (reduction.op == ReduceOp::avg) {
        for (double& value : result) value = is_integer(type) ? std::trunc(value / ranks) : value / ranks;
    }
    return {type, result};
}

void fill_input(const TimedOperation& operation, const OperationCall& call, void* in, int rank, int ranks,
                int number) {
    const std::size_t parts = operation.in_has_parts ? static_cast<std::size_t>(ranks) : 1;
    input_pattern(call.type, rank, number).fill(in, call.count * parts, 0);
}

std::size_t count_wrong(const TimedOperation& operation, const OperationCall& call, int rank, int ranks,
                        int number) {
    if (operation.out_at_root_only && rank != call.root) return 0;
    // This rank's part begins here in an input that has parts.
    const std::size_t own = operation.in_has_parts ? static_cast<std::size_t>(rank) * call.count : 0;
    if (operation.reduces) {
        return reduced_pattern(call.type, call.reduction, ranks, number)
            .count_wrong(call.out, call.count, own);
    }
    if (operation.out_has_parts) {
        std::size_t wrong = 0;
        for (int from = 0; from < ranks; ++from) {
            const auto* part = static_cast<const std::byte*>(call.out) +
                               static_cast<std::size_t>(from) * call.count * size_of(call.type);
            wrong += input_pattern(call.type, from, number).count_wrong(part, call.count, own);
        }
        return wrong;
    }
    const int from = operation.has_root ? call.root : (rank + ranks - 1) % ranks;
    return input_pattern(call.type, from, number).count_wrong(call.out, call.count, own);
}

}  // namespace app
}  // namespace ddprun
