#include "collectives/messages/message_operation.hpp"

#include <fmt/core.h>

namespace ddprun {
inline namespace detail {

std::string name_of(const MessageRequest& request) { return request.sends ? "send_tagged" : "recv_tagged"; }

std::string describe(const MessageRequest& request) {
    const std::string whom = request.peer == kAnyRank ? "any rank" : fmt::format("rank {}", request.peer);
    return fmt::format("{}({} bytes {} {}, tag {})", name_of(request), request.bytes,
                       request.sends ? "to" : "from", whom, request.tag);
}

void check_request(const MessageRequest& request, int world_size) {
    const auto refused = [&](const std::string& what) {
        const std::string name = name_of(request);
        throw CollectiveError(CollectiveErrorCode::invalid_argument, name + ": " + what, {}, name);
    };
    const bool any = !request.sends && request.peer == kAnyRank;
    if (!any && (request.peer < 0 || request.peer >= world_size)) {
        refused(fmt::format("peer {} is not a rank of this communicator (0..{}{})", request.peer,
                            world_size - 1, request.sends ? "" : ", or -1 for any"));
    }
    const void* data = request.sends ? request.in : request.out;
    if (data == nullptr && request.bytes > 0)
        refused(fmt::format("the buffer is null, but has {} bytes", request.bytes));
}

}  // namespace detail
}  // namespace ddprun
