#include "rendezvous/server/port_calls.hpp"

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <new>

namespace ddprun {
inline namespace job {

namespace asio = boost::asio;

// A port that holds few leaves as many places to those who are of the job.
PortCalls::PortCalls(asio::any_io_executor executor, const ConnectionLimit& limit)
    : executor_(std::move(executor)),
      limit_(limit),
      unproven_(std::min(UnprovenCalls::kMost, limit.most() / 2)) {}

std::shared_ptr<PortCall> PortCalls::take() {
    if (is_full() && !make_room()) return nullptr;
    const Id id = ++last_;
    auto call = std::make_shared<PortCall>(shared_from_this(), id);
    calls_[id];
    return call;
}

bool PortCalls::make_room() {
    while (!silent_.empty()) {
        const auto oldest = silent_.begin();
        const Id id = oldest->first;
        const Silent silent = std::move(oldest->second);
        silent_.erase(oldest);
        if (silent.has_said()) continue;
        calls_.at(id).is_going = true;
        ++going_;
        silent.close();
        return true;
    }
    return false;
}

void PortCalls::doubt(Id id) {
    Call& call = calls_.at(id);
    call.deadline.emplace(executor_, kUnprovenTime);
    call.deadline->async_wait([calls = shared_from_this(), id](boost::system::error_code cancelled) {
        if (cancelled) return;
        const auto found = calls->calls_.find(id);
        if (found != calls->calls_.end() && found->second.close) found->second.close();
    });
    const auto has_said = [this](Id silent) {
        const Call& other = calls_.at(silent);
        return other.has_said && other.has_said();
    };
    if (const auto gone = unproven_.add(id, call.source, has_said)) calls_.at(*gone).close();
}

void PortCalls::trust(Id id) {
    Call& call = calls_.at(id);
    unproven_.remove(id);
    call.deadline.reset();
    call.close = nullptr;
    call.has_said = nullptr;
}

void PortCalls::settle(Id id, bool is_taken, std::function<void()> close) {
    const auto found = calls_.find(id);
    if (found == calls_.end()) return;
    waiting_ -= std::exchange(found->second.waiting, 0);
    if (is_taken) return;
    found->second.close = std::move(close);
    doubt(id);
}

void PortCalls::forget(Id id) {
    const auto found = calls_.find(id);
    if (found == calls_.end()) return;
    waiting_ -= found->second.waiting;
    going_ -= found->second.is_going ? 1 : 0;
    silent_.erase(id);
    unproven_.remove(id);
    calls_.erase(found);
}

PortCall::~PortCall() {
    try {
        asio::dispatch(calls_->executor_, [calls = calls_, id = id_] { calls->forget(id); });
    } catch (const std::bad_alloc&) {
        // It counts for ever, which is one place less.
    }
}

void PortCall::doubt(const std::optional<asio::ip::address>& source, std::function<void()> close,
                     std::function<bool()> has_said) {
    PortCalls::Call& call = calls_->calls_.at(id_);
    if (call.close) return;
    call.source = source;
    call.close = std::move(close);
    call.has_said = std::move(has_said);
    calls_->doubt(id_);
}

void PortCall::may_be_silent(std::function<void()> close, std::function<bool()> has_said) {
    calls_->silent_[id_] = {std::move(close), std::move(has_said)};
}

void PortCall::speaks() {
    calls_->silent_.erase(id_);
    calls_->unproven_.speaks(id_);
}

void PortCall::trust() { calls_->trust(id_); }

bool PortCall::is_put_forward(std::size_t bytes) {
    calls_->trust(id_);
    if (bytes > PortCalls::kMaxWaitingBytes - calls_->waiting_) return false;
    calls_->calls_.at(id_).waiting = bytes;
    calls_->waiting_ += bytes;
    return true;
}

void PortCall::settle(bool is_taken, std::function<void()> close) {
    asio::post(calls_->executor_, [calls = calls_, id = id_, is_taken, close = std::move(close)]() mutable {
        calls->settle(id, is_taken, std::move(close));
    });
}

}  // namespace job
}  // namespace ddprun
