#include "collectives/messages/messenger.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <system_error>

#include "collectives/error.hpp"
#include "rendezvous/system/shared_memory.hpp"

namespace ddprun {
inline namespace detail {
namespace {

using Clock = Deadline::clock;

constexpr std::size_t kCopiedPerNanosecond = 4;  // by a receiver that has a CPU of its own
constexpr std::chrono::milliseconds kLongestCopy{5};
constexpr int kLooksPerClock = 64;
// In about a microsecond, before a receive is known to others.
constexpr int kFirstLooks = 256;

// In the memory that the ranks of this host share.
MessageBell* bell_in(const MessengerPlace& place) {
    if (place.memory == nullptr) return nullptr;
    const RankGroup ranks = ranks_of_host(*place.membership);
    return &MessageMemory(place.memory, ranks.size(), ranks.index).bell(ranks.index);
}

}  // namespace

Messenger::Messenger(const MessengerPlace& place, std::unique_ptr<MessageSurroundings> surroundings,
                     std::chrono::milliseconds operation_timeout)
    : surroundings_(std::move(surroundings)),
      spins_(place.spins),
      looks_(place.looks),
      sleepers_(*surroundings_, bell_in(place),
                {[this] { serve_started(); }, [this] { serve_connections(); }}),
      exchange_(place, operation_timeout, *surroundings_, sleepers_) {
    surroundings_->on_news([this] {
        exchange_.hear_news();
        sleepers_.hear_news();
    });
}

Messenger::~Messenger() { close(Clock::now()); }

void Messenger::refuse_closed(const MessageRequest& request) const {
    throw CollectiveError(CollectiveErrorCode::invalid_argument, describe(request) + ": " + kMessengerClosed);
}

void Messenger::run(const MessageRequest& request, int* source) {
    const Inside inside(*this);
    if (inside.closed()) refuse_closed(request);
    check_request(request, exchange_.flow().world_size());
    if (passes_soon(request)) {
        if (source != nullptr) *source = request.peer;
        return;
    }
    MessageOperation operation(request);
    MessageOperation* const place = &operation;
    begin_all({&place, 1});
    if (!operation.has_ended()) await(operation, Deadline::max());
    if (operation.error) throw *operation.error;
    if (source != nullptr) *source = operation.source;
}

bool Messenger::passes_soon(const MessageRequest& request) {
    if (request.peer == kAnyRank) return false;
    MessageFlow& flow = exchange_.flow();
    MessagePeer& other = flow.peer(request.peer);
    if (!other.local) return false;
    for (int looks = spins_ ? kFirstLooks : 1; !request.sends && !other.line->is_ready();) {
        if (--looks == 0) return false;
    }
    const Lock lock(mutex_);
    if (!exchange_.is_undisturbed()) return false;
    MessageFrame frame;
    const std::byte* payload = nullptr;
    try {
        if (request.sends)
            return other.controls.empty() && other.outboxes[true].empty() &&
                   other.takes_eagerly(request.bytes) && other.put_eagerly(request);
        if (!exchange_.is_empty()) return false;
        if (!other.line->take(frame, payload) || frame.kind != FrameKind::eager || frame.element != 0 ||
            frame.tag != request.tag || frame.bytes != request.bytes)
            return false;
        other.count_eager(frame.bytes);
    } catch (const LinkLost& lost) {
        flow.lose(request.peer, lost);
        return false;
    }
    if (frame.bytes > 0) std::memcpy(request.out, payload, frame.bytes);
    other.note_handed_on(frame.bytes);
    other.line->release();
    // Nobody may look at what has come besides for long.
    if (other.line->is_ready()) exchange_.drain(request.peer);
    return true;
}

void Messenger::start(MessageOperation& operation, std::shared_ptr<void> self) {
    const Inside inside(*this);
    if (inside.closed()) refuse_closed(operation.request);
    check_request(operation.request, exchange_.flow().world_size());
    Lock lock(mutex_);
    operation.self = std::move(self);
    sleepers_.begin_started();
    exchange_.begin(operation);
    exchange_.look_for_ends(lock);
    if (operation.has_ended()) return;
    exchange_.open().set_deadline(operation);
    try {
        sleepers_.want_helper();
    } catch (const std::system_error& error) {
        return exchange_.give_up(operation, fmt::format("no thread: {}", error.what()));
    }
    // What came before it was heard; but whoever waits or sleeps copies.
    if (exchange_.flow().has_pulls()) {
        sleepers_.wake(WakeCause::sooner);
    } else if (exchange_.is_ready()) {
        exchange_.progress(lock);
    }
}

void Messenger::begin_all(Operations operations) {
    Lock lock(mutex_);
    for (MessageOperation* one : operations) exchange_.begin(*one);
    exchange_.look_for_ends(lock);
    if (exchange_.flow().has_pulls()) exchange_.progress(lock);
}

void Messenger::test() {
    const Inside inside(*this);
    if (inside.closed()) return;
    if (!exchange_.is_ready() && !sleepers_.is_connected()) return;
    Lock lock(mutex_, std::try_to_lock);
    if (lock) exchange_.progress(lock);
}

void Messenger::then(MessageOperation& operation, std::function<void()> done) {
    {
        const Lock lock(mutex_);
        if (!operation.has_ended()) return operation.then.push_back(std::move(done));
    }
    done();
}

void Messenger::await(MessageOperation& operation, Deadline deadline) {
    const Waiting waiting(*this);
    if (!waiting.closed() && !look(operation, deadline)) doze_for(operation, deadline);
}

bool Messenger::await_until(MessageOperation& operation, Deadline deadline) {
    const Waiting waiting(*this);
    return doze_for(operation, deadline);
}

bool Messenger::look(MessageOperation& operation, Deadline deadline) {
    const MessageRequest& request = operation.request;
    MessageFlow& flow = exchange_.flow();
    const bool shares_memory = sleepers_.shares_memory();
    if (request.peer != kAnyRank && flow.peer(request.peer).local)
        leave_cpu_of(flow.bell_of(request.peer).cpu, sleepers_.bell().cpu, flow.rank() < request.peer);
    const std::size_t copied = request.sends && spins_ ? request.bytes : 0;
    const std::chrono::nanoseconds copying(copied / kCopiedPerNanosecond);
    const Deadline end =
        std::min(deadline, Clock::now() + looks_ + std::min<Clock::duration>(copying, kLongestCopy));
    do {
        for (int i = 0; i < (spins_ && shares_memory ? kLooksPerClock : 1); ++i) {
            if (operation.has_ended()) return true;
            if (exchange_.is_ready() || (i == 0 && spins_ && sleepers_.is_connected())) {
                Lock lock(mutex_);
                exchange_.progress(lock);
            }
            // Where there are too few CPUs, it is anybody's who needs it.
            spins_ ? relax() : surroundings_->yield();
        }
    } while (!has_passed(end));
    return operation.has_ended();
}

template <class Look>
bool Messenger::rest(Look look) {
    const std::uint32_t count = sleepers_.count_in();
    bool polls = false;
    std::optional<Deadline> until;
    {
        Lock lock(mutex_);
        until = look(lock);
        polls = until && sleepers_.may_poll();
        if (polls) poll_connections(lock, *until);
        sleepers_.wake(WakeCause::slept);
    }
    if (until && !polls) sleepers_.doze(count, *until);
    sleepers_.count_out();
    return until.has_value();
}

bool Messenger::doze_for(MessageOperation& operation, Deadline deadline) {
    OpenMessages& open = exchange_.open();
    const auto look = [&](Lock& lock) -> std::optional<Deadline> {
        if (!operation.has_ended() && operation.deadline == Deadline::max()) open.set_deadline(operation);
        exchange_.progress(lock);
        exchange_.expire();
        return operation.has_ended() ? std::nullopt : std::optional(std::min(deadline, open.next_deadline()));
    };
    while (rest(look) && !has_passed(deadline)) {
    }
    return operation.has_ended();
}

void Messenger::leave_alone() {
    const Lock lock(mutex_);
    sleepers_.leave_alone([this] { return exchange_.is_ready(); });
}

void Messenger::poll_connections(Lock& lock, Deadline until) {
    sleepers_.poll(lock, until, [this](std::vector<pollfd>& polled) {
        if (!exchange_.has_ended()) exchange_.flow().add_descriptors(polled);
    });
}

bool Messenger::give_up(Operations operations) {
    Lock lock(mutex_);
    exchange_.progress(lock);
    return exchange_.give_up_all(operations);
}

void Messenger::serve_started() {
    Lock lock(mutex_);
    std::uint64_t seen = 0;
    const auto has_begun = [&] { return sleepers_.shares_memory() && seen != exchange_.open().begun(); };
    while (true) {
        while (!sleepers_.is_closing() && !sleepers_.helper_is_needed() && !has_begun()) sleepers_.idle(lock);
        if (sleepers_.is_closing()) return;
        if (sleepers_.shares_memory()) {
            seen = watch_bell(lock);
            continue;
        }
        lock.unlock();
        rest([this](Lock& held) {
            exchange_.progress(held);
            exchange_.expire();
            const bool rests = sleepers_.helper_is_needed() && !sleepers_.is_closing();
            return rests ? std::optional(exchange_.open().next_deadline()) : std::nullopt;
        });
        lock.lock();
    }
}

// Looks for what was started, then rests on the bell: as long as operations come it stays there, where nobody
// need call it.
std::uint64_t Messenger::watch_bell(Lock& lock) {
    const std::uint32_t count = sleepers_.watch();
    if (sleepers_.helper_is_needed()) {
        exchange_.progress(lock);
        exchange_.expire();
    }
    const std::uint64_t seen = exchange_.open().begun();
    sleepers_.rest(lock, count, exchange_.open().next_deadline());
    return seen;
}

void Messenger::serve_connections() {
    Lock lock(mutex_);
    while (true) {
        while (!sleepers_.is_closing() && !sleepers_.connections_are_needed())
            surroundings_->sleep_until_called(lock);
        if (sleepers_.is_closing()) return;
        exchange_.progress(lock);
        if (!sleepers_.is_closing()) poll_connections(lock, Deadline::max());
    }
}

void Messenger::close(Deadline deadline) {
    {
        const Lock lock(mutex_);
        if (closed_.load()) return;
        exchange_.refuse_all();
    }
    const auto look = [&](Lock& lock) {
        exchange_.progress(lock);
        exchange_.expire();
        const bool done = exchange_.has_ended() || has_passed(deadline) || !exchange_.has_unsent();
        return done ? std::nullopt : std::optional(deadline);
    };
    while (rest(look)) {
    }
    surroundings_->on_news({});
    {
        const Lock lock(mutex_);
        exchange_.end();
        closed_.store(true, std::memory_order_seq_cst);
        sleepers_.close();
    }
    surroundings_->join_threads();
    // Those that are still in here find all operations ended.
    while (inside_.load(std::memory_order_seq_cst) > 0) surroundings_->yield();
}

void Messenger::disconnect() {
    const Lock lock(mutex_);
    exchange_.flow().disconnect();
}

}  // namespace detail
}  // namespace ddprun
