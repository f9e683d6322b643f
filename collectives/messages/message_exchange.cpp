#include "collectives/messages/message_exchange.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "collectives/error.hpp"

namespace ddprun {
inline namespace detail {

MessageExchange::MessageExchange(const MessengerPlace& place, std::chrono::milliseconds operation_timeout,
                                 MessageSurroundings& surroundings, MessageSleepers& sleepers)
    : surroundings_(surroundings),
      sleepers_(sleepers),
      open_(sleepers, operation_timeout),
      flow_(place, surroundings, sleepers, open_) {}

void MessageExchange::begin(MessageOperation& operation) {
    // Before the operation is among those that a verdict ends.
    if (!sleepers_.is_closing() && has_news()) look_at_news();
    open_.add(operation);
    if (refuses_all_)
        return open_.fail_with(operation, CollectiveErrorCode::invalid_argument, kMessengerClosed, {});
    if (verdict_) return fail_by_verdict(operation);
    const int whom = operation.peer();
    try {
        if (flow_.needs_connections(whom)) {
            sleepers_.prepare_connections();
            flow_.connect();
            sleepers_.note_connected();
        }
        if (!operation.request.sends) {
            if (const auto message = matchers_[operation.is_by_tag()].post(operation))
                hand_over(operation, *message);
        } else if (whom == flow_.rank()) {
            send_to_self(operation);
        } else {
            flow_.send(operation);
        }
    } catch (const std::exception& error) {
        give_up(operation, error.what());
    }
}

void MessageExchange::give_up(MessageOperation& operation, const std::string& why) {
    withdraw(operation);
    open_.fail_with(operation, CollectiveErrorCode::system, why, {});
}

void MessageExchange::send_to_self(MessageOperation& send) {
    const MessageRequest& request = send.request;
    const auto* data = static_cast<const std::byte*>(request.in);
    ArrivedMessage message{flow_.rank(), request.tag, request.bytes};
    if (MessageOperation* receive = matchers_[true].match(flow_.rank(), request.tag)) {
        fill(*receive, message, data);
        return open_.end(send);
    }
    MessagePeer& self = flow_.peer(flow_.rank());
    if (self.sent_eagerly + request.bytes + kMessageCost - self.handed_on <= kKeptOfPeer) {
        self.sent_eagerly += request.bytes + kMessageCost;
        message.kept = std::make_unique<std::byte[]>(request.bytes);
        if (request.bytes > 0) std::memcpy(message.kept.get(), data, request.bytes);
        matchers_[true].keep(std::move(message));
        return open_.end(send);
    }
    message.offered = true;
    message.id = ++own_turns_;
    own_offers_[message.id] = &send;
    send.offer = message.id;
    matchers_[true].keep(std::move(message));
}

void MessageExchange::hand_over(MessageOperation& receive, const ArrivedMessage& message) {
    if (!message.offered) {
        flow_.peer(message.source).note_handed_on(message.bytes);
        return fill(receive, message, message.kept.get());
    }
    if (message.source != flow_.rank()) {
        --flow_.peer(message.source).offers_kept;
        return accept(receive, message);
    }
    const auto found = own_offers_.find(message.id);
    MessageOperation& send = *found->second;
    own_offers_.erase(found);
    fill(receive, message, static_cast<const std::byte*>(send.request.in));
    open_.end(send);
}

void MessageExchange::accept(MessageOperation& receive, const ArrivedMessage& message) {
    switch (flow_.accept(receive, message)) {
        case MessageFlow::Acceptance::comes: return;
        case MessageFlow::Acceptance::is_unfit: return fill(receive, message, nullptr);
        case MessageFlow::Acceptance::is_gone: return repost(receive);
    }
}

void MessageExchange::fill(MessageOperation& receive, const ArrivedMessage& message, const std::byte* data) {
    receive.source = message.source;
    if (fits(receive.request, message)) {
        if (message.bytes > 0) std::memcpy(receive.request.out, data, message.bytes);
        return open_.end(receive);
    }
    receive.sent_bytes = message.bytes;
    receive.sent_element = message.element;
    open_.fail_with(receive, CollectiveErrorCode::mismatch,
                    fmt::format("rank {} sent {} bytes with this tag", message.source, message.bytes),
                    {message.source});
}

void MessageExchange::repost(MessageOperation& receive) {
    receive.source = -1;
    if (verdict_) return fail_by_verdict(receive);
    if (const auto message = matchers_[receive.is_by_tag()].post(receive)) hand_over(receive, *message);
}

void MessageExchange::drain(int from) {
    MessageLine& line = *flow_.peer(from).line;
    MessageFrame frame;
    const std::byte* payload = nullptr;
    try {
        while (line.take(frame, payload)) {
            take(from, frame, payload);
            line.release();
        }
    } catch (const LinkLost& lost) {
        flow_.lose(from, lost);
    } catch (const std::bad_alloc&) {
        declare({CollectiveErrorCode::system,
                 {flow_.rank()},
                 fmt::format("rank {} is out of memory", flow_.rank())});
    }
}

void MessageExchange::take(int from, const MessageFrame& frame, const std::byte* payload) {
    if (frame.kind == FrameKind::eager || frame.kind == FrameKind::offer)
        return take_message(from, frame, payload);
    if (frame.kind == FrameKind::retract) {
        const auto gone = matchers_[frame.element == 0].take_back(from, frame.tag, frame.id, frame.turn);
        flow_.peer(from).offers_kept -= static_cast<std::uint32_t>(gone);
        if (gone > 0) return;
    }
    if (MessageOperation* receive = flow_.take(from, frame, payload)) repost(*receive);
}

void MessageExchange::take_message(int from, const MessageFrame& frame, const std::byte* payload) {
    MessagePeer& source = flow_.peer(from);
    const bool offered = frame.kind == FrameKind::offer;
    if (offered && frame.id >= kOfferIds) throw LinkLost{from, kLinkBroken};
    if (!offered) source.count_eager(frame.bytes);
    ArrivedMessage message{from,     frame.tag,  frame.bytes, offered,
                           frame.id, frame.turn, frame.place, frame.element};
    MessageMatcher<MessageOperation>& receives = matchers_[frame.element == 0];
    MessageOperation* receive = receives.match(from, frame.tag);
    if (receive != nullptr && offered) return accept(*receive, message);
    if (receive != nullptr) {
        source.note_handed_on(frame.bytes);
        return fill(*receive, message, payload);
    }
    if (offered) source.count_offer();
    if (!offered) message.kept = std::make_unique<std::byte[]>(frame.bytes);
    if (!offered && frame.bytes > 0) std::memcpy(message.kept.get(), payload, frame.bytes);
    receives.keep(std::move(message));
}

void MessageExchange::progress(Lock& lock) {
    if (sleepers_.is_closing()) return;
    if (has_news()) look_at_news();
    if (verdict_) return;
    for (const int one : flow_.lined()) {
        if (flow_.peer(one).line->is_ready()) drain(one);
    }
    flow_.look_at_offers();
    flow_.flush_all();
    if (any_left_) look_for_left();
    if (flow_.has_lost()) look_for_lost();
    while (flow_.has_pulls()) {
        if (MessageOperation* receive = flow_.pull(lock)) repost(*receive);
    }
}

}  // namespace detail
}  // namespace ddprun
