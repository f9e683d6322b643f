// WeakMemory: runs two or three threads over stand-ins for std::atomic, which show each load all that C11
// lets it see.
//
// Each location keeps all values that were ever stored, in their order. A thread has a view: for each
// location the first value that it may still see. A load may see any from there on; a store with release
// hands the thread's view on, and a load with acquire that sees it takes it over. Fences and sequentially
// consistent operations do as C++20 says (the order of the run is theirs). Plain values have no choice: a
// use that is not ordered after all writes is a race, which is a fault. Threads are contexts of one thread
// of the system, so a run is its list of choices (who goes on, which value a load sees), and all lists up
// to a number of preemptions are tried, then random ones.
//
// Two things that C11 allows are not shown. A load never sees a store that comes later in the run (load
// buffering), but code that relies on it not to does so for plain values, where it is a race; and a store
// goes to the end of its location's order.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {
namespace memory_order_test {

using Order = std::memory_order;

inline constexpr int kMostPlaces = 48;
inline constexpr std::size_t kStack = std::size_t{64} << 10;
inline constexpr int kMostSteps = 2000;  // of one run; more is a loop

inline bool acquires(Order order) { return order != Order::relaxed && order != Order::release; }
inline bool releases(Order order) {
    return order == Order::release || order == Order::acq_rel || order == Order::seq_cst;
}

// For each place, the number of the first value that may still be seen.
struct View {
    std::array<std::uint16_t, kMostPlaces> first{};

    void join(const View& other) {
        for (std::size_t i = 0; i < first.size(); ++i) first[i] = std::max(first[i], other.first[i]);
    }
};

// Choices takes the decisions of a run: those of a list, then the first; or random ones.
class Choices {
  public:
    std::size_t choose(std::size_t of) {
        if (of < 2) return 0;
        if (random_) return (*random_)() % of;
        if (at_ == path_.size()) path_.push_back({0, of});
        return path_[at_++].taken;
    }
    // Goes on to the next list. False after the last.
    bool next() {
        at_ = 0;
        while (!path_.empty() && path_.back().taken + 1 == path_.back().of) path_.pop_back();
        if (path_.empty()) return false;
        ++path_.back().taken;
        return true;
    }
    void be_random(unsigned seed) { random_.emplace(seed); }

  private:
    struct Choice {
        std::size_t taken;
        std::size_t of;
    };
    std::vector<Choice> path_;
    std::size_t at_ = 0;
    std::optional<std::mt19937> random_;
};

// World is one run: its threads and its memory.
class World {
  public:
    World(Choices& choices, int preemptions) : choices_(choices), preemptions_(preemptions) { now_ = this; }
    ~World() { now_ = nullptr; }
    World(const World&) = delete;
    World& operator=(const World&) = delete;

    static World& now() { return *now_; }

    void thread(std::function<void()> body) { threads_.push_back(std::make_unique<Thread>(std::move(body))); }
    // Called when all threads have ended.
    void at_end(std::function<void()> check) { at_end_ = std::move(check); }
    // The first fault ends the run.
    void fail(const std::string& what) {
        if (fault_.empty()) fault_ = what;
        if (running_ != nullptr) throw Stopped{};
    }
    void require(bool good, const char* what) {
        if (!good) fail(what);
    }
    // Returns the fault; empty: none.
    std::string run();

    // For the stand-ins.
    struct Thread {
        explicit Thread(std::function<void()> what) : body(std::move(what)) {}
        std::function<void()> body;
        std::unique_ptr<std::byte[]> stack{new std::byte[kStack]};
        ucontext_t context{};
        bool ended = false;
        std::function<bool()> ready;  // empty: it can go on
        const void* sleeps_on = nullptr;
        View view;      // what it may see
        View acquired;  // what an acquire fence would add
        View released;  // what a relaxed store hands on
    };
    Thread& thread_now() { return *running_; }
    std::size_t new_place() {
        if (places_ == kMostPlaces) fail("more places than the checker has");
        return places_++;
    }
    std::size_t choose(std::size_t of) { return choices_.choose(of); }
    // Lets another thread go on, or waits until `ready`.
    void point(std::function<bool()> ready = {});
    void wake(const void* place) {
        for (auto& one : threads_) {
            if (one->sleeps_on == place) one->sleeps_on = nullptr;
        }
    }
    View consistent;  // what sequentially consistent operations have done to each place
    View fenced;      // what the last sequentially consistent fence has seen

