// OpenMessages: the operations of a messenger that have not ended, and their deadlines. All but set_timeout()
// is called under the messenger's lock.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/call/call.hpp"
#include "collectives/call/checked_task.hpp"
#include "collectives/error.hpp"
#include "collectives/messages/message_operation.hpp"
#include "collectives/messages/message_sleepers.hpp"
#include "rendezvous/base/deadline.hpp"

namespace ddprun {
inline namespace detail {

class OpenMessages {
  public:
    OpenMessages(MessageSleepers& sleepers, std::chrono::milliseconds operation_timeout)
        : sleepers_(sleepers), operation_timeout_(operation_timeout) {}

    void add(MessageOperation& operation);
    // Ends an operation, once; its owner may take it away from then on.
    void end(MessageOperation& operation, std::optional<CollectiveError> error = std::nullopt);
    void fail_with(MessageOperation& operation, CollectiveErrorCode code, const std::string& what,
                   std::vector<int> culprits);
    bool is_empty() const noexcept { return first_ == nullptr; }
    // begun(): how many operations were ever added.
    std::uint64_t begun() const noexcept { return numbers_; }
    // Calls body(operation) for each operation, which body() may end.
    template <class Body>
    void each(Body body) {
        MessageOperation* next = nullptr;
        for (MessageOperation* one = first_; one != nullptr; one = next) {
            next = one->next;
            body(*one);
        }
    }

    // Sets the timeout of operations that begin from now on.
    void set_timeout(std::chrono::milliseconds operation_timeout) { operation_timeout_ = operation_timeout; }
    std::chrono::milliseconds timeout_of(const MessageOperation& operation) const {
        const auto timeout = operation.request.timeout;
        return timeout.count() < 0 ? operation_timeout_.load()
                                   : std::min<std::chrono::milliseconds>(timeout, kLongestTimeout);
    }
    void set_deadline(MessageOperation& operation);
    // next_deadline(): when the operations have to be looked at again at the latest.
    Deadline next_deadline() const noexcept { return next_deadline_; }
    void look_by(Deadline deadline) { next_deadline_ = std::min(next_deadline_, deadline); }
    // Forgets next_deadline(): the caller looks at all operations, and says anew when that has to be.
    void look_at_all() { next_deadline_ = Deadline::max(); }

  private:
    MessageSleepers& sleepers_;
    std::atomic<std::chrono::milliseconds> operation_timeout_;
    MessageOperation* first_ = nullptr;
    std::uint64_t numbers_ = 0;
    Deadline next_deadline_ = Deadline::max();
};

}  // namespace detail
}  // namespace ddprun
