#include "collectives/call/call.hpp"

namespace ddprun {

std::string_view name_of(Operation operation) noexcept {
    switch (operation) {
        case Operation::none: return "nothing";
        case Operation::all_reduce: return "all_reduce";
        case Operation::broadcast: return "broadcast";
        case Operation::all_gather: return "all_gather";
        case Operation::reduce_scatter: return "reduce_scatter";
        case Operation::barrier: return "barrier";
        case Operation::send: return "send";
        case Operation::recv: return "recv";
        case Operation::join: return "join";
        case Operation::reduce: return "reduce";
        case Operation::gather: return "gather";
        case Operation::scatter: return "scatter";
        case Operation::all_to_all: return "all_to_all";
        case Operation::split: return "split";
        case Operation::allocate: return "allocate";
        case Operation::group: return "group";
    }
    return "unknown";
}

bool is_known(Operation operation) noexcept { return name_of(operation) != "unknown"; }

bool is_point_to_point(Operation operation) noexcept {
    return operation == Operation::send || operation == Operation::recv || operation == Operation::group;
}

bool is_reduction(Operation operation) noexcept {
    return operation == Operation::all_reduce || operation == Operation::reduce_scatter ||
           operation == Operation::reduce;
}

bool has_root(Operation operation) noexcept {
    return operation == Operation::broadcast || operation == Operation::reduce ||
           operation == Operation::gather || operation == Operation::scatter;
}

Call on_wire(const Call& call) noexcept {
    Call wire = call;
    if (call.operation == Operation::send || call.operation == Operation::recv) {
        wire.operation = Operation::send;
        wire.root = -1;
        wire.sequence = 0;
    }
    return wire;
}

std::string describe(const Call& call) {
    std::string text(name_of(call.operation));
    if (call.operation == Operation::none || call.operation == Operation::join) return text;
    if (call.operation == Operation::group) return text + " of " + std::to_string(call.count);
    text += '(';
    if (is_reduction(call.operation)) text += std::string(name_of(call.reduce)) + ", ";
    if (call.operation != Operation::barrier && call.operation != Operation::split) {
        text += std::to_string(call.count) + ' ' + std::string(name_of(call.type));
        if (call.compression != Compression::none)
            text += " sent as " + std::string(name_of(call.compression));
    }
    const bool arrives = call.operation == Operation::reduce || call.operation == Operation::gather ||
                         call.operation == Operation::send;
    if ((has_root(call.operation) || is_point_to_point(call.operation)) && call.root >= 0) {
        text += (arrives ? " to rank " : " from rank ") + std::to_string(call.root);
    }
    text += ')';
    if (!is_point_to_point(call.operation)) text += " as call " + std::to_string(call.sequence);
    return text;
}

}  // namespace ddprun