  private:
    struct Stopped {};
    static bool can_run(const Thread& one) {
        return !one.ended && one.sleeps_on == nullptr && (!one.ready || one.ready());
    }
    static void enter() {
        World& world = now();
        Thread& self = *world.running_;
        try {
            if (!world.stopping_) self.body();
        } catch (const Stopped&) {
        }
        self.ended = true;
        ::swapcontext(&self.context, &world.main_);
    }
    Thread* pick(Thread* before);
    void switch_to(Thread& one) {
        running_ = &one;
        ::swapcontext(&main_, &one.context);
        running_ = nullptr;
    }

    inline static World* now_ = nullptr;
    Choices& choices_;
    int preemptions_;
    int steps_ = 0;
    bool stopping_ = false;
    std::size_t places_ = 0;
    std::vector<std::unique_ptr<Thread>> threads_;
    std::function<void()> at_end_;
    Thread* running_ = nullptr;
    ucontext_t main_{};
    std::string fault_;
};

inline World::Thread* World::pick(Thread* before) {
    std::vector<Thread*> able;
    if (before != nullptr && can_run(*before)) able.push_back(before);
    const bool would_preempt = !able.empty();
    for (auto& one : threads_) {
        if (one.get() != before && (!would_preempt || preemptions_ > 0) && can_run(*one))
            able.push_back(one.get());
    }
    if (able.empty()) return nullptr;
    Thread* const chosen = able[choices_.choose(able.size())];
    if (would_preempt && chosen != before) --preemptions_;
    return chosen;
}

inline void World::point(std::function<bool()> ready) {
    Thread& self = *running_;
    if (stopping_) throw Stopped{};
    if (++steps_ > kMostSteps) fail("the run does not end");
    self.ready = std::move(ready);
    ::swapcontext(&self.context, &main_);
    self.ready = {};
    if (stopping_) throw Stopped{};
}

inline std::string World::run() {
    for (auto& one : threads_) {
        ::getcontext(&one->context);
        one->context.uc_stack.ss_sp = one->stack.get();
        one->context.uc_stack.ss_size = kStack;
        one->context.uc_link = nullptr;
        ::makecontext(&one->context, &World::enter, 0);
    }
    Thread* last = nullptr;
    while (fault_.empty()) {
        last = pick(last);
        if (last == nullptr) break;
        switch_to(*last);
    }
    const bool all_ended = std::ranges::all_of(threads_, [](const auto& one) { return one->ended; });
    if (fault_.empty() && !all_ended) fault_ = "threads wait, and nobody ends that";
    stopping_ = true;
    for (auto& one : threads_) {
        while (!one->ended) switch_to(*one);
    }
    if (fault_.empty() && at_end_) at_end_();
    return fault_;
}

// Atomic stands for std::atomic of a number.
class Atomic {
  public:
    explicit Atomic(std::uint64_t first = 0) { values_.push_back({first, {}}); }

