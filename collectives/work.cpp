#include "collectives/work.hpp"

#include <algorithm>
#include <utility>

#include "collectives/call/work_state.hpp"

namespace ddprun {
namespace {

// What a Work is in a forked child, whether it had ended before or not: the thread that would say so may have
// been about to.
std::optional<CollectiveError> refusal(const std::shared_ptr<WorkState>& state) {
    if (!state || !state->is_of_parent()) return std::nullopt;
    return CollectiveError(CollectiveErrorCode::invalid_argument,
                           "this operation was started by another process, which this one was forked from");
}

}  // namespace

void Work::wait() const {
    if (!state_) return;
    if (const auto refused = refusal(state_)) throw *refused;
    state_->wait_until(Deadline::max());
    if (const auto error = state_->error()) throw *error;
}

bool Work::wait_for(std::chrono::milliseconds timeout) const {
    if (!state_) return true;
    if (const auto refused = refusal(state_)) throw *refused;
    // Beyond a year the clock could overflow.
    const auto bounded = std::min<std::chrono::milliseconds>(timeout, std::chrono::hours(24 * 365));
    if (!state_->wait_until(Deadline::clock::now() + bounded)) return false;
    if (const auto error = state_->error()) throw *error;
    return true;
}

bool Work::test() const { return !state_ || state_->is_of_parent() || state_->ended(); }

std::optional<CollectiveError> Work::error() const {
    if (auto refused = refusal(state_)) return refused;
    if (!test() || !state_) return std::nullopt;
    return state_->error();
}

void ThreadWorkState::end(std::optional<CollectiveError> error) {
    {
        const std::lock_guard lock(mutex_);
        error_ = std::move(error);
        ended_ = true;
    }
    changed_.notify_all();
}

bool ThreadWorkState::ended() {
    const std::lock_guard lock(mutex_);
    return ended_;
}

bool ThreadWorkState::wait_until(Deadline deadline) {
    std::unique_lock lock(mutex_);
    const auto has_ended = [&] { return ended_; };
    if (deadline != Deadline::max()) return changed_.wait_until(lock, deadline, has_ended);
    changed_.wait(lock, has_ended);
    return true;
}

std::optional<CollectiveError> ThreadWorkState::error() {
    const std::lock_guard lock(mutex_);
    return error_;
}

}  // namespace ddprun
