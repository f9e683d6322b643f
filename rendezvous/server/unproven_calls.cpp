#include "rendezvous/server/unproven_calls.hpp"

#include <algorithm>

namespace ddprun {
inline namespace job {

namespace asio = boost::asio;

std::optional<UnprovenCalls::Id> UnprovenCalls::add(Id id,
                                                    const std::optional<boost::asio::ip::address>& source,
                                                    const std::function<bool(Id)>& has_said) {
    const auto is_of_source = [&source](const Call& call) { return source && call.source == source; };
    const bool is_greedy = std::count_if(calls_.begin(), calls_.end(), is_of_source) >=
                           static_cast<std::ptrdiff_t>(kMostOfOneSource);
    const bool is_full = calls_.size() >= most_;
    std::optional<Id> gone;
    if (is_greedy || is_full) {
        const auto may_go = [&](const Call& call) { return !is_greedy || is_of_source(call); };
        auto oldest = std::find_if(calls_.begin(), calls_.end(), [&](Call& call) {
            if (!may_go(call) || !call.is_silent) return false;
            // It is about to be read.
            call.is_silent = !has_said || !has_said(call.id);
            return call.is_silent;
        });
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

}  // namespace job
}  // namespace ddprun
