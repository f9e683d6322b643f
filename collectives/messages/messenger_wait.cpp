// The waiting of a messenger's callers and threads, and what ends operations before their time.
#include <fmt/core.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "collectives/error.hpp"
#include "collectives/messages/messenger.hpp"
#include "collectives/tcp/peer_mesh.hpp"
#include "rendezvous/system/quiet_thread.hpp"
#include "rendezvous/system/shared_memory.hpp"

namespace ddprun::inline detail {
namespace {

using Clock = Deadline::clock;

// Waking a sleeper takes 20 us and more on a virtual machine.
constexpr std::chrono::microseconds kMessageSpin{50};
constexpr int kLooksPerClock = 64;
constexpr int kMessageYields = 20;
// A sleep that nobody ends; it matters only where a peer is killed between its message and its ring of the bell.
constexpr std::chrono::milliseconds kLongestMessageSleep{500};

void relax() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield" ::: "memory");
#endif
}

}  // namespace

bool MessageWork::ended() {
    if (!has_ended()) messenger_->test();
    return has_ended();
}

bool MessageWork::wait_until(Deadline deadline) {
    if (!has_ended()) messenger_->await(*this, deadline);
    return has_ended();
}

void MessageWork::then(std::function<void()> done) {
    {
        const std::lock_guard lock(messenger_->mutex_);
        if (!has_ended()) return then_.push_back(std::move(done));
    }
    done();
}

Messenger::Messenger(const MessengerPlace& place, std::chrono::milliseconds operation_timeout)
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
    place.lifeline->on_news(
        [this] {
            news_.fetch_add(1, std::memory_order_seq_cst);
            ring_bell(*bell_);
            if (connected_.load(std::memory_order_seq_cst)) connections_wake_->signal();
        },
        Lifeline::NewsFor::messages);
}

Messenger::~Messenger() { close(Clock::now()); }

void Messenger::refuse_closed(const MessageRequest& request) const {
    throw CollectiveError(CollectiveErrorCode::invalid_argument,
                          describe(request) + ": this communicator has been finalized");
}

void Messenger::run(const MessageRequest& request, int* source) {
    const Inside inside(*this);
    if (inside.closed()) refuse_closed(request);
    check_request(request);
    MessageWork work(request);
    {
        Lock lock(mutex_);
        begin(work, lock);
    }
    if (!work.has_ended()) await(work, Deadline::max());
    if (work.error_) throw *work.error_;
    if (source != nullptr) *source = work.source_;
}

std::shared_ptr<MessageWork> Messenger::start(const MessageRequest& request) {
    const Inside inside(*this);
    if (inside.closed()) refuse_closed(request);
    check_request(request);
    auto work = make_in_process<MessageWork>(request, shared_from_this());
    Lock lock(mutex_);
    work->self_ = work;
    started_open_.fetch_add(1, std::memory_order_seq_cst);
    begin(*work, lock);
    if (work->has_ended()) return work;
    set_deadline(*work);
    try {
        need_helper();
    } catch (const std::system_error& error) {
        withdraw(*work);
        fail_with(*work, CollectiveErrorCode::system, fmt::format("no thread: {}", error.what()), {});
    }
    return work;
}

void Messenger::set_deadline(MessageWork& work) {
    work.deadline_ = Clock::now() + timeout_of(work);
    if (kick_ || work.deadline_ < next_deadline_) {
        if (connections_wake_) connections_wake_->signal();
    }
    if (work.deadline_ >= next_deadline_) return;
    next_deadline_ = work.deadline_;
    ring_bell(*bell_);
}

bool Messenger::is_ready() const {
    if (news_.load(std::memory_order_acquire) != news_seen_.load(std::memory_order_relaxed)) return true;
    if (memory_ &&
        bell_->taken.load(std::memory_order_acquire) != taken_seen_.load(std::memory_order_relaxed))
        return true;
    return std::any_of(local_lines_.begin(), local_lines_.end(),
                       [](const MessageLine* line) { return line->is_ready(); });
}

bool Messenger::spin(MessageWork& work) {
    const Deadline end = Clock::now() + kMessageSpin;
    do {
        for (int i = 0; i < kLooksPerClock; ++i) {
            if (work.has_ended()) return true;
            if (is_ready()) {
                Lock lock(mutex_);
                progress(lock);
            }
            relax();
        }
        if (connected_.load(std::memory_order_relaxed)) {
            Lock lock(mutex_);
            progress(lock);
        }
    } while (!has_passed(end));
    return work.has_ended();
}

