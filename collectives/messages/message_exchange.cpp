#include "collectives/messages/message_exchange.hpp"

#include <fmt/core.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "collectives/error.hpp"
#include "rendezvous/system/check.hpp"

namespace ddprun::inline detail {
namespace {

// A large copy looks up from time to time.
constexpr std::size_t kPullPiece = std::size_t{16} << 20;

bool fits(const MessageRequest& receive, const ArrivedMessage& message) {
    return message.bytes == receive.bytes && message.element == receive.element;
}

enum class Copied { all, refused, unreadable };

// Copies from the memory of a process of this host. What cannot be read may be memory that only the process itself can
// read.
Copied copy_from(std::int32_t pid, std::uint64_t place, void* out, std::size_t bytes) {
    auto* to = static_cast<std::byte*>(out);
    while (bytes > 0) {
        const std::size_t piece = std::min(bytes, kPullPiece);
        const iovec here{to, piece};
        const iovec there{reinterpret_cast<void*>(place), piece};
        const ssize_t count = ::process_vm_readv(pid, &here, 1, &there, 1, 0);
        if (count <= 0)
            return errno == EPERM || errno == ENOSYS || errno == EACCES ? Copied::refused
                                                                        : Copied::unreadable;
        to += count;
        place += static_cast<std::uint64_t>(count);
        bytes -= static_cast<std::size_t>(count);
    }
    return Copied::all;
}

}  // namespace

MessageExchange::MessageExchange(const MessengerPlace& place, std::chrono::milliseconds operation_timeout)
    : place_(place), operation_timeout_(operation_timeout) {
    if (place.membership == nullptr) {
        peers_.resize(1);
        return;
    }
    const Membership& membership = *place.membership;
    peers_.resize(membership.members.size());
    places_.assign(peers_.size(), -1);
    if (place.memory != nullptr) {
        const RankGroup ranks = ranks_of_host(membership);
        memory_.emplace(place.memory, ranks.size(), ranks.index);
        bell_ = &memory_->bell(ranks.index);
        single_copy_ = membership.sees_processes();
        bell_->pid.store(static_cast<std::int32_t>(::getpid()), std::memory_order_release);
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
}

void MessageExchange::end(MessageOperation& work, std::optional<CollectiveError> error) {
    check(!work.has_ended(), "a message ends once");
    work.error = std::move(error);
    (work.previous != nullptr ? work.previous->next : open_) = work.next;
    if (work.next != nullptr) work.next->previous = work.previous;
    const std::shared_ptr<void> self = std::move(work.self);
    if (self) started_open_.fetch_sub(1, std::memory_order_seq_cst);
    for (auto& done : work.then) run_beside(std::move(done));
    // Its owner may take it away from here on.
    work.ended.store(true, std::memory_order_release);
    wake();
}

void MessageExchange::wake(bool also_helper) {
    const std::uint32_t sleepers = bell_->sleepers;  // before armed_, which others may clear
    if (also_helper || sleepers > (armed_ ? 1U : 0U)) ring_bell(*bell_);
    if (!memory_ && std::exchange(polling_, false)) connections_wake_->signal();
}

void MessageExchange::fail_with(MessageOperation& work, CollectiveErrorCode code, const std::string& what,
                                std::vector<int> culprits) {
    end(work, CollectiveError(code, describe(work.request) + ": " + what, std::move(culprits),
                              name_of(work.request)));
}

void MessageExchange::begin(MessageOperation& work) {
    const bool closed = closed_.load(std::memory_order_relaxed);
    // Before the operation is among those that a verdict ends.
    if (!closed && news_.load(std::memory_order_seq_cst) != news_seen_.load(std::memory_order_relaxed))
        look_at_news();
    work.sequence = ++numbers_;
    work.next = open_;
    if (open_ != nullptr) open_->previous = &work;
    open_ = &work;
    if (closed || closing_)
        return fail_with(work, CollectiveErrorCode::invalid_argument, "this communicator has been finalized",
                         {});
    if (verdict_) return fail_with(work, verdict_->code, verdict_->text, verdict_->culprits);
    const int whom = work.peer();
    try {
        if (whom == kAnyRank ? lined_.size() + 1 < peers_.size() : whom != rank() && !peer(whom).line)
            need_connections();
        if (!work.request.sends) {
            if (auto message = matchers_[work.is_by_tag()].post(work)) hand_over(work, std::move(*message));
        } else if (whom == rank()) {
            send_to_self(work);
        } else {
            peer(whom).outboxes[work.is_by_tag()].push_back(&work);
            flush(whom);
        }
    } catch (const std::exception& error) {
        withdraw(work);
        fail_with(work, CollectiveErrorCode::system, error.what(), {});
    }
}

void MessageExchange::send_to_self(MessageOperation& work) {
    const MessageRequest& request = work.request;
    const auto* data = static_cast<const std::byte*>(request.in);
    ArrivedMessage message{rank(), request.tag, request.bytes};
    if (MessageOperation* receive = matchers_[true].match(rank(), request.tag)) {
        fill(*receive, message, data);
        return end(work);
    }
    Peer& self = peer(rank());
    if (self.sent_eagerly + request.bytes + kMessageCost - self.handed_on <= kKeptOfPeer) {
        self.sent_eagerly += request.bytes + kMessageCost;
        message.kept = std::make_unique<std::byte[]>(request.bytes);
        if (request.bytes > 0) std::memcpy(message.kept.get(), data, request.bytes);
        matchers_[true].keep(std::move(message));
        return end(work);
    }
    message.offered = true;
    message.id = ++turns_;
    own_offers_[message.id] = &work;
    work.offer = message.id;
    matchers_[true].keep(std::move(message));
}

void MessageExchange::note_handed_on(int from, std::uint64_t bytes) {
    Peer& source = peer(from);
    source.handed_on += bytes + kMessageCost;
    if (source.line) source.line->set_handed_on(source.handed_on);
}

void MessageExchange::hand_over(MessageOperation& receive, ArrivedMessage message) {
    if (!message.offered) {
        note_handed_on(message.source, message.bytes);
        return fill(receive, message, message.kept.get());
    }
    if (message.source != rank()) {
        --peer(message.source).offers_kept;
        return accept(receive, message);
    }
    const auto found = own_offers_.find(message.id);
    MessageOperation& send = *found->second;
    own_offers_.erase(found);
    fill(receive, message, static_cast<const std::byte*>(send.request.in));
    end(send);
}

void MessageExchange::fill(MessageOperation& receive, const ArrivedMessage& message, const std::byte* data) {
    const int source = message.source;
    receive.source = source;
    if (fits(receive.request, message)) {
        if (message.bytes > 0) std::memcpy(receive.request.out, data, message.bytes);
        return end(receive);
    }
    receive.sent_bytes = message.bytes;
    receive.sent_element = message.element;
    fail_with(receive, CollectiveErrorCode::mismatch,
              fmt::format("rank {} sent {} bytes with this tag", source, message.bytes), {source});
}

void MessageExchange::accept(MessageOperation& receive, const ArrivedMessage& message) {
    Peer& from = peer(message.source);
    receive.source = message.source;
    const auto& word = [&]() -> std::atomic<std::uint64_t>& {
        return memory_->offer(memory_place(message.source), message.id);
    };
    if (from.local) {
        std::uint64_t expected = offer_word(message.turn, OfferState::offered);
        // Its sender has given it up, and says so in a moment.
        if (!word().compare_exchange_strong(expected, offer_word(message.turn, OfferState::claimed)))
            return repost(receive);
    }
    if (!fits(receive.request, message)) {
        from.controls.push_back({FrameKind::drop, message.id, message.turn, message.tag, 0, 0});
        flush(message.source);
        return fill(receive, message, nullptr);
    }
    if (!(from.local && single_copy_)) return ask_for_pieces(receive, message);
    receive.stage = MessageOperation::Stage::pulling;
    pulls_.push_back({&receive,
                      {message.source, message.tag, message.bytes, true, message.id, message.turn,
                       message.place, message.element}});
}

void MessageExchange::ask_for_pieces(MessageOperation& receive, const ArrivedMessage& message) {
    incoming_[{message.source, message.id}] = {&receive, message.tag, message.bytes, 0};
    peer(message.source).controls.push_back({FrameKind::accept, message.id, message.turn, message.tag, 0, 0});
    flush(message.source);
}

void MessageExchange::repost(MessageOperation& receive) {
    receive.stage = MessageOperation::Stage::open;
    receive.source = -1;
    if (verdict_) return fail_with(receive, verdict_->code, verdict_->text, verdict_->culprits);
    if (auto message = matchers_[receive.is_by_tag()].post(receive)) hand_over(receive, std::move(*message));
}

void MessageExchange::pull(Lock& lock) {
    while (!pulls_.empty()) {
        const Pull pull = std::move(pulls_.front());
        pulls_.pop_front();
        const ArrivedMessage& message = pull.message;
        const int place = memory_place(message.source);
        std::atomic<std::uint64_t>& word = memory_->offer(place, message.id);
        MessageBell& bell = memory_->bell(place);
        const std::int32_t pid = bell.pid.load(std::memory_order_acquire);
        lock.unlock();
        const Copied copied = copy_from(pid, message.place, pull.work->request.out, message.bytes);
        std::uint64_t claimed = offer_word(message.turn, OfferState::claimed);
        const bool whole = copied == Copied::all &&
                           word.compare_exchange_strong(claimed, offer_word(message.turn, OfferState::taken));
        if (whole) {
            bell.taken.fetch_add(1, std::memory_order_seq_cst);
            ring_bell(bell);
        }
        lock.lock();
        if (whole) {
            end(*pull.work);
            continue;
        }
        // It may have passed while the bytes were copied.
        next_deadline_ = std::min(next_deadline_, pull.work->deadline);
        if (copied == Copied::refused) single_copy_ = false;
        if (copied == Copied::all || verdict_ ||
            word.load() != offer_word(message.turn, OfferState::claimed)) {
            repost(*pull.work);
        } else {
            pull.work->stage = MessageOperation::Stage::open;
            ask_for_pieces(*pull.work, message);
        }
    }
}

void MessageExchange::take(int from, const MessageFrame& frame, const std::byte* payload) {
    switch (frame.kind) {
        case FrameKind::eager:
        case FrameKind::offer: {
            const bool offered = frame.kind == FrameKind::offer;
            if (offered && frame.id >= kOfferIds) break;
            if (!offered) peer(from).count_eager(frame.bytes);
            ArrivedMessage message{from,     frame.tag,  frame.bytes, offered,
                                   frame.id, frame.turn, frame.place, frame.element};
            MessageMatcher<MessageOperation>& receives = matchers_[frame.element == 0];
            MessageOperation* receive = receives.match(from, frame.tag);
            if (receive != nullptr && offered) return accept(*receive, message);
            if (receive != nullptr) {
                note_handed_on(from, frame.bytes);
                return fill(*receive, message, payload);
            }
            if (offered) peer(from).count_offer();
            if (!offered) message.kept = std::make_unique<std::byte[]>(frame.bytes);
            if (!offered && frame.bytes > 0) std::memcpy(message.kept.get(), payload, frame.bytes);
            return receives.keep(std::move(message));
        }
        case FrameKind::piece: return take_piece(from, frame, payload);
        case FrameKind::retract: {
            if (const auto gone =
                    matchers_[frame.element == 0].take_back(from, frame.tag, frame.id, frame.turn);
                gone > 0) {
                peer(from).offers_kept -= static_cast<std::uint32_t>(gone);
                return;
            }
            const auto found = incoming_.find({from, frame.id});
            if (found == incoming_.end()) return;
            MessageOperation* receive = found->second.work;
            incoming_.erase(found);
            if (receive != nullptr) repost(*receive);
            return;
        }
        case FrameKind::accept:
        case FrameKind::drop:
            if (frame.id >= offers_.size() || offers_[frame.id].peer != from ||
                offers_[frame.id].turn != frame.turn || offers_[frame.id].work == nullptr)
                return;
            if (frame.kind == FrameKind::drop) return end_offer(frame.id);
            if (std::exchange(offers_[frame.id].accepted, true)) break;
            peer(from).streams.push_back(frame.id);
            return flush(from);
        case FrameKind::none:
        case FrameKind::credit: break;
    }
    throw LinkLost{from, kLinkBroken};
}

void MessageExchange::take_piece(int from, const MessageFrame& frame, const std::byte* payload) {
    const auto found = incoming_.find({from, frame.id});
    if (found == incoming_.end()) return;
    Incoming& coming = found->second;
    if (frame.bytes > coming.bytes - coming.came) throw LinkLost{from, kLinkBroken};
    if (coming.work != nullptr && frame.bytes > 0)
        std::memcpy(static_cast<std::byte*>(coming.work->request.out) + coming.came, payload, frame.bytes);
    coming.came += frame.bytes;
    if (coming.came < coming.bytes) return;
    MessageOperation* receive = coming.work;
    incoming_.erase(found);
    if (receive != nullptr) end(*receive);
}

bool MessageExchange::put_message(int to, MessageOperation& work) {
    Peer& target = peer(to);
    const MessageRequest& request = work.request;
    if (target.takes_eagerly(request.bytes)) {
        if (!target.put_eagerly(request)) return false;
        end(work);
        return true;
    }
    const std::uint32_t limit = kMessageOffers + (request.element == 0 ? 0 : kOffersInTurn);
    if (offers_.size() - free_offers_.size() >= limit) return false;
    if (free_offers_.empty()) {
        free_offers_.push_back(static_cast<std::uint32_t>(offers_.size()));
        offers_.emplace_back();
    }
    const std::uint32_t id = free_offers_.back();
    const std::uint32_t turn = ++turns_;
    if (target.local) memory_->offer(memory_->rank(), id).store(offer_word(turn, OfferState::offered));
    const auto place = reinterpret_cast<std::uint64_t>(request.in);
    if (!target.line->put({FrameKind::offer, id, turn, request.tag, request.bytes, place, request.element},
                          nullptr))
        return false;
    free_offers_.pop_back();
    offers_[id] = {&work, to, turn, 0};
    work.offer = id + 1;
    return true;
}

bool MessageExchange::put_pieces(int to) {
    Peer& target = peer(to);
    bool put = false;
    // One piece of each in turn.
    for (std::size_t rest = target.streams.size(); rest > 0; --rest) {
        const std::uint32_t id = target.streams.front();
        Offer& offer = offers_[id];
        const MessageRequest& request = offer.work->request;
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

void MessageExchange::end_offer(std::uint32_t id) {
    MessageOperation* work = offers_[id].work;
    // Its receiver may end it in any way after it has asked for its bytes.
    if (offers_[id].accepted) std::erase(peer(offers_[id].peer).streams, id);
    release_offer(id);
    end(*work);
}

void MessageExchange::release_offer(std::uint32_t id) {
    offers_[id].work = nullptr;
    offers_[id].peer = -1;
    free_offers_.push_back(id);
}

void MessageExchange::look_at_offers() {
    const std::uint32_t taken = bell_->taken.load(std::memory_order_seq_cst);
    if (taken == taken_seen_.load(std::memory_order_relaxed)) return;
    taken_seen_.store(taken, std::memory_order_relaxed);
    for (std::uint32_t id = 0; id < offers_.size(); ++id) {
        const Offer& offer = offers_[id];
        if (offer.work == nullptr || !peer(offer.peer).local) continue;
        if (memory_->offer(memory_->rank(), id).load(std::memory_order_acquire) ==
            offer_word(offer.turn, OfferState::taken))
            end_offer(id);
    }
}

void MessageExchange::flush(int to) {
    Peer& target = peer(to);
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
        if (target.line->flush()) return;
        if (std::exchange(polling_, false)) connections_wake_->signal();
        if (!unsent_.exchange(true)) threads_wake_.notify_all();
    } catch (const LinkLost& lost) {
        lose(to, lost);
    }
}

void MessageExchange::drain(int from) {
    Peer& source = peer(from);
    MessageFrame frame;
    const std::byte* payload = nullptr;
    try {
        while (source.line->take(frame, payload)) {
            take(from, frame, payload);
            source.line->release();
        }
    } catch (const LinkLost& lost) {
        lose(from, lost);
    } catch (const std::bad_alloc&) {
        declare({CollectiveErrorCode::system, {rank()}, fmt::format("rank {} is out of memory", rank())});
    }
}

void MessageExchange::progress(Lock& lock) {
    if (closed_.load(std::memory_order_relaxed)) return;
    if (news_.load(std::memory_order_seq_cst) != news_seen_.load(std::memory_order_relaxed)) look_at_news();
    if (verdict_) return;
    for (const int one : lined_) {
        if (peer(one).line->is_ready()) drain(one);
    }
    if (memory_) look_at_offers();
    const bool had_unsent = unsent_ && unsent_.exchange(false);
    for (const int one : lined_) {
        const Peer& to = peer(one);
        if (!to.local || !to.controls.empty() || !to.outboxes[0].empty() || !to.outboxes[1].empty() ||
            !to.streams.empty())
            flush(one);
    }
    if (had_unsent && !unsent_) wake();
    if (any_left_) look_for_left();
    if (any_lost_) look_for_lost();
    if (!pulls_.empty()) pull(lock);
}

}  // namespace ddprun::inline detail
