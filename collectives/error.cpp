#include "collectives/error.hpp"

#include <algorithm>

namespace ddprun {

struct CollectiveError::Details {
    CollectiveErrorCode code;
    std::vector<int> culprits;
    std::string operation;
    std::uint64_t sequence;
};

std::string_view name_of(CollectiveErrorCode code) noexcept {
    switch (code) {
        case CollectiveErrorCode::invalid_argument: return "invalid_argument";
        case CollectiveErrorCode::timed_out: return "timed_out";
        case CollectiveErrorCode::peer_died: return "peer_died";
        case CollectiveErrorCode::peer_left: return "peer_left";
        case CollectiveErrorCode::aborted: return "aborted";
        case CollectiveErrorCode::mismatch: return "mismatch";
        case CollectiveErrorCode::system: return "system";
    }
    return "unknown";
}

CollectiveError::CollectiveError(CollectiveErrorCode code, const std::string& what, std::vector<int> culprits,
                                 std::string operation, std::uint64_t sequence)
    : std::runtime_error(what) {
    std::sort(culprits.begin(), culprits.end());
    details_ =
        std::make_shared<const Details>(Details{code, std::move(culprits), std::move(operation), sequence});
}

CollectiveErrorCode CollectiveError::code() const noexcept { return details_->code; }
const std::vector<int>& CollectiveError::culprits() const noexcept { return details_->culprits; }
const std::string& CollectiveError::operation() const noexcept { return details_->operation; }
std::uint64_t CollectiveError::sequence() const noexcept { return details_->sequence; }

}  // namespace ddprun
