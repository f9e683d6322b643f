#include "collectives/messages/message_flow.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "collectives/messages/shm_message_line.hpp"
#include "collectives/tcp/peer_mesh.hpp"

namespace ddprun {
inline namespace detail {

MessageFlow::MessageFlow(const MessengerPlace& place, MessageSurroundings& surroundings,
                         MessageSleepers& sleepers, OpenMessages& open)
    : surroundings_(surroundings), sleepers_(sleepers), open_(open) {
    if (place.membership == nullptr) {
        peers_.resize(1);
        return;
    }
    const Membership& membership = *place.membership;
    rank_ = membership.rank;
    peers_.resize(membership.members.size());
    places_.assign(peers_.size(), -1);
    if (place.memory == nullptr) return;
    const RankGroup ranks = ranks_of_host(membership);
    memory_.emplace(place.memory, ranks.size(), ranks.index);
    single_copy_ = membership.sees_processes();
    sleepers_.bell().pid.store(static_cast<std::int32_t>(::getpid()), std::memory_order_release);
    for (int i = 0; i < ranks.size(); ++i) {
        const int whom = ranks.at(i);
        places_[static_cast<std::size_t>(whom)] = i;
        if (i == ranks.index) continue;
        peer(whom).line = std::make_unique<ShmMessageLine>(*memory_, i);
        peer(whom).local = true;
        local_lines_.push_back(peer(whom).line.get());
        lined_.push_back(whom);
    }
}

bool MessageFlow::is_ready() const {
    if (memory_ &&
        sleepers_.bell().taken.load(std::memory_order_seq_cst) != taken_seen_.load(std::memory_order_relaxed))
        return true;
    return std::any_of(local_lines_.begin(), local_lines_.end(),
                       [](const MessageLine* line) { return line->is_ready(); });
}

bool MessageFlow::needs_connections(int whom) const {
    if (whom == kAnyRank) return lined_.size() + 1 < peers_.size();
    return whom != rank_ && !peer(whom).line;
}

void MessageFlow::connect() {
    for (int whom = 0; whom < world_size(); ++whom) {
        if (whom == rank_ || peer(whom).line) continue;
        peer(whom).line = surroundings_.connect(whom);
        lined_.push_back(whom);
    }
}

void MessageFlow::disconnect() {
    lined_.clear();
    local_lines_.clear();
    peers_.clear();
}

void MessageFlow::send(MessageOperation& send) {
    peer(send.peer()).outboxes[send.is_by_tag()].push_back(&send);
    flush(send.peer());
}

std::optional<std::uint32_t> MessageFlow::free_offer(const MessageRequest& request) {
    const std::uint32_t limit = kMessageOffers + (request.element == 0 ? 0 : kOffersInTurn);
    if (offers_.size() - free_offers_.size() >= limit) return std::nullopt;
    if (free_offers_.empty()) {
        free_offers_.push_back(static_cast<std::uint32_t>(offers_.size()));
        offers_.emplace_back();
    }
    return free_offers_.back();
}

bool MessageFlow::put_message(int to, MessageOperation& send) {
    MessagePeer& target = peer(to);
    const MessageRequest& request = send.request;
    if (target.takes_eagerly(request.bytes)) {
        if (!target.put_eagerly(request)) return false;
        open_.end(send);
        return true;
    }
    const auto id = free_offer(request);
    if (!id) return false;
    const std::uint32_t turn = ++turns_;
    if (target.local) memory_->offer(memory_->rank(), *id).store(offer_word(turn, OfferState::offered));
    const auto place = reinterpret_cast<std::uint64_t>(request.in);
    if (!target.line->put({FrameKind::offer, *id, turn, request.tag, request.bytes, place, request.element},
                          nullptr))
        return false;
    free_offers_.pop_back();
    offers_[*id] = {&send, to, turn, 0};
    send.offer = *id + 1;
    return true;
}

bool MessageFlow::put_pieces(int to) {
    MessagePeer& target = peer(to);
    bool put = false;
    // One piece of each in turn.
    for (std::size_t rest = target.streams.size(); rest > 0; --rest) {
        const std::uint32_t id = target.streams.front();
        Offer& offer = offers_[id];
        const MessageRequest& request = offer.send->request;
        const std::size_t bytes = std::min(request.bytes - offer.sent, target.line->piece_limit());
        const auto* data = static_cast<const std::byte*>(request.in) + offer.sent;
        if (!target.line->put({FrameKind::piece, id, offer.turn, 0, bytes, 0}, data)) return put;
        put = true;
        offer.sent += bytes;
        target.streams.pop_front();
        if (offer.sent < request.bytes) {
            target.streams.push_back(id);
        } else {
            end_offer(id);
        }
    }
    return put;
}

void MessageFlow::flush(int to) {
    MessagePeer& target = peer(to);
    if (!target.line || target.lost || target.left) return;
    try {
        while (!target.controls.empty()) {
            const MessageFrame& frame = target.controls.front();
            if (!target.line->put(frame, nullptr)) break;
            // Its id may be used again: the receiver has let go of it when it comes to the next frame.
            if (frame.kind == FrameKind::retract) release_offer(frame.id);
            target.controls.pop_front();
        }
        bool more = target.controls.empty();
        while (more) {
            more = false;
            for (auto& outbox : target.outboxes) {
                while (!outbox.empty() && put_message(to, *outbox.front())) outbox.pop_front();
            }
            if (!target.streams.empty()) more = put_pieces(to);
        }
        if (!target.line->flush()) sleepers_.note_unsent();
    } catch (const LinkLost& lost) {
        lose(to, lost);
    }
}

void MessageFlow::flush_all() {
    const bool had_unsent = sleepers_.take_unsent();
    for (const int one : lined_) {
        const MessagePeer& to = peer(one);
        if (!to.local || to.has_something_for_it()) flush(one);
    }
    if (had_unsent && !sleepers_.has_unsent()) sleepers_.wake(WakeCause::sent_all);
}

bool MessageFlow::has_unsent() {
    for (const int one : lined_) {
        MessagePeer& to = peer(one);
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

void MessageFlow::lose(int whom, const LinkLost& how) {
    MessagePeer& other = peer(whom);
    if (other.lost) return;
    const bool is_broken = how.error_number == kLinkBroken || how.error_number == kLinkOverrun;
    if (is_broken) other.broken = how.error_number;
    // Why a connection broke may be known in a moment; what came over it is known now.
    other.lost = Deadline::clock::now() + (is_broken ? std::chrono::milliseconds(0) : kVerdictTimeout);
    open_.look_by(*other.lost);
    any_lost_ = true;
}

MessageOperation* MessageFlow::take(int from, const MessageFrame& frame, const std::byte* payload) {
    switch (frame.kind) {
        case FrameKind::piece: take_piece(from, frame, payload); return nullptr;
        case FrameKind::retract: return take_retract(from, frame);
        case FrameKind::accept:
        case FrameKind::drop: take_answer(from, frame); return nullptr;
        case FrameKind::none:
        case FrameKind::eager:
        case FrameKind::offer:
        case FrameKind::credit: break;
    }
    throw LinkLost{from, kLinkBroken};
}

void MessageFlow::take_piece(int from, const MessageFrame& frame, const std::byte* payload) {
    const auto found = incoming_.find({from, frame.id});
    if (found == incoming_.end()) return;
    Incoming& coming = found->second;
    if (frame.bytes > coming.bytes - coming.came) throw LinkLost{from, kLinkBroken};
    if (coming.receive != nullptr && frame.bytes > 0)
        std::memcpy(static_cast<std::byte*>(coming.receive->request.out) + coming.came, payload, frame.bytes);
    coming.came += frame.bytes;
    if (coming.came < coming.bytes) return;
    MessageOperation* receive = coming.receive;
    incoming_.erase(found);
    if (receive != nullptr) open_.end(*receive);
}

MessageOperation* MessageFlow::take_retract(int from, const MessageFrame& frame) {
    const auto found = incoming_.find({from, frame.id});
    if (found == incoming_.end()) return nullptr;
    MessageOperation* receive = found->second.receive;
    incoming_.erase(found);
    return receive;
}

void MessageFlow::take_answer(int from, const MessageFrame& frame) {
    if (frame.id >= offers_.size()) return;
    Offer& offer = offers_[frame.id];
    if (offer.peer != from || offer.turn != frame.turn || offer.send == nullptr) return;
    if (frame.kind == FrameKind::drop) return end_offer(frame.id);
    if (std::exchange(offer.accepted, true)) throw LinkLost{from, kLinkBroken};
    peer(from).streams.push_back(frame.id);
    flush(from);
}

MessageFlow::Acceptance MessageFlow::accept(MessageOperation& receive, const ArrivedMessage& message) {
    MessagePeer& from = peer(message.source);
    receive.source = message.source;
    if (from.local) {
        std::uint64_t expected = offer_word(message.turn, OfferState::offered);
        // Its sender has given it up, and says so in a moment.
        if (!word_of(message).compare_exchange_strong(expected,
                                                      offer_word(message.turn, OfferState::claimed)))
            return Acceptance::is_gone;
    }
    if (!fits(receive.request, message)) {
        from.controls.push_back({FrameKind::drop, message.id, message.turn, message.tag, 0, 0});
        flush(message.source);
        return Acceptance::is_unfit;
    }
    if (!(from.local && single_copy_)) {
        ask_for_pieces(receive, message);
        return Acceptance::comes;
    }
    receive.stage = MessageOperation::Stage::pulling;
    pulls_.push_back({&receive,
                      {message.source, message.tag, message.bytes, true, message.id, message.turn,
                       message.place, message.element}});
    return Acceptance::comes;
}

void MessageFlow::ask_for_pieces(MessageOperation& receive, const ArrivedMessage& message) {
    incoming_[{message.source, message.id}] = {&receive, message.bytes, 0};
    peer(message.source).controls.push_back({FrameKind::accept, message.id, message.turn, message.tag, 0, 0});
    flush(message.source);
}

MessageOperation* MessageFlow::pull(Lock& lock) {
    const Pull pull = std::move(pulls_.front());
    pulls_.pop_front();
    MessageOperation& receive = *pull.receive;
    const ArrivedMessage& message = pull.message;
    std::atomic<std::uint64_t>& word = word_of(message);
    MessageBell& bell = bell_of(message.source);
    const std::int32_t pid = bell.pid.load(std::memory_order_acquire);
    lock.unlock();
    const Copied copied = surroundings_.copy_from(pid, message.place, receive.request.out, message.bytes);
    std::uint64_t claimed = offer_word(message.turn, OfferState::claimed);
    const bool whole = copied == Copied::all &&
                       word.compare_exchange_strong(claimed, offer_word(message.turn, OfferState::taken));
    if (whole) {
        bell.taken.fetch_add(1, std::memory_order_seq_cst);
        ring_bell(bell);
    }
    lock.lock();
    if (whole) {
        open_.end(receive);
        return nullptr;
    }
    // It may have passed while the bytes were copied.
    open_.look_by(receive.deadline);
    receive.stage = MessageOperation::Stage::open;
    if (copied == Copied::refused) single_copy_ = false;
    if (copied == Copied::all || has_ended_ || word.load() != offer_word(message.turn, OfferState::claimed))
        return &receive;
    ask_for_pieces(receive, message);
    return nullptr;
}

void MessageFlow::look_at_offers() {
    if (!memory_) return;
    const std::uint32_t taken = sleepers_.bell().taken.load(std::memory_order_seq_cst);
    if (taken == taken_seen_.load(std::memory_order_relaxed)) return;
    taken_seen_.store(taken, std::memory_order_relaxed);
    for (std::uint32_t id = 0; id < offers_.size(); ++id) {
        const Offer& offer = offers_[id];
        if (offer.send == nullptr || !peer(offer.peer).local) continue;
        if (memory_->offer(memory_->rank(), id).load(std::memory_order_acquire) ==
            offer_word(offer.turn, OfferState::taken))
            end_offer(id);
    }
}

void MessageFlow::end_offer(std::uint32_t id) {
    MessageOperation* send = offers_[id].send;
    // Its receiver may end it in any way after it has asked for its bytes.
    if (offers_[id].accepted) std::erase(peer(offers_[id].peer).streams, id);
    release_offer(id);
    open_.end(*send);
}

void MessageFlow::release_offer(std::uint32_t id) {
    offers_[id].send = nullptr;
    offers_[id].peer = -1;
    free_offers_.push_back(id);
}

bool MessageFlow::withdraw_send(MessageOperation& send) {
    MessagePeer& to = peer(send.peer());
    if (send.offer == 0) {
        // Those made last are withdrawn first.
        auto& outbox = to.outboxes[send.is_by_tag()];
        const auto last = std::find(outbox.rbegin(), outbox.rend(), &send);
        if (last != outbox.rend()) outbox.erase(std::prev(last.base()));
        return false;
    }
    const std::uint32_t id = send.offer - 1;
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
    offer.send = nullptr;
    if (!has_ended_)
        to.controls.push_back({FrameKind::retract, id, offer.turn, send.tag(), 0, 0, send.request.element});
    return taken;
}

void MessageFlow::withdraw_receive(const MessageOperation& receive) {
    for (auto& [where, coming] : incoming_) {
        if (coming.receive == &receive) coming.receive = nullptr;
    }
}

void MessageFlow::end() {
    has_ended_ = true;
    for (const Pull& pull : pulls_) pull.receive->stage = MessageOperation::Stage::open;
    pulls_.clear();
}

}  // namespace detail
}  // namespace ddprun