    std::uint64_t load(Order order = Order::seq_cst) {
        World::now().point();
        return see(order, [](std::uint64_t) { return true; });
    }
    // Loads until `good` is true of what it sees, as a loop would.
    template <class Good>
    std::uint64_t await(Order order, Good good) {
        World::now().point([this, order, good, self = &World::now().thread_now()] {
            for (std::size_t i = first_seen(order, *self); i < values_.size(); ++i) {
                if (good(values_[i].value)) return true;
            }
            return false;
        });
        return see(order, good);
    }
    void store(std::uint64_t value, Order order = Order::seq_cst) {
        World::now().point();
        append(value, order, View());
    }
    template <class Change>
    std::uint64_t modify(Change change, Order order) {
        World::now().point();
        const Value before = values_.back();
        note_seen(values_.size() - 1, order);
        append(change(before.value), order, before.view);
        return before.value;
    }
    std::uint64_t fetch_add(std::uint64_t by, Order order = Order::seq_cst) {
        return modify([by](std::uint64_t value) { return value + by; }, order);
    }
    std::uint64_t fetch_sub(std::uint64_t by, Order order = Order::seq_cst) {
        return modify([by](std::uint64_t value) { return value - by; }, order);
    }
    std::uint64_t fetch_or(std::uint64_t by, Order order = Order::seq_cst) {
        return modify([by](std::uint64_t value) { return value | by; }, order);
    }
    std::uint64_t fetch_and(std::uint64_t by, Order order = Order::seq_cst) {
        return modify([by](std::uint64_t value) { return value & by; }, order);
    }
    std::uint64_t exchange(std::uint64_t to, Order order = Order::seq_cst) {
        return modify([to](std::uint64_t) { return to; }, order);
    }
    bool compare_exchange_strong(std::uint64_t& expected, std::uint64_t to, Order order = Order::seq_cst) {
        World& world = World::now();
        world.point();
        const std::uint64_t wanted = expected;
        // It may fail for an older value, but succeeds for the last only.
        const std::size_t first = first_seen(order, world.thread_now());
        bool may_fail = false;
        for (std::size_t i = first; i < values_.size(); ++i) may_fail |= values_[i].value != wanted;
        if (values_.back().value == wanted && (!may_fail || world.choose(2) == 0)) {
            const View handed = values_.back().view;
            note_seen(values_.size() - 1, order);
            append(to, order, handed);
            return true;
        }
        expected = see(order, [wanted](std::uint64_t value) { return value != wanted; });
        return false;
    }
    // What the kernel sees, and the end of a run.
    std::uint64_t latest() const { return values_.back().value; }

  private:
    struct Value {
        std::uint64_t value;
        View view;  // of the thread that stored it, as far as it handed that on
    };

    std::size_t first_seen(Order order, const World::Thread& self) const {
        const World& world = World::now();
        std::size_t first = self.view.first[place_];
        if (order == Order::seq_cst)
            first =
                std::max<std::size_t>({first, world.consistent.first[place_], world.fenced.first[place_]});
        return first;
    }
    template <class Good>
    std::uint64_t see(Order order, Good good) {
        std::array<std::size_t, 64> fitting;
        std::size_t count = 0;
        // The newest first: the choice without a list is that of a machine that delays nothing.
        for (std::size_t i = values_.size(); i-- > first_seen(order, World::now().thread_now());) {
            if (good(values_[i].value) && count < fitting.size()) fitting[count++] = i;
        }
        const std::size_t number = fitting[World::now().choose(count)];
        note_seen(number, order);
        return values_[number].value;
    }
    void note_seen(std::size_t number, Order order) {
        World::Thread& self = World::now().thread_now();
        self.view.first[place_] = static_cast<std::uint16_t>(number);
        self.acquired.join(values_[number].view);
        if (acquires(order)) self.view.join(values_[number].view);
        if (order == Order::seq_cst) note_consistent(number);
    }
    // `before`: what the value that a read-modify-write has seen hands on.
    void append(std::uint64_t value, Order order, const View& before) {
        World::Thread& self = World::now().thread_now();
        const auto number = static_cast<std::uint16_t>(values_.size());
        self.view.first[place_] = number;
        View handed = before;
        handed.join(releases(order) ? self.view : self.released);
        handed.first[place_] = number;
        values_.push_back({value, handed});
        if (order == Order::seq_cst) note_consistent(number);
    }
    void note_consistent(std::size_t number) {
        std::uint16_t& first = World::now().consistent.first[place_];
        first = std::max(first, static_cast<std::uint16_t>(number));
    }

