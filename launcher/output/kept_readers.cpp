#include "launcher/output/kept_readers.hpp"

#include <utility>

namespace ddprun {
inline namespace launch {

bool KeptReaders::answer(const KeptQuestion& question, const Done& done, bool at_all_costs) const {
    KeptPiece piece = kept_.read(question.rank, question.from, kMostAtOnce);
    if (piece.blocks.empty() && !at_all_costs) return false;
    done(std::move(piece));
    return true;
}

void KeptReaders::ask(const KeptQuestion& question, const Done& done) {
    if (answer(question, done, !question.waits || is_over_)) return;
    const std::uint64_t number = ++last_;
    Waiting& waiting =
        waiting_.try_emplace(number, question, done, boost::asio::steady_timer(context_, kLongestWait))
            .first->second;
    waiting.timer.async_wait([this, number](const boost::system::error_code& cancelled) {
        // A timer that was over already may have been answered since.
        const auto over = cancelled ? waiting_.end() : waiting_.find(number);
        if (over == waiting_.end()) return;
        answer(over->second.question, over->second.done, true);
        waiting_.erase(over);
    });
}

void KeptReaders::look() {
    if (waiting_.empty() || std::exchange(seen_, kept_.end()) == kept_.end()) return;
    std::erase_if(waiting_, [this](const auto& entry) {
        return answer(entry.second.question, entry.second.done, false);
    });
}

void KeptReaders::finish() {
    is_over_ = true;
    for (const auto& [number, one] : std::exchange(waiting_, {})) answer(one.question, one.done, true);
}

}  // namespace launch
}  // namespace ddprun