void Messenger::await(MessageWork& work, Deadline deadline) {
    const Inside inside(*this);
    if (inside.closed()) return;
    waiters_.fetch_add(1, std::memory_order_seq_cst);
    const auto leave = [this] {
        if (waiters_.fetch_sub(1, std::memory_order_seq_cst) > 1 || started_open_.load() == 0) return;
        const Lock lock(mutex_);
        helper_wake_.notify_one();
    };
    if (place_.spins && spin(work)) return leave();
    for (int i = 0; i < kMessageYields && !work.has_ended(); ++i) {
        if (is_ready()) {
            Lock lock(mutex_);
            progress(lock);
        }
        ::sched_yield();
    }
    bool in_time = true;
    while (in_time && !work.has_ended()) {
        // Counted before it looks for the last time: whoever has something for it sees it from here on.
        bell_->sleepers.fetch_add(1, std::memory_order_seq_cst);
        const std::uint32_t count = bell_->count.load(std::memory_order_seq_cst);
        Deadline until = deadline;
        {
            Lock lock(mutex_);
            if (!work.has_ended() && work.deadline_ == Deadline::max()) set_deadline(work);
            progress(lock);
            expire();
            until = std::min(until, next_deadline_);
            if (kick_ && connections_wake_) connections_wake_->signal();
        }
        if (!work.has_ended()) doze(count, until);
        bell_->sleepers.fetch_sub(1, std::memory_order_seq_cst);
        in_time = !has_passed(deadline);
    }
    leave();
}

void Messenger::doze(std::uint32_t count, Deadline deadline) {
    const auto rest =
        std::clamp<Clock::duration>(deadline - Clock::now(), Clock::duration(1), kLongestMessageSleep);
    futex_wait_for(bell_->count, count, rest);
}

void Messenger::test() {
    const Inside inside(*this);
    if (inside.closed()) return;
    if (!is_ready() && !connected_.load(std::memory_order_relaxed)) return;
    Lock lock(mutex_, std::try_to_lock);
    if (lock) progress(lock);
}

void Messenger::need_helper() {
    if (!memory_ && connections_.joinable()) return;
    // Alone, and with nobody whom it could wait for, it keeps the deadlines all the same.
    if (!helper_.joinable()) helper_ = start_without_signals([this] { serve_started(); });
    helper_wake_.notify_one();
}

void Messenger::need_connections() {
    const Membership& membership = *place_.membership;
    for (int whom = 0; whom < world_size(); ++whom) {
        if (whom == rank() || peer(whom).line) continue;
        peer(whom).line = std::make_unique<TcpMessageLine>(membership, *place_.lifeline, whom);
        lined_.push_back(whom);
    }
    connections_wake_.emplace();
    connected_.store(true, std::memory_order_seq_cst);
    connections_ = start_without_signals([this] { serve_connections(); });
}

void Messenger::serve_started() {
    Lock lock(mutex_);
    while (!stopping_) {
        if (started_open_.load() == 0 || waiters_.load() > 0) {
            helper_wake_.wait(lock);
            continue;
        }
        bell_->sleepers.fetch_add(1, std::memory_order_seq_cst);
        const std::uint32_t count = bell_->count.load(std::memory_order_seq_cst);
        progress(lock);
        expire();
        const Deadline until = next_deadline_;
        if (started_open_.load() > 0 && !stopping_) {
            lock.unlock();
            doze(count, until);
            lock.lock();
        }
        bell_->sleepers.fetch_sub(1, std::memory_order_seq_cst);
    }
}

void Messenger::serve_connections() {
    std::vector<pollfd> polled;
    Lock lock(mutex_);
    while (!stopping_) {
        kick_ = false;
        progress(lock);
        expire();
        polled.assign(1, {connections_wake_->descriptor(), POLLIN, 0});
        for (const int one : lined_) {
            if (!verdict_) peer(one).line->add_descriptors(polled);
        }
        const Deadline until = std::min(next_deadline_, Clock::now() + kLongestMessageSleep);
        lock.unlock();
        ::poll(polled.data(), polled.size(), poll_timeout(until));
        connections_wake_->clear();
        lock.lock();
    }
}

