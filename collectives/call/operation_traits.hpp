// What each operation is, in one table. Pure.
#pragma once

#include <string_view>

#include "collectives/operation_request.hpp"

namespace ddprun::inline detail {

// Of which rank a buffer is read or written.
enum class Where { nowhere, root, everywhere };

struct OperationTraits {
    std::string_view name;
    Where in = Where::everywhere;
    Where out = Where::everywhere;
    // A whole buffer has a part for each rank.
    bool whole_in = false;
    bool whole_out = false;
    bool has_root = false;
    bool reduces = false;         // the ReduceOp is part of the call
    bool point_to_point = false;  // concerns those ranks only that exchange messages
    bool to_root = false;         // the elements go to the root, or to the peer
    bool internal = false;        // none of Communicator's operations
};

// Of a number that is no operation: the name "unknown".
constexpr OperationTraits traits_of(Operation operation) noexcept {
    using enum Where;
    switch (operation) {
        case Operation::none: return {.name = "nothing", .internal = true};
        case Operation::all_reduce: return {.name = "all_reduce", .reduces = true};
        case Operation::broadcast: return {.name = "broadcast", .has_root = true};
        case Operation::all_gather: return {.name = "all_gather", .whole_out = true};
        case Operation::reduce_scatter: return {.name = "reduce_scatter", .whole_in = true, .reduces = true};
        case Operation::barrier: return {.name = "barrier", .in = nowhere, .out = nowhere};
        case Operation::send:
            return {.name = "send", .out = nowhere, .point_to_point = true, .to_root = true};
        case Operation::recv: return {.name = "recv", .in = nowhere, .point_to_point = true};
        case Operation::join: return {.name = "join", .internal = true};
        case Operation::reduce:
            return {.name = "reduce", .out = root, .has_root = true, .reduces = true, .to_root = true};
        case Operation::gather:
            return {.name = "gather", .out = root, .whole_out = true, .has_root = true, .to_root = true};
        case Operation::scatter: return {.name = "scatter", .in = root, .whole_in = true, .has_root = true};
        case Operation::all_to_all: return {.name = "all_to_all", .whole_in = true, .whole_out = true};
        case Operation::split: return {.name = "split", .internal = true};
        case Operation::allocate: return {.name = "allocate", .internal = true};
        case Operation::group: return {.name = "group", .point_to_point = true, .internal = true};
    }
    return {.name = "unknown", .internal = true};
}

constexpr std::string_view name_of(Operation operation) noexcept { return traits_of(operation).name; }
constexpr bool is_known(Operation operation) noexcept { return name_of(operation) != "unknown"; }
constexpr bool is_point_to_point(Operation operation) noexcept { return traits_of(operation).point_to_point; }
constexpr bool is_reduction(Operation operation) noexcept { return traits_of(operation).reduces; }
constexpr bool has_root(Operation operation) noexcept { return traits_of(operation).has_root; }

}  // namespace ddprun::inline detail
