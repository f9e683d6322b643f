#include "rendezvous/server/port_calls.hpp"

#include <algorithm>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <new>
#include <utility>

namespace ddprun::inline job {

std::optional<UnprovenCalls::Id> UnprovenCalls::add(Id id,
                                                    const std::optional<boost::asio::ip::address>& source) {
    const auto is_of_source = [&source](const Call& call) { return source && call.source == source; };
    const bool is_greedy = std::count_if(calls_.begin(), calls_.end(), is_of_source) >=
                           static_cast<std::ptrdiff_t>(kMostOfOneSource);
    const bool is_full = calls_.size() >= most_;
    std::optional<Id> gone;
    if (is_greedy || is_full) {
        const auto may_go = [&](const Call& call) { return !is_greedy || is_of_source(call); };
        auto oldest = std::find_if(calls_.begin(), calls_.end(),
                                   [&](const Call& call) { return may_go(call) && call.is_silent; });
        if (oldest == calls_.end()) oldest = std::find_if(calls_.begin(), calls_.end(), may_go);
        gone = oldest->id;
        calls_.erase(oldest);
    }
    calls_.push_back({id, source});
    return gone;
}

void UnprovenCalls::speaks(Id id) {
    for (Call& call : calls_) {
        if (call.id == id) call.is_silent = false;
    }
}

void UnprovenCalls::remove(Id id) {
    calls_.remove_if([id](const Call& call) { return call.id == id; });
}

namespace asio = boost::asio;

// A port that holds few leaves as many places to those who are of the job.
PortCalls::PortCalls(asio::any_io_executor executor, const ConnectionLimit& limit)
    : executor_(std::move(executor)),
      limit_(limit),
      unproven_(std::min(UnprovenCalls::kMost, limit.most() / 2)) {}

std::shared_ptr<PortCall> PortCalls::take() {
    if (!limit_.has_room(calls_.size())) return nullptr;
    const Id id = ++last_;
    auto call = std::make_shared<PortCall>(shared_from_this(), id);
    calls_[id];
    return call;
}

void PortCalls::doubt(Id id) {
    Call& call = calls_.at(id);
    call.deadline.emplace(executor_, kUnprovenTime);
    call.deadline->async_wait([calls = shared_from_this(), id](boost::system::error_code cancelled) {
        if (cancelled) return;
        const auto found = calls->calls_.find(id);
        if (found != calls->calls_.end() && found->second.close) found->second.close();
    });
    if (const auto gone = unproven_.add(id, call.source)) calls_.at(*gone).close();
}

void PortCalls::trust(Id id) {
    Call& call = calls_.at(id);
    unproven_.remove(id);
    call.deadline.reset();
    call.close = nullptr;
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

void PortCall::doubt(const std::optional<asio::ip::address>& source, std::function<void()> close) {
    PortCalls::Call& call = calls_->calls_.at(id_);
    if (call.close) return;
    call.source = source;
    call.close = std::move(close);
    calls_->doubt(id_);
}

void PortCall::speaks() { calls_->unproven_.speaks(id_); }

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

}  // namespace ddprun::inline job
