// What ends operations before their time: deadlines, ranks that leave or die, the communicator's end.
#include <fmt/core.h>

#include <algorithm>

#include "collectives/error.hpp"
#include "collectives/messages/message_exchange.hpp"
#include "collectives/tcp/peer_mesh.hpp"

namespace ddprun::inline detail {
namespace {

CollectiveError timed_out(const MessageRequest& request, std::chrono::milliseconds timeout, bool matched) {
    const std::string text = fmt::format("{}: Timed out after {} ms: {}", describe(request), timeout.count(),
                                         request.sends ? "no receive of it has come"
                                         : matched     ? "its bytes have not come"
                                                       : "no such message has come");
    const std::vector<int> culprits = request.peer < 0 ? std::vector<int>{} : std::vector<int>{request.peer};
    return CollectiveError(CollectiveErrorCode::timed_out, text, culprits,
                           request.sends ? "send_tagged" : "recv_tagged");
}

}  // namespace

void MessageExchange::set_deadline(MessageOperation& work) {
    work.deadline = Deadline::clock::now() + timeout_of(work);
    if (work.deadline >= next_deadline_) return;
    next_deadline_ = work.deadline;
    if (timeout_of(work) < kLongestMessageSleep) wake(true);
}

bool MessageExchange::is_ready() const {
    if (news_.load(std::memory_order_seq_cst) != news_seen_.load(std::memory_order_relaxed)) return true;
    if (memory_ &&
        bell_->taken.load(std::memory_order_seq_cst) != taken_seen_.load(std::memory_order_relaxed))
        return true;
    return std::any_of(local_lines_.begin(), local_lines_.end(),
                       [](const MessageLine* line) { return line->is_ready(); });
}

void MessageExchange::look_at_news() {
    news_seen_.store(news_.load(std::memory_order_seq_cst), std::memory_order_relaxed);
    verdict_ = place_.lifeline->verdict();
    if (verdict_) return fail_all();
    for (int whom = 0; whom < world_size(); ++whom) {
        if (whom == rank() || !place_.lifeline->left_after(whom)) continue;
        peer(whom).left = true;
        any_left_ = true;
    }
}

bool MessageExchange::needs(const MessageOperation& work, int left) const {
    if (work.stage == MessageOperation::Stage::pulling) return false;
    const auto is_over = [this](int whom) {
        const Peer& other = peers_[static_cast<std::size_t>(whom)];
        return whom != rank() && other.left && (!other.line || other.line->is_exhausted());
    };
    if (work.peer() == left) return work.request.sends || is_over(left);
    if (work.peer() != kAnyRank || work.source >= 0) return work.source == left && is_over(left);
    for (int whom = 0; whom < world_size(); ++whom) {
        if (whom != rank() && !is_over(whom)) return false;
    }
    return true;
}

void MessageExchange::look_for_left() {
    for (int whom = 0; whom < world_size(); ++whom) {
        if (!peer(whom).left) continue;
        MessageOperation* next = nullptr;
        for (MessageOperation* work = open_; work != nullptr; work = next) {
            next = work->next;
            if (!needs(*work, whom)) continue;
            const auto sequence = place_.lifeline->left_after(whom).value_or(0);
            withdraw(*work);
            fail_with(*work, CollectiveErrorCode::peer_left,
                      fmt::format("rank {} {}", whom, predicate_of_leaving(sequence)), {whom});
        }
    }
}

void MessageExchange::lose(int whom, const LinkLost& how) {
    Peer& other = peer(whom);
    if (other.lost) return;
    const bool is_broken = how.error_number == kLinkBroken || how.error_number == kLinkOverrun;
    if (is_broken) other.broken = how.error_number;
    // Why a connection broke may be known in a moment; what came over it is known now.
    other.lost = Deadline::clock::now() + (is_broken ? std::chrono::milliseconds(0) : kVerdictTimeout);
    next_deadline_ = std::min(next_deadline_, *other.lost);
    any_lost_ = true;
}

void MessageExchange::look_for_lost() {
    for (int whom = 0; whom < world_size(); ++whom) {
        Peer& other = peer(whom);
        if (!other.lost || (other.left && other.broken == 0) || verdict_) continue;
        if (other.broken == kLinkBroken) return declare(broken_verdict({whom}, "a message that is none"));
        if (other.broken == kLinkOverrun)
            return declare(broken_verdict({whom}, "more messages than others may be made to keep"));
        if (has_passed(*other.lost)) return declare(death_verdict(whom, kConnectionsClosed));
        next_deadline_ = std::min(next_deadline_, *other.lost);
    }
}

void MessageExchange::declare(const Verdict& verdict) {
    verdict_ = place_.lifeline->declare(verdict);
    fail_all();
}

bool MessageExchange::withdraw(MessageOperation& work) {
    if (!work.request.sends) {
        if (matchers_[work.is_by_tag()].withdraw(work)) return false;
        for (auto& [where, coming] : incoming_) {
            if (coming.work == &work) coming.work = nullptr;
        }
        return false;
    }
    if (work.peer() == rank()) {
        matchers_[true].take_back(rank(), work.tag(), work.offer, 0);
        own_offers_.erase(work.offer);
        return false;
    }
    Peer& to = peer(work.peer());
    if (work.offer == 0) {
        // Those made last are withdrawn first.
        auto& outbox = to.outboxes[work.is_by_tag()];
        const auto last = std::find(outbox.rbegin(), outbox.rend(), &work);
        if (last != outbox.rend()) outbox.erase(std::prev(last.base()));
        return false;
    }
    const std::uint32_t id = work.offer - 1;
    Offer& offer = offers_[id];
    bool taken = false;
    if (to.local) {
        // Whoever reads the sender's memory meanwhile finds that what it has read counts for nothing.
        const std::uint64_t before =
            memory_->offer(memory_->rank(), id).exchange(offer_word(offer.turn, OfferState::retracted));
        taken = before == offer_word(offer.turn, OfferState::taken);
    }
    std::erase(to.streams, id);
    // A rank that has left is told nothing.
    if (to.left) {
        release_offer(id);
        return taken;
    }
    offer.work = nullptr;
    if (!verdict_)
        to.controls.push_back({FrameKind::retract, id, offer.turn, work.tag(), 0, 0, work.request.element});
    return taken;
}

void MessageExchange::fail_all() {
    for (const Pull& pull : pulls_) pull.work->stage = MessageOperation::Stage::open;
    pulls_.clear();
    MessageOperation* next = nullptr;
    for (MessageOperation* work = open_; work != nullptr; work = next) {
        next = work->next;
        // The thread that copies ends it.
        if (work->stage == MessageOperation::Stage::pulling) continue;
        withdraw(*work);
        fail_with(*work, verdict_->code, verdict_->text, verdict_->culprits);
    }
}

void MessageExchange::expire() {
    const auto now = Deadline::clock::now();
    if (now < next_deadline_) return;
    next_deadline_ = Deadline::max();
    for (const Peer& other : peers_) {
        if (other.lost && !other.left && *other.lost > now)
            next_deadline_ = std::min(next_deadline_, *other.lost);
    }
    std::vector<int> touched;
    MessageOperation* next = nullptr;
    for (MessageOperation* work = open_; work != nullptr; work = next) {
        next = work->next;
        if (work->deadline > now) {
            next_deadline_ = std::min(next_deadline_, work->deadline);
            continue;
        }
        // Its bytes are being copied this moment.
        if (work->stage == MessageOperation::Stage::pulling) continue;
        const CollectiveError error = timed_out(work->request, timeout_of(*work), work->source >= 0);
        const int whom = work->request.sends && work->peer() != rank() ? work->peer() : -1;
        withdraw(*work);
        end(*work, error);
        if (whom >= 0) touched.push_back(whom);
    }
    for (const int whom : touched) flush(whom);
}

bool MessageExchange::has_unsent() {
    for (const MessageOperation* work = open_; work != nullptr; work = work->next) {
        if (work->request.sends || work->stage == MessageOperation::Stage::pulling) return true;
    }
    for (const int one : lined_) {
        Peer& to = peer(one);
        if (to.lost || to.left) continue;
        if (!to.controls.empty() || !to.streams.empty()) return true;
        try {
            if (!to.line->flush()) return true;
        } catch (const LinkLost& lost) {
            lose(one, lost);
        }
    }
    return false;
}

}  // namespace ddprun::inline detail
