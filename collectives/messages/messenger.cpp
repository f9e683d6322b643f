#include "collectives/messages/messenger.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <system_error>

#include "collectives/error.hpp"
#include "rendezvous/system/quiet_thread.hpp"
#include "rendezvous/system/shared_memory.hpp"

namespace ddprun::inline detail {
namespace {

using Clock = Deadline::clock;

// Waking a sleeper takes 20 us and more on a virtual machine.
constexpr std::chrono::microseconds kMessageSpin{50};
constexpr std::size_t kCopiedPerNanosecond = 4;  // by a receiver that has a CPU of its own
constexpr std::chrono::milliseconds kLongestCopy{5};
constexpr int kLooksPerClock = 64;
// In about a microsecond, before a receive is known to others.
constexpr int kFirstLooks = 256;

}  // namespace

Messenger::Messenger(const MessengerPlace& place, std::chrono::milliseconds operation_timeout)
    : MessageExchange(place, operation_timeout) {
    if (place.lifeline == nullptr) return;
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
    check_request(request, world_size());
    if (passes_soon(request)) {
        if (source != nullptr) *source = request.peer;
        return;
    }
    MessageOperation work(request);
    {
        Lock lock(mutex_);
        begin(work);
        if (any_left_ || any_lost_ || !pulls_.empty()) progress(lock);
    }
    if (!work.has_ended()) await(work, Deadline::max());
    if (work.error) throw *work.error;
    if (source != nullptr) *source = work.source;
}

bool Messenger::passes_soon(const MessageRequest& request) {
    if (request.peer == kAnyRank || !peer(request.peer).local) return false;
    Peer& other = peer(request.peer);
    for (int looks = place_.spins ? kFirstLooks : 1; !request.sends && !other.line->is_ready();) {
        if (--looks == 0) return false;
    }
    const Lock lock(mutex_);
    if (closing_ || verdict_ || any_left_ || any_lost_ || news_.load() != news_seen_.load()) return false;
    MessageFrame frame;
    const std::byte* payload = nullptr;
    try {
        if (request.sends)
            return other.controls.empty() && other.outboxes[true].empty() &&
                   other.takes_eagerly(request.bytes) && other.put_eagerly(request);
        if (open_ != nullptr || matchers_[true].kept() > 0) return false;
        if (!other.line->take(frame, payload) || frame.kind != FrameKind::eager || frame.element != 0 ||
            frame.tag != request.tag || frame.bytes != request.bytes)
            return false;
        other.count_eager(frame.bytes);
    } catch (const LinkLost& lost) {
        lose(request.peer, lost);
        return false;
    }
    if (frame.bytes > 0) std::memcpy(request.out, payload, frame.bytes);
    note_handed_on(request.peer, frame.bytes);
    other.line->release();
    // Nobody may look at what has come besides for long.
    if (other.line->is_ready()) drain(request.peer);
    return true;
}

void Messenger::start(MessageOperation& work, std::shared_ptr<void> self) {
    const Inside inside(*this);
    if (inside.closed()) refuse_closed(work.request);
    check_request(work.request, world_size());
    Lock lock(mutex_);
    work.self = std::move(self);
    started_open_.fetch_add(1, std::memory_order_seq_cst);
    begin(work);
    if (any_left_ || any_lost_) progress(lock);
    if (work.has_ended()) return;
    set_deadline(work);
    try {
        need_thread();
    } catch (const std::system_error& error) {
        withdraw(work);
        return fail_with(work, CollectiveErrorCode::system, fmt::format("no thread: {}", error.what()), {});
    }
    // What came before it was heard; but whoever waits or sleeps copies.
    if (!pulls_.empty()) {
        wake(true);
    } else if (is_ready()) {
        progress(lock);
    }
}

void Messenger::stop_waiting() {
    if (waiters_.fetch_sub(1, std::memory_order_seq_cst) > 1 || !(started_open_.load() > 0 || unsent_))
        return;
    const Lock lock(mutex_);
    if (helper_rests_) arm_helper();  // and says what has come while nobody rang for it
    if (helper_rests_ && is_ready()) ring_bell(*bell_);
    threads_wake_.notify_all();
}

void Messenger::then(MessageOperation& work, std::function<void()> done) {
    {
        const Lock lock(mutex_);
        if (!work.has_ended()) return work.then.push_back(std::move(done));
    }
    done();
}

void Messenger::await(MessageOperation& work, Deadline deadline) {
    const Waiting waiting(*this);
    if (!waiting.closed() && !look(work, deadline)) doze_for(work, deadline);
}

bool Messenger::look(MessageOperation& work, Deadline deadline) {
    const MessageRequest& request = work.request;
    if (request.peer != kAnyRank && peer(request.peer).local)
        leave_cpu_of(memory_->bell(memory_place(request.peer)).cpu, bell_->cpu, rank() < request.peer);
    const std::size_t copied = request.sends && place_.spins ? request.bytes : 0;
    const std::chrono::nanoseconds copying(copied / kCopiedPerNanosecond);
    const Deadline end =
        std::min(deadline, Clock::now() + kMessageSpin + std::min<Clock::duration>(copying, kLongestCopy));
    do {
        for (int i = 0; i < (place_.spins && memory_ ? kLooksPerClock : 1); ++i) {
            if (work.has_ended()) return true;
            if (is_ready() || (i == 0 && place_.spins && connected_.load(std::memory_order_relaxed))) {
                Lock lock(mutex_);
                progress(lock);
            }
            // Where there are too few CPUs, it is anybody's who needs it.
            place_.spins ? relax() : static_cast<void>(::sched_yield());
        }
    } while (!has_passed(end));
    return work.has_ended();
}

template <class Look>
bool Messenger::rest(Look look) {
    // Counted before it looks for the last time: whoever has something for it sees it from here on.
    bell_->sleepers.fetch_add(1, std::memory_order_seq_cst);
    const std::uint32_t count = bell_->count.load(std::memory_order_seq_cst);
    bool polls = false;
    std::optional<Deadline> until;
    {
        Lock lock(mutex_);
        until = look(lock);
        polls = until && !memory_ && connected_ && !has_poller_;
        if (polls) poll_connections(lock, *until);
        if (memory_ && connected_) threads_wake_.notify_all();
    }
    if (until && !polls) doze(count, *until);
    bell_->sleepers.fetch_sub(1, std::memory_order_seq_cst);
    return until.has_value();
}

bool Messenger::doze_for(MessageOperation& work, Deadline deadline) {
    const auto look = [&](Lock& lock) -> std::optional<Deadline> {
        if (!work.has_ended() && work.deadline == Deadline::max()) set_deadline(work);
        progress(lock);
        expire();
        return work.has_ended() ? std::nullopt : std::optional(std::min(deadline, next_deadline_));
    };
    while (rest(look) && !has_passed(deadline)) {
    }
    return work.has_ended();
}

void Messenger::poll_connections(Lock& lock, Deadline until) {
    polled_.assign(1, {connections_wake_->descriptor(), POLLIN, 0});
    for (const int one : lined_) {
        if (!verdict_) peer(one).line->add_descriptors(polled_);
    }
    has_poller_ = polling_ = true;
    lock.unlock();
    ::poll(polled_.data(), polled_.size(),
           poll_timeout(std::min(until, Clock::now() + kLongestMessageSleep)));
    connections_wake_->clear();
    lock.lock();
    has_poller_ = polling_ = false;
    // One of the others takes the place.
    if (!memory_ && bell_->sleepers > 1) ring_bell(*bell_);
}

void Messenger::begin_all(Works works) {
    Lock lock(mutex_);
    for (MessageOperation* work : works) begin(*work);
    if (any_left_ || any_lost_ || !pulls_.empty()) progress(lock);
}

bool Messenger::await_until(MessageOperation& work, Deadline deadline) {
    const Waiting waiting(*this);
    return doze_for(work, deadline);
}

bool Messenger::give_up(Works works) {
    Lock lock(mutex_);
    progress(lock);
    bool moved = std::any_of(works.begin(), works.end(), [&](const MessageOperation* work) {
        if (!work->request.sends || work->has_ended()) return work->has_ended() || work->source >= 0;
        return work->offer != 0 && offers_[work->offer - 1].sent > 0;
    });
    for (MessageOperation* work : works) {
        if (moved) break;
        moved = withdraw(*work);
        end(*work);
    }
    for (const int one : lined_) flush(one);
    return !moved;
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

void Messenger::need_thread() {
    // Alone, and with nobody whom it could wait for, it keeps the deadlines all the same.
    if (!helper_.joinable()) helper_ = start_without_signals([this] { serve_started(); });
    if (helper_rests_) arm_helper();
    if (!helper_rests_ || connected_) threads_wake_.notify_all();
}

void Messenger::need_connections() {
    const Membership& membership = *place_.membership;
    if (!connections_wake_) connections_wake_.emplace();
    // Without the thread there are no lines. It waits for the lock.
    if (!memory_) need_thread();
    if (memory_) connections_ = start_without_signals([this] { serve_connections(); });
    for (int whom = 0; whom < world_size(); ++whom) {
        if (whom == rank() || peer(whom).line) continue;
        peer(whom).line = std::make_unique<TcpMessageLine>(membership, *place_.lifeline, whom);
        lined_.push_back(whom);
    }
    connected_.store(true, std::memory_order_seq_cst);
}

void Messenger::serve_started() {
    const auto is_needed = [this] { return waiters_.load() == 0 && (started_open_.load() > 0 || unsent_); };
    std::uint64_t seen = 0;
    Lock lock(mutex_);
    while (true) {
        threads_wake_.wait(lock, [&] { return stopping_ || is_needed() || (memory_ && seen != numbers_); });
        if (stopping_) return;
        if (!memory_) {
            lock.unlock();
            rest([&](Lock& held) {
                progress(held);
                expire();
                return is_needed() && !stopping_ ? std::optional(next_deadline_) : std::nullopt;
            });
            lock.lock();
            continue;
        }
        if (is_needed()) arm_helper();
        const std::uint32_t count = bell_->count.load(std::memory_order_seq_cst);
        if (is_needed()) {
            progress(lock);
            expire();
        }
        // As long as operations come it stays on the bell, where need_thread() need not wake it.
        helper_rests_ = true;
        seen = numbers_;
        const Deadline until = next_deadline_;
        lock.unlock();
        doze(count, until);
        lock.lock();
        helper_rests_ = false;
        disarm_helper();
    }
}

void Messenger::serve_connections() {
    Lock lock(mutex_);
    while (true) {
        threads_wake_.wait(
            lock, [this] { return stopping_ || waiters_.load() > 0 || started_open_.load() > 0 || unsent_; });
        if (stopping_) return;
        progress(lock);
        if (!stopping_) poll_connections(lock, Deadline::max());
    }
}

void Messenger::close(Deadline deadline) {
    {
        Lock lock(mutex_);
        if (closed_.load()) return;
        closing_ = true;
        MessageOperation* next = nullptr;
        for (MessageOperation* work = open_; work != nullptr; work = next) {
            next = work->next;
            if (work->request.sends || work->stage == MessageOperation::Stage::pulling) continue;
            withdraw(*work);
            fail_with(*work, CollectiveErrorCode::invalid_argument, "this communicator has been finalized",
                      {});
        }
    }
    const auto look = [&](Lock& lock) {
        progress(lock);
        expire();
        const bool done = verdict_ || has_passed(deadline) || !has_unsent();
        return done ? std::nullopt : std::optional(deadline);
    };
    while (rest(look)) {
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
        threads_wake_.notify_all();
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
