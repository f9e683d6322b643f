#include "collectives/liveness/call_slot.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <functional>
#include <new>
#include <optional>
#include <utility>

#include "rendezvous/system/own_process.hpp"
#include "rendezvous/system/shared_memory.hpp"

namespace ddprun {
inline namespace detail {

// ProcessCalls: the page of this process, and which of its slots are taken. Global, as is the page, and never
// destroyed. Any thread; takes no lock, which a thread could hold while another one forks.
class ProcessCalls {
  public:
    static ProcessCalls& instance() {
        static const std::reference_wrapper<std::atomic<ProcessCalls*>> place(
            *new std::atomic<ProcessCalls*>(nullptr));
        std::atomic<ProcessCalls*>& current = place;
        ProcessCalls* known = current.load(std::memory_order_acquire);
        if (known != nullptr && known->process_ == this_process()) return *known;
        auto* const made = new ProcessCalls;
        if (current.compare_exchange_strong(known, made, std::memory_order_acq_rel)) {
            if (known != nullptr) forget(known);
            return *made;
        }
        delete made;
        return *known;
    }

    // Returns a free slot, which is taken now; kCallSlots: there is none.
    std::uint64_t take() noexcept {
        std::uint32_t taken = taken_.load(std::memory_order_relaxed);
        for (;;) {
            const auto place = static_cast<unsigned>(std::countr_one(taken));
            if (place == kCallSlots) return kCallSlots;
            if (taken_.compare_exchange_weak(taken, taken | 1U << place, std::memory_order_acquire))
                return place;
        }
    }
    void give_back(std::uint64_t place) noexcept {
        if (place < kCallSlots) taken_.fetch_and(~(1U << place), std::memory_order_release);
    }

    CallPage& page_for(std::uint64_t place) noexcept {
        return place < kCallSlots && mapping_ ? *reinterpret_cast<CallPage*>(mapping_->base()) : unread_;
    }

  private:
    static_assert(kCallSlots == 32, "a bit each");

    ProcessCalls() : mapping_(ShmMapping::create(kCallPageName, sizeof(CallPage))) {
        if (!mapping_) return;
        mapping_->close_offer();
        // Where it is refused, a reader takes children for what the parent is.
        static_cast<void>(::madvise(mapping_->base(), mapping_->size(), MADV_DONTFORK));
        auto* const page = new (mapping_->base()) CallPage{};
        for (std::size_t i = 0; i < std::min(kTraits.size(), kCallNames); ++i) {
            const std::string_view name = kTraits[i].name.substr(0, kCallNameSize);
            std::copy(name.begin(), name.end(), page->names[i].begin());
        }
        page->version = kCallPageVersion;
        page->size = sizeof(CallPage);
        page->magic = kCallPageMagic;
    }

    const ProcessNumber process_ = this_process();
    std::optional<ShmMapping> mapping_;
    std::atomic<std::uint32_t> taken_{0};
    CallPage unread_{};
};

namespace {

// Says whether this is the process's first thread. A forked child has no other.
bool is_main_thread() {
    struct Known {
        ProcessNumber process;
        bool is_main;
    };
    thread_local Known known{};
    if (known.process != this_process()) known = {this_process(), ::gettid() == ::getpid()};
    return known.is_main;
}

}  // namespace

CallSlot::CallSlot(std::uint64_t group, std::vector<int> job_ranks)
    : calls_(ProcessCalls::instance()),
      job_ranks_(std::move(job_ranks)),
      page_(nullptr),
      place_(calls_.take()),
      slot_(nullptr) {
    page_ = &calls_.page_for(place_);
    slot_ = &page_->slots[place_ % kCallSlots];
    slot_->group.store(group, std::memory_order_relaxed);
}

CallSlot::~CallSlot() {
    for (auto* const word : {&slot_->call, &slot_->waiting_call, &slot_->group})
        word->store(0, std::memory_order_relaxed);
    calls_.give_back(place_);
}

void CallSlot::end_wait() noexcept {
    waits_ = false;
    last_.is_open = false;
    slot_->call.store(to_word(last_), std::memory_order_relaxed);
    last_.is_open = true;
}

void CallSlot::wait(Deadline since, std::span<const int> awaited) noexcept {
    const std::uint64_t call = slot_->call.load(std::memory_order_relaxed);
    // A rank that stood still gets its time again, and has been in the call all the same.
    const bool is_new = slot_->waiting_call.load(std::memory_order_relaxed) != call;
    WaitWord about{.is_main = is_main_thread()};
    std::array<std::uint64_t, 2> ranks{};
    for (const int rank : awaited) {
        const auto place = static_cast<std::size_t>(rank);
        if (about.awaited == kCallAwaited || rank < 0 || place >= job_ranks_.size()) break;
        if (job_ranks_[place] <= kMostCallRank) set_awaited_rank(ranks, about.awaited++, job_ranks_[place]);
    }
    waits_ = true;
    const std::uint64_t turn = slot_->turn.load(std::memory_order_relaxed);
    slot_->turn.store(turn + 1, std::memory_order_relaxed);
    // Each of them releases, so that who sees one sees the turn before it, too.
    slot_->waiting_call.store(call, std::memory_order_release);
    if (is_new) {
        const auto began = std::chrono::nanoseconds(since.time_since_epoch()).count();
        slot_->since_ns.store(static_cast<std::uint64_t>(began), std::memory_order_release);
    }
    slot_->about.store(to_word(about), std::memory_order_release);
    for (std::size_t i = 0; i < ranks.size(); ++i)
        slot_->awaited[i].store(ranks[i], std::memory_order_release);
    slot_->turn.store(turn + 2, std::memory_order_release);
}

}  // namespace detail
}  // namespace ddprun
