#include "collectives/messages/open_messages.hpp"

#include <utility>

#include "collectives/call/run_beside.hpp"
#include "rendezvous/base/check.hpp"

namespace ddprun {
inline namespace detail {

void OpenMessages::add(MessageOperation& operation) {
    operation.sequence = ++numbers_;
    operation.next = first_;
    if (first_ != nullptr) first_->previous = &operation;
    first_ = &operation;
}

void OpenMessages::end(MessageOperation& operation, std::optional<CollectiveError> error) {
    check(!operation.has_ended(), "a message ends once");
    operation.error = std::move(error);
    (operation.previous != nullptr ? operation.previous->next : first_) = operation.next;
    if (operation.next != nullptr) operation.next->previous = operation.previous;
    const std::shared_ptr<void> self = std::move(operation.self);
    if (self) sleepers_.end_started();
    for (auto& done : operation.then) run_beside(std::move(done));
    operation.ended.store(true, std::memory_order_release);
    sleepers_.wake(WakeCause::ended);
}

void OpenMessages::fail_with(MessageOperation& operation, CollectiveErrorCode code, const std::string& what,
                             std::vector<int> culprits) {
    end(operation, CollectiveError(code, describe(operation.request) + ": " + what, std::move(culprits),
                                   name_of(operation.request)));
}

void OpenMessages::set_deadline(MessageOperation& operation) {
    operation.deadline = Deadline::clock::now() + timeout_of(operation);
    if (operation.deadline >= next_deadline_) return;
    next_deadline_ = operation.deadline;
    // All look again before a later one.
    if (timeout_of(operation) < kLongestMessageSleep) sleepers_.wake(WakeCause::sooner);
}

}  // namespace detail
}  // namespace ddprun
