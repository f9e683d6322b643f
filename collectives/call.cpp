#include "collectives/call.hpp"

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
    }
    return "unknown";
}

bool is_known(Operation operation) noexcept { return name_of(operation) != "unknown"; }

bool is_point_to_point(Operation operation) noexcept {
    return operation == Operation::send || operation == Operation::recv;
}

Call on_wire(const Call& call) noexcept {
    Call wire = call;
    if (is_point_to_point(call.operation)) {
        wire.operation = Operation::send;
        wire.root = -1;
        wire.sequence = 0;
    }
    return wire;
}

std::string describe(const Call& call) {
    std::string text(name_of(call.operation));
    if (call.operation == Operation::none || call.operation == Operation::join) return text;
    text += '(';
    if (call.operation == Operation::all_reduce || call.operation == Operation::reduce_scatter) {
        text += std::string(name_of(call.reduce)) + ", ";
    }
    if (call.operation != Operation::barrier) {
        text += std::to_string(call.count) + ' ' + std::string(name_of(call.type));
    }
    if (call.operation == Operation::broadcast) text += " from rank " + std::to_string(call.root);
    if (call.operation == Operation::recv) text += " from rank " + std::to_string(call.root);
    if (call.operation == Operation::send && call.root >= 0) text += " to rank " + std::to_string(call.root);
    text += ')';
    if (!is_point_to_point(call.operation)) text += " as call " + std::to_string(call.sequence);
    return text;
}

}  // namespace ddprun
