#include "launcher/output/kept_readers.hpp"

#include <utility>

namespace ddprun {
inline namespace launch {

bool KeptReaders::answer(const KeptQuestion& question, const Done& done, bool at_all_costs) const {
    KeptPiece piece = read_(question, kMostAtOnce);
    if (piece.blocks.empty() && !at_all_costs) return false;
    done(std::move(piece));
    return true;
}

void KeptReaders::ask(const KeptQuestion& question, const Done& done) {
    if (answer(question, done, !question.waits || is_over_)) return;
    const std::uint64_t number = ++last_;
    Waiting& waiting =
        waiting_.try_emplace(number, question, done, boost::asio::steady_timer(executor_, kLongestWait))
            .first->second;
    waiting.timer.async_wait([this, number](const boost::system::error_code& cancelled) {
        // A timer that was over already may have been answered since.
        const auto over = cancelled ? decltype(waiting_)::node_type() : waiting_.extract(number);
        if (!over.empty()) answer(over.mapped().question, over.mapped().done, true);
    });
}

void KeptReaders::look() {
    if (waiting_.empty() || std::exchange(seen_, end_()) == end_()) return;
    // What is answered may ask again, and look again, before it returns.
    for (auto next = waiting_.begin(); next != waiting_.end();) {
        const std::uint64_t number = next->first;
        auto one = waiting_.extract(next);
        if (!answer(one.mapped().question, one.mapped().done, false)) waiting_.insert(std::move(one));
        next = waiting_.upper_bound(number);
    }
}

void KeptReaders::finish() {
    is_over_ = true;
    for (const auto& [number, one] : std::exchange(waiting_, {})) answer(one.question, one.done, true);
}

}  // namespace launch
}  // namespace ddprun
