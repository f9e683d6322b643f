#include "collectives/call/call.hpp"

namespace ddprun {

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
    const OperationTraits traits = traits_of(call.operation);
    if ((traits.has_root || traits.point_to_point) && call.root >= 0) {
        text += (traits.to_root ? " to rank " : " from rank ") + std::to_string(call.root);
    }
    text += ')';
    if (!is_point_to_point(call.operation)) text += " as call " + std::to_string(call.sequence);
    return text;
}

}  // namespace ddprun
