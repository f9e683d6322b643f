// What ends operations before their time: deadlines, ranks that leave or die, the communicator's end.
#include <fmt/core.h>

#include <algorithm>

#include "collectives/error.hpp"
#include "collectives/liveness/judgement.hpp"
#include "collectives/messages/message_exchange.hpp"

namespace ddprun {
inline namespace detail {
namespace {

CollectiveError timed_out(const MessageRequest& request, std::chrono::milliseconds timeout, bool matched) {
    const std::string text = fmt::format("{}: Timed out after {} ms: {}", describe(request), timeout.count(),
                                         request.sends ? "no receive of it has come"
                                         : matched     ? "its bytes have not come"
                                                       : "no such message has come");
    const std::vector<int> culprits = request.peer < 0 ? std::vector<int>{} : std::vector<int>{request.peer};
    return CollectiveError(CollectiveErrorCode::timed_out, text, culprits, name_of(request));
}

}  // namespace

void MessageExchange::look_at_news() {
    news_seen_.store(news_.load(std::memory_order_seq_cst), std::memory_order_relaxed);
    verdict_ = surroundings_.verdict();
    if (verdict_) return fail_all();
    for (int whom = 0; whom < flow_.world_size(); ++whom) {
        if (whom == flow_.rank() || !surroundings_.left_after(whom)) continue;
        flow_.peer(whom).left = true;
        any_left_ = true;
    }
}

bool MessageExchange::is_over(int whom) const {
    const MessagePeer& other = flow_.peer(whom);
    return whom != flow_.rank() && other.left && (!other.line || other.line->is_exhausted());
}

bool MessageExchange::needs(const MessageOperation& operation, int left) const {
    if (operation.stage == MessageOperation::Stage::pulling) return false;
    if (operation.peer() == left) return operation.request.sends || is_over(left);
    if (operation.peer() != kAnyRank || operation.source >= 0)
        return operation.source == left && is_over(left);
    for (int whom = 0; whom < flow_.world_size(); ++whom) {
        if (whom != flow_.rank() && !is_over(whom)) return false;
    }
    return true;
}

void MessageExchange::look_for_left() {
    for (int whom = 0; whom < flow_.world_size(); ++whom) {
        if (!flow_.peer(whom).left) continue;
        open_.each([&](MessageOperation& operation) {
            if (!needs(operation, whom)) return;
            const auto sequence = surroundings_.left_after(whom).value_or(0);
            withdraw(operation);
            open_.fail_with(operation, CollectiveErrorCode::peer_left,
                            fmt::format("rank {} {}", whom, predicate_of_leaving(sequence)), {whom});
        });
    }
}

void MessageExchange::look_for_lost() {
    for (int whom = 0; whom < flow_.world_size(); ++whom) {
        const MessagePeer& other = flow_.peer(whom);
        if (!other.lost || (other.left && other.broken == 0) || verdict_) continue;
        if (other.broken == kLinkBroken) return declare(broken_verdict({whom}, "a message that is none"));
        if (other.broken == kLinkOverrun)
            return declare(broken_verdict({whom}, "more messages than others may be made to keep"));
        if (has_passed(*other.lost)) return declare(death_verdict(whom, kConnectionsClosed));
        open_.look_by(*other.lost);
    }
}

void MessageExchange::declare(const Verdict& verdict) {
    verdict_ = surroundings_.declare(verdict);
    fail_all();
}

bool MessageExchange::withdraw(MessageOperation& operation) {
    if (operation.request.sends && operation.peer() != flow_.rank()) return flow_.withdraw_send(operation);
    if (operation.request.sends) {
        matchers_[true].take_back(flow_.rank(), operation.tag(), operation.offer, 0);
        own_offers_.erase(operation.offer);
    } else if (!matchers_[operation.is_by_tag()].withdraw(operation)) {
        flow_.withdraw_receive(operation);
    }
    return false;
}

void MessageExchange::fail_all() {
    flow_.end();
    open_.each([&](MessageOperation& operation) {
        // The thread that copies ends it.
        if (operation.stage == MessageOperation::Stage::pulling) return;
        withdraw(operation);
        fail_by_verdict(operation);
    });
}

void MessageExchange::end() {
    if (!verdict_) verdict_ = {CollectiveErrorCode::aborted, {}, kMessengerClosed};
    fail_all();
}

void MessageExchange::refuse_all() {
    refuses_all_ = true;
    open_.each([&](MessageOperation& operation) {
        if (operation.request.sends || operation.stage == MessageOperation::Stage::pulling) return;
        withdraw(operation);
        open_.fail_with(operation, CollectiveErrorCode::invalid_argument, kMessengerClosed, {});
    });
}

void MessageExchange::expire() {
    const auto now = Deadline::clock::now();
    if (now < open_.next_deadline()) return;
    open_.look_at_all();
    for (int whom = 0; whom < flow_.world_size(); ++whom) {
        const MessagePeer& other = flow_.peer(whom);
        if (other.lost && !other.left && *other.lost > now) open_.look_by(*other.lost);
    }
    std::vector<int> touched;
    open_.each([&](MessageOperation& operation) {
        if (operation.deadline > now) return open_.look_by(operation.deadline);
        // Its bytes are being copied this moment.
        if (operation.stage == MessageOperation::Stage::pulling) return;
        const CollectiveError error =
            timed_out(operation.request, open_.timeout_of(operation), operation.source >= 0);
        const int whom = operation.request.sends && operation.peer() != flow_.rank() ? operation.peer() : -1;
        withdraw(operation);
        open_.end(operation, error);
        if (whom >= 0) touched.push_back(whom);
    });
    for (const int whom : touched) flow_.flush(whom);
}

bool MessageExchange::give_up_all(std::span<MessageOperation* const> operations) {
    bool moved = std::ranges::any_of(operations, [&](const MessageOperation* one) {
        if (!one->request.sends || one->has_ended()) return one->has_ended() || one->source >= 0;
        return flow_.has_moved(*one);
    });
    for (MessageOperation* one : operations) {
        if (moved) break;
        moved = withdraw(*one);
        open_.end(*one);
    }
    for (const int one : flow_.lined()) flow_.flush(one);
    return !moved;
}

bool MessageExchange::has_unsent() {
    bool is_open = false;
    open_.each([&](const MessageOperation& operation) {
        is_open |= operation.request.sends || operation.stage == MessageOperation::Stage::pulling;
    });
    return is_open || flow_.has_unsent();
}

}  // namespace detail
}  // namespace ddprun
