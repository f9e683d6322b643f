#include "collectives/shm/shm_lifeline.hpp"

#include <cxxabi.h>
#include <linux/futex.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "rendezvous/system/own_process.hpp"
#include "rendezvous/system/quiet_thread.hpp"
#include "rendezvous/system/shared_memory.hpp"

extern "C" void* __dso_handle;  // the library or program that this is part of

namespace ddprun {
inline namespace detail {

// What is to be done at exit cannot be taken back, so all marks of the process are one thing.
struct ExitMark::All {
    std::timed_mutex mutex;
    std::set<const ExitMark*> marks;
    ProcessNumber process = this_process();
    const All* parents = nullptr;  // of the process that forked this one; kept within reach of leak checkers

    // Those of this process: a forked child has none of its parent's.
    static All& here() {
        static const std::reference_wrapper<std::atomic<All*>> all(*new std::atomic<All*>(nullptr));
        All* found = all.get();
        if (found == nullptr || found->process != this_process()) {
            auto made = std::make_unique<All>();
            made->parents = found;
            if (all.get().compare_exchange_strong(found, made.get())) {
                found = made.release();
                // Unlike atexit(), it passes an argument. Where it fails, an exit looks like a death.
                static_cast<void>(abi::__cxa_atexit(&at_exit, found, &__dso_handle));
            }
        }
        return *found;
    }

    static void at_exit(void* argument) {
        All& all = *static_cast<All*>(argument);
        if (all.process != this_process()) return;
        // Who holds it may not run any more.
        const std::unique_lock lock(all.mutex,
                                    std::chrono::system_clock::now() + std::chrono::milliseconds(100));
        if (!lock) return;
        for (const ExitMark* const one : all.marks) one->mark_();
    }
};

ExitMark::ExitMark(std::function<void()> mark) : mark_(std::move(mark)), all_(All::here()) {
    const std::lock_guard lock(all_.mutex);
    all_.marks.insert(this);
}

ExitMark::~ExitMark() {
    const std::lock_guard lock(all_.mutex);
    all_.marks.erase(this);
}

namespace {

using Word = std::atomic<std::uint32_t>;

static_assert(kShmLastRecord == kMaxNoticePayload + 4, "a last_record is an encoded notice");
static_assert((kShmReleased & ~FUTEX_TID_MASK) == 0, "a released word looks like a held one to the kernel");

// How long a thread that was told of the end may take to look.
constexpr std::chrono::microseconds kHelpPause{100};
constexpr int kHelpTries = 20;

bool is_dead(std::uint32_t value) { return (value & FUTEX_OWNER_DIED) != 0; }
bool is_released(std::uint32_t value) { return (value & FUTEX_TID_MASK) == kShmReleased; }

// Moves another thread of this process to the CPU of the calling one, without binding it there.
void bring_here(int thread) {
    const int here = ::sched_getcpu();
    cpu_set_t all;
    if (here < 0 || ::sched_getaffinity(thread, sizeof(all), &all) != 0 || !CPU_ISSET(here, &all)) return;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(here, &one);
    if (::sched_setaffinity(thread, sizeof(one), &one) == 0)
        static_cast<void>(::sched_setaffinity(thread, sizeof(all), &all));
}

Verdict exit_of(int rank) {
    return {CollectiveErrorCode::peer_left,
            {rank},
            accuse(rank, Charge::left) + ": its process exited without destroying its communicator"};
}

}  // namespace

ShmLifeline::ShmLifeline(const ShmSegment& segment, int place, std::vector<int> ranks, Lifeline& lifeline,
                         const std::atomic<int>* waiting)
    : segment_(segment),
      place_(place),
      ranks_(std::move(ranks)),
      lifeline_(lifeline),
      waiting_(waiting),
      life_(segment.life(place)),
      exit_mark_([this] { mark_exit(); }),
      watched_(place) {
    try {
        if (lifeline.parent() == nullptr) thread_ = start_without_signals([this] { run(); });
    } catch (const std::system_error&) {
        // As where the system has no robust futexes.
    }
    if (thread_.joinable()) {
        started_.wait();
    } else {
        release();
    }
    lifeline_.set_observer(this);
}

ShmLifeline::~ShmLifeline() {
    lifeline_.set_observer(nullptr);
    stopping_.store(true);
    wake_sleeper(watched_.load());
    if (thread_.joinable()) thread_.join();
}

void ShmLifeline::run() {
    ask_for_short_turns();
    const RobustFutex futex(life_.word);
    holds_.store(futex.set());
    if (futex.set()) {
        // A neighbour may be asleep on it already.
        const auto own = static_cast<std::uint32_t>(::gettid());
        std::uint32_t value = life_.word.load();
        while (!life_.word.compare_exchange_weak(value, own | (value & FUTEX_WAITERS))) {
        }
    } else {
        release();
    }
    started_.count_down();
    watch();
    release();
}

void ShmLifeline::watch() {
    int place = holds_.load() ? next(place_) : place_;
    bool helped = false;
    while (true) {
        watched_.store(place);
        if (place != place_) {
            const std::uint32_t value = segment_.life(place).word.load();
            if (is_dead(value)) {
                const int rank = rank_of(place);
                lifeline_.declare(cause_of_loss(rank).value_or(death_verdict(rank, kProcessEnded)));
            }
            if (is_dead(value) || is_released(value)) {
                place = next(place);
                continue;
            }
        }
        if (stopping_.load()) return;
        const auto end = cause_of_end();
        if (end && !lifeline_.verdict()) lifeline_.declare(*end);
        if (!helped && lifeline_.verdict()) {
            helped = true;
            help_waiting_thread();
        }
        sleep_on(place);
    }
}

// A thread that wakes another first says why and then takes the bit away: either this thread finds the
// reason, or the kernel another value than the one this thread saw, and it does not fall asleep.
void ShmLifeline::sleep_on(int place) {
    Word& word = segment_.life(place).word;
    const std::uint32_t value = word.fetch_or(FUTEX_WAITERS) | FUTEX_WAITERS;
    if (place != place_ && (is_dead(value) || is_released(value))) return;
    if (stopping_.load()) return;
    if (segment_.end().first.load() != 0 && !lifeline_.verdict()) return;
    futex_wait(word, value);
}

void ShmLifeline::help_waiting_thread() const {
    for (int i = 0; waiting_ != nullptr && i < kHelpTries; ++i) {
        if (waiting_->load() == 0 || stopping_.load()) return;
        // No event tells that a thread waits for a CPU. The system wakes this one where there is a free one.
        std::this_thread::sleep_for(kHelpPause);
        if (const int thread = waiting_->load(); thread != 0) bring_here(thread);
    }
}

void ShmLifeline::wake_sleeper(int place) {
    Word& word = segment_.life(place).word;
    word.fetch_and(~static_cast<std::uint32_t>(FUTEX_WAITERS));
    futex_wake_all(word);
}

void ShmLifeline::release() {
    life_.word.store(kShmReleased);
    futex_wake_all(life_.word);
}

void ShmLifeline::mark_exit() {
    life_.exited.store(1);
    // It would say that the process died; those of this host know better, and tell.
    lifeline_.withdraw_death_news();
}

void ShmLifeline::ended(const Verdict& verdict) {
    const std::string bytes = encode(Notice(verdict));
    std::memcpy(life_.last_record.data(), bytes.data(), bytes.size());
    life_.last_record_size.store(static_cast<std::uint32_t>(bytes.size()));
    std::uint32_t nobody = 0;
    segment_.end().first.compare_exchange_strong(nobody, static_cast<std::uint32_t>(place_) + 1);
    for (int place = 0; place < segment_.world_size(); ++place) wake_sleeper(place);
}

std::optional<Verdict> ShmLifeline::cause_of_end() const {
    const std::uint32_t first = segment_.end().first.load();
    if (first == 0) return std::nullopt;
    const auto ranks = static_cast<std::uint32_t>(segment_.world_size());
    std::vector<int> writers;
    if (first > ranks) {
        // Any of the others may have written there.
        for (int place = next(place_); place != place_; place = next(place))
            writers.push_back(rank_of(place));
    } else {
        const int place = static_cast<int>(first) - 1;
        if (auto record = last_record_of(place)) return record;
        writers.push_back(rank_of(place));
    }
    return broken_verdict(std::move(writers), "an end without a reason into the shared memory");
}

std::optional<Verdict> ShmLifeline::last_record_of(int place) const {
    const ShmLife& life = segment_.life(place);
    const std::size_t size = life.last_record_size.load();
    NoticeReader reader;
    reader.add(std::span(life.last_record).first(std::min(size, life.last_record.size())));
    const auto notice = reader.next();
    if (!notice || !std::holds_alternative<Verdict>(*notice)) return std::nullopt;
    return std::get<Verdict>(*notice);
}

std::optional<Verdict> ShmLifeline::cause_of_loss(int peer) const {
    if (auto end = cause_of_end()) return end;
    for (int place = 0; place < segment_.world_size(); ++place) {
        if (rank_of(place) != peer) continue;
        // It had given up, and ended before it could name itself.
        if (auto last_record = last_record_of(place)) return last_record;
        if (segment_.life(place).exited.load() != 0) return exit_of(peer);
    }
    return std::nullopt;
}

int ShmLifeline::rank_of(int place) const {
    return ranks_.empty() ? place : ranks_[static_cast<std::size_t>(place)];
}

}  // namespace detail
}  // namespace ddprun