void Messenger::look_at_news() {
    news_seen_.store(news_.load(std::memory_order_acquire), std::memory_order_relaxed);
    verdict_ = place_.lifeline->verdict();
    if (verdict_) return fail_all();
    for (int whom = 0; whom < world_size(); ++whom) {
        if (whom == rank() || !place_.lifeline->left_after(whom)) continue;
        peer(whom).left = true;
        any_left_ = true;
    }
}

bool Messenger::needs(const MessageWork& work, int left) const {
    if (work.stage_ == MessageWork::Stage::pulling) return false;
    const auto is_over = [this](int whom) {
        const Peer& other = peers_[static_cast<std::size_t>(whom)];
        return whom != rank() && other.left && (!other.line || other.line->is_exhausted());
    };
    if (work.peer() == left) return work.request_.sends || is_over(left);
    if (work.peer() != kAnyRank || work.source_ >= 0) return work.source_ == left && is_over(left);
    for (int whom = 0; whom < world_size(); ++whom) {
        if (whom != rank() && !is_over(whom)) return false;
    }
    return true;
}

void Messenger::look_for_left() {
    for (int whom = 0; whom < world_size(); ++whom) {
        if (!peer(whom).left) continue;
        MessageWork* next = nullptr;
        for (MessageWork* work = open_; work != nullptr; work = next) {
            next = work->next_;
            if (!needs(*work, whom)) continue;
            const auto sequence = place_.lifeline->left_after(whom).value_or(0);
            withdraw(*work);
            fail_with(*work, CollectiveErrorCode::peer_left,
                      fmt::format("rank {} {}", whom, predicate_of_leaving(sequence)), {whom});
        }
    }
}

void Messenger::lose(int whom) {
    Peer& other = peer(whom);
    if (other.lost) return;
    other.lost = Clock::now() + kVerdictTimeout;
    next_deadline_ = std::min(next_deadline_, *other.lost);
    any_lost_ = true;
}

void Messenger::look_for_lost() {
    for (int whom = 0; whom < world_size(); ++whom) {
        Peer& other = peer(whom);
        if (!other.lost || other.left || verdict_) continue;
        if (has_passed(*other.lost)) return declare(death_verdict(whom, kConnectionsClosed));
        next_deadline_ = std::min(next_deadline_, *other.lost);
    }
}

void Messenger::declare(const Verdict& verdict) {
    verdict_ = place_.lifeline->declare(verdict);
    fail_all();
}

void Messenger::withdraw(MessageWork& work) {
    if (!work.request_.sends) {
        if (matcher_.withdraw(work)) return;
        for (auto& [where, coming] : incoming_) {
            if (coming.work == &work) coming.work = nullptr;
        }
        return;
    }
    if (work.peer() == rank()) {
        matcher_.take_back(rank(), work.tag(), work.offer_, 0);
        own_offers_.erase(work.offer_);
        return;
    }
    Peer& to = peer(work.peer());
    if (work.offer_ == 0) {
        std::erase(to.outbox, &work);
        return;
    }
    const std::uint32_t id = work.offer_ - 1;
    Offer& offer = offers_[id];
    if (to.local) {
        // Whoever reads the sender's memory meanwhile finds that what it has read counts for nothing.
        memory_->offer(memory_->rank(), id)
            .store(offer_word(offer.turn, OfferState::retracted), std::memory_order_seq_cst);
    }
    std::erase(to.streams, id);
    offer.work = nullptr;
    if (!verdict_) to.controls.push_back({FrameKind::retract, id, offer.turn, work.tag(), 0, 0});
}

void Messenger::fail_all() {
    for (const Pull& pull : pulls_) pull.work->stage_ = MessageWork::Stage::open;
    pulls_.clear();
    MessageWork* next = nullptr;
    for (MessageWork* work = open_; work != nullptr; work = next) {
        next = work->next_;
        // The thread that copies ends it.
        if (work->stage_ == MessageWork::Stage::pulling) continue;
        withdraw(*work);
        fail_with(*work, verdict_->code, verdict_->text, verdict_->culprits);
    }
}

