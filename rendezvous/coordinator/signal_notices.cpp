#include "rendezvous/coordinator/signal_notices.hpp"

namespace ddprun::inline job {

bool SignalNotices::is_news(std::uint64_t connection, int signal, TimePoint now) {
    Sent& sent = sent_[signal];
    if (now - sent.passed_on > kSameSignal) sent = {};
    if (++sent.told[connection] <= sent.count) return false;
    ++sent.count;
    sent.passed_on = now;
    return true;
}

}  // namespace ddprun::inline job