    std::size_t place_ = World::now().new_place();
    std::vector<Value> values_;
};

inline void fence(Order order) {
    World& world = World::now();
    world.point();
    World::Thread& self = world.thread_now();
    if (acquires(order)) self.view.join(self.acquired);
    if (order == Order::seq_cst) {
        self.view.join(world.fenced);
        self.view.join(world.consistent);
        world.fenced.join(self.view);
    }
    if (releases(order)) self.released = self.view;
}

// Plain stands for memory that is no atomic: a use that is not ordered after all writes, or a write that is
// not ordered after all uses, is a fault.
class Plain {
  public:
    std::uint64_t read() {
        World& world = World::now();
        World::Thread& self = world.thread_now();
        if (self.view.first[written_] != writes_) world.fail("a read races with a write");
        const std::size_t reader = number_of(self);
        self.view.first[reads_[reader]] = ++read_[reader];
        return value_;
    }
    void write(std::uint64_t value) {
        World& world = World::now();
        World::Thread& self = world.thread_now();
        if (self.view.first[written_] != writes_) world.fail("a write races with a write");
        for (std::size_t i = 0; i < readers_.size(); ++i) {
            if (self.view.first[reads_[i]] != read_[i]) world.fail("a write races with a read");
        }
        self.view.first[written_] = ++writes_;
        value_ = value;
    }

  private:
    std::size_t number_of(const World::Thread& self) {
        const auto found = std::ranges::find(readers_, &self);
        if (found != readers_.end()) return static_cast<std::size_t>(found - readers_.begin());
        readers_.push_back(&self);
        reads_.push_back(World::now().new_place());
        read_.push_back(0);
        return readers_.size() - 1;
    }

    std::size_t written_ = World::now().new_place();
    std::uint16_t writes_ = 0;
    std::vector<const World::Thread*> readers_;
    std::vector<std::size_t> reads_;
    std::vector<std::uint16_t> read_;
    std::uint64_t value_ = 0;
};

// The kernel looks at the last value, under its lock.
inline void futex_wait(Atomic& word, std::uint64_t value) {
    World& world = World::now();
    world.point();
    if (word.latest() != value) return;
    world.thread_now().sleeps_on = &word;
    world.point();
}

inline void futex_wake_all(Atomic& word) {
    World::now().point();
    World::now().wake(&word);
}

// How much is tried.
struct Bound {
    int preemptions = 3;
    int runs = 60'000;        // of all lists, at most
    int random_runs = 4'000;  // beyond them, with any number of preemptions
    unsigned seed = 1;
};

struct Found {
    std::string fault;  // empty: none
    int runs = 0;
    bool all = false;   // all lists to the bound were tried
    unsigned seed = 0;  // of the random run with the fault; 0: it was one of the lists
};

// Calls `make`, which gives a World its threads, for every run, until one has a fault.
template <class Make>
Found explore(Make make, const Bound& bound = {}) {
    Found found;
    const auto one = [&](Choices& choices, int preemptions) {
        World world(choices, preemptions);
        make(world);
        ++found.runs;
        found.fault = world.run();
        return found.fault.empty();
    };
    Choices lists;
    do {
        if (!one(lists, bound.preemptions)) return found;
        found.all = found.runs < bound.runs && !lists.next();
    } while (!found.all && found.runs < bound.runs);
    for (unsigned i = 0; i < static_cast<unsigned>(bound.random_runs); ++i) {
        Choices random;
        random.be_random(bound.seed + i);
        found.seed = bound.seed + i;
        if (!one(random, kMostSteps)) return found;
    }
    found.seed = 0;
    return found;
}

}  // namespace memory_order_test
}  // namespace ddprun