CollectiveError Messenger::timed_out(const MessageWork& work) const {
    const MessageRequest& request = work.request_;
    const std::string text =
        fmt::format("{}: Timed out after {} ms: {}", describe(request), timeout_of(work).count(),
                    request.sends       ? "no receive of it has come"
                    : work.source_ >= 0 ? "its bytes have not come"
                                        : "no such message has come");
    const std::vector<int> culprits = request.peer < 0 ? std::vector<int>{} : std::vector<int>{request.peer};
    return CollectiveError(CollectiveErrorCode::timed_out, text, culprits,
                           request.sends ? "send_tagged" : "recv_tagged");
}

void Messenger::expire() {
    const auto now = Clock::now();
    if (now < next_deadline_) return;
    next_deadline_ = Deadline::max();
    for (const Peer& other : peers_) {
        if (other.lost && !other.left && *other.lost > now)
            next_deadline_ = std::min(next_deadline_, *other.lost);
    }
    std::vector<int> touched;
    MessageWork* next = nullptr;
    for (MessageWork* work = open_; work != nullptr; work = next) {
        next = work->next_;
        if (work->deadline_ > now) {
            next_deadline_ = std::min(next_deadline_, work->deadline_);
            continue;
        }
        // Its bytes are being copied this moment.
        if (work->stage_ == MessageWork::Stage::pulling) continue;
        const CollectiveError error = timed_out(*work);
        const int whom = work->request_.sends && work->peer() != rank() ? work->peer() : -1;
        withdraw(*work);
        end(*work, error);
        if (whom >= 0) touched.push_back(whom);
    }
    for (const int whom : touched) flush(whom);
}

bool Messenger::has_unsent() {
    for (const MessageWork* work = open_; work != nullptr; work = work->next_) {
        if (work->request_.sends || work->stage_ == MessageWork::Stage::pulling) return true;
    }
    for (const int one : lined_) {
        Peer& to = peer(one);
        if (to.lost || to.left) continue;
        if (!to.controls.empty() || !to.streams.empty()) return true;
        try {
            if (!to.line->flush()) return true;
        } catch (const LinkLost&) {
            lose(one);
        }
    }
    return false;
}

void Messenger::close(Deadline deadline) {
    {
        Lock lock(mutex_);
        if (closed_.load()) return;
        closing_ = true;
        MessageWork* next = nullptr;
        for (MessageWork* work = open_; work != nullptr; work = next) {
            next = work->next_;
            if (work->request_.sends || work->stage_ == MessageWork::Stage::pulling) continue;
            withdraw(*work);
            fail_with(*work, CollectiveErrorCode::invalid_argument, "this communicator has been finalized",
                      {});
        }
    }
    while (true) {
        bell_->sleepers.fetch_add(1, std::memory_order_seq_cst);
        const std::uint32_t count = bell_->count.load(std::memory_order_seq_cst);
        bool done = false;
        {
            Lock lock(mutex_);
            progress(lock);
            expire();
            done = verdict_ || has_passed(deadline) || !has_unsent();
            if (connections_wake_) connections_wake_->signal();
        }
        // Connections have a thread of their own, which tells nobody that it has sent what there was.
        if (!done)
            doze(count,
                 connected_ ? std::min(deadline, Clock::now() + std::chrono::milliseconds(1)) : deadline);
        bell_->sleepers.fetch_sub(1, std::memory_order_seq_cst);
        if (done) break;
    }
    stop_threads();
}

void Messenger::stop_threads() {
    if (place_.lifeline != nullptr) place_.lifeline->on_news({}, Lifeline::NewsFor::messages);
    {
        const Lock lock(mutex_);
        if (!verdict_) verdict_ = {CollectiveErrorCode::aborted, {}, "this communicator has been finalized"};
        fail_all();
        stopping_ = true;
        closed_.store(true, std::memory_order_seq_cst);
        helper_wake_.notify_all();
        if (connections_wake_) connections_wake_->signal();
    }
    bell_->count.fetch_add(1, std::memory_order_seq_cst);
    futex_wake_all(bell_->count);
    if (helper_.joinable()) helper_.join();
    if (connections_.joinable()) connections_.join();
    // Those that are still in here find all operations ended.
    while (inside_.load(std::memory_order_seq_cst) > 0) ::sched_yield();
}

void Messenger::disconnect() {
    const Lock lock(mutex_);
    lined_.clear();
    local_lines_.clear();
    peers_.clear();
}

}  // namespace ddprun::inline detail
