#include "collectives/call/call.hpp"

#include <fmt/core.h>

namespace ddprun::inline detail {

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
    const OperationTraits traits = traits_of(call.operation);
    if (call.operation == Operation::none || call.operation == Operation::join)
        return std::string(traits.name);
    if (call.operation == Operation::group) return fmt::format("group of {}", call.count);
    std::string what = traits.reduces ? fmt::format("{}, ", name_of(call.reduce)) : "";
    if (call.operation != Operation::barrier && call.operation != Operation::split) {
        what += fmt::format("{} {}", call.count, name_of(call.type));
        if (call.compression != Compression::none)
            what += fmt::format(" sent as {}", name_of(call.compression));
    }
    if ((traits.has_root || traits.point_to_point) && call.root >= 0)
        what += fmt::format(" {} rank {}", traits.to_root ? "to" : "from", call.root);
    const std::string text = fmt::format("{}({})", traits.name, what);
    return traits.point_to_point ? text : fmt::format("{} as call {}", text, call.sequence);
}

}  // namespace ddprun::inline detail
