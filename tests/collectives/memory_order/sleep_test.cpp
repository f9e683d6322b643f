// The protocols of sleep and wake, as their sources have them. A sleep has no end of its own here, so a
// wake that is lost is found.
#include <memory>

#include "tests/collectives/memory_order/protocol.hpp"

namespace ddprun {
namespace memory_order_test {
namespace {

constexpr std::uint64_t kWaiters = 1;  // as FUTEX_WAITERS, beside which the word has other bits

TEST_CASE("ShmWaiter sleeps through no step", "[protocol]") {
    check_protocol({{"met", {kWaiterHeader, "bool met()", "word->load("}, Order::relaxed},
                    {"step", {kChannelHeader, "void step(", "word.store("}, Order::relaxed},
                    {"count up", {kWaiterHeader, "static void wake", "count.fetch_add("}, Order::relaxed},
                    {"sleepers", {kWaiterHeader, "static void wake", "sleepers.load("}, Order::acquire},
                    {"sleep", {kWaiter, "::sleep_until_step", "sleepers.fetch_add("}, Order::acq_rel},
                    {"count", {kWaiter, "::sleep_until_step", "wakeup.count.load("}, Order::relaxed}},
                   [](World& world, const Orders& orders) {
                       struct Shared {
                           Plain staged;
                           Atomic word;
                           Atomic count;
                           Atomic sleepers;
                       };
                       auto shared = std::make_shared<Shared>();
                       world.thread([=] {
                           shared->staged.write(1);
                           shared->word.store(1, orders.at("step"));
                           shared->count.fetch_add(1, orders.at("count up"));
                           if (shared->sleepers.load(orders.at("sleepers")) != 0)
                               futex_wake_all(shared->count);
                       });
                       world.thread([=] {
                           while (shared->word.load(orders.at("met")) == 0) {
                               shared->sleepers.fetch_add(1, orders.at("sleep"));
                               const std::uint64_t count = shared->count.load(orders.at("count"));
                               if (shared->word.load(orders.at("met")) == 0) futex_wait(shared->count, count);
                               shared->sleepers.fetch_sub(1);
                           }
                           shared->staged.read();
                       });
                   });
}

// The bell of a rank, and what it may be rung for.
struct Bell {
    Atomic count;
    Atomic sleepers;

    // ring_bell()
    void ring(Order seen) {
        if (sleepers.load(seen) == 0) return;
        count.fetch_add(1);
        futex_wake_all(count);
    }
    // A thread rests, as in Messenger::rest(), until `looks` finds something.
    template <class Looks>
    void rest_until(Order sleep, Looks looks) {
        for (bool found = false; !found;) {
            sleepers.fetch_add(1, sleep);
            const std::uint64_t seen = count.load();
            found = looks();
            if (!found) futex_wait(count, seen);
            sleepers.fetch_sub(1);
        }
    }
};

const std::vector<Step> kBell{
    {"sleepers", {kLine, "void ring_bell", "sleepers.load("}, Order::acquire},
    {"sleep", {kSleepers, "MessageSleepers::count_in", "sleepers.fetch_add("}, Order::acq_rel}};

std::vector<Step> with_bell(std::vector<Step> steps) {
    steps.insert(steps.end(), kBell.begin(), kBell.end());
    return steps;
}

TEST_CASE("Messenger::rest() sleeps through no frame", "[protocol]") {
    // The thread that rests for started operations counts itself elsewhere, and looks as the others do.
    const bool helper = GENERATE(false, true);
    std::vector<Step> steps =
        with_bell({{"stamp", {kLine, "bool ShmMessageLine::put", "stamp.store("}, Order::release},
                   {"ready", {kLine, "bool ShmMessageLine::is_ready", "stamp.load("}, Order::acquire}});
    if (helper) steps.back().place = {kSleepers, "case HelperAction::count:", "sleepers.fetch_add("};
    check_protocol(steps, [](World& world, const Orders& orders) {
        struct Shared {
            Bell bell;
            Atomic stamp;
            Plain cell;
        };
        auto shared = std::make_shared<Shared>();
        world.thread([=] {
            shared->cell.write(1);
            shared->stamp.store(1, orders.at("stamp"));
            shared->bell.ring(orders.at("sleepers"));
        });
        world.thread([=] {
            shared->bell.rest_until(orders.at("sleep"),
                                    [&] { return shared->stamp.load(orders.at("ready")) == 1; });
            shared->cell.read();
        });
    });
}

// A sender rests until there is room for bytes. Before it looks at them it looks at the cells, if
// looks_at_cells.
void room_for_bytes(World& world, const Orders& orders, bool looks_at_cells) {
    struct Shared {
        Bell bell;
        Atomic bytes;
        Atomic cells;
        Plain ring;
    };
    auto shared = std::make_shared<Shared>();
    world.thread([=] {
        shared->ring.read();
        shared->bytes.store(1, orders.at("bytes"));
        shared->cells.store(1, orders.at("cells"));
        shared->bell.ring(orders.at("sleepers"));
    });
    world.thread([=] {
        shared->bell.rest_until(orders.at("sleep"), [&] {
            if (looks_at_cells) shared->cells.load(orders.at("free cells"));
            return shared->bytes.load(orders.at("free bytes")) == 1;
        });
        shared->ring.write(1);
    });
}

TEST_CASE("Messenger::rest() sleeps through no room in a ring of bytes", "[protocol]") {
    const Place bytes{kLine, "void ShmMessageLine::release", "in_.bytes.store("};
    const Place free_bytes{kLine, "if (end - free_bytes_ > size)", "out_.bytes.load("};
    const std::vector<Step> steps = with_bell(
        {{"cells", {kLine, "void ShmMessageLine::release", "in_.cells.store("}, Order::release},
         {"free cells", {kLine, "if (end - free_bytes_ > size)", "out_.cells.load("}, Order::relaxed}});
    const auto complete = [=](Orders orders) {
        orders["bytes"] = source_order(bytes);
        orders["free bytes"] = source_order(free_bytes);
        return orders;
    };
    check_protocol(
        steps, [=](World& world, const Orders& orders) { room_for_bytes(world, complete(orders), true); });
    Orders orders;
    for (const Step& step : steps) orders[step.name] = source_order(step.place);
    CHECK(explore([&](World& world) { room_for_bytes(world, complete(orders), false); }).fault != "");
}

TEST_CASE("Messenger::rest() sleeps through no news and no offer that is taken", "[protocol]") {
    const bool news = GENERATE(false, true);
    const Place rung = news ? Place{kExchangeHeader, "void hear_news()", "news_.fetch_add("}
                            : Place{kFlow, "if (whole) {", "taken.fetch_add("};
    const Place looked = news ? Place{kExchangeHeader, "bool has_news()", "news_.load("}
                              : Place{kFlow, "::is_ready()", "taken.load("};
    check_protocol(with_bell({{"rung", rung, Order::release}, {"looked", looked, Order::acquire}}),
                   [](World& world, const Orders& orders) {
                       struct Shared {
                           Bell bell;
                           Atomic news;
                       };
                       auto shared = std::make_shared<Shared>();
                       world.thread([=] {
                           shared->news.fetch_add(1, orders.at("rung"));
                           shared->bell.ring(orders.at("sleepers"));
                       });
                       world.thread([=] {
                           shared->bell.rest_until(orders.at("sleep"), [&] {
                               return shared->news.load(orders.at("looked")) == 1;
                           });
                       });
                   });
}

TEST_CASE("Messenger is not taken away under a thread that is inside", "[protocol]") {
    check_protocol({{"enter", {kMessengerHeader, "explicit Inside", "inside_.fetch_add("}, Order::acq_rel},
                    {"closed", {kMessengerHeader, "bool closed()", "closed_.load("}, Order::acquire},
                    {"leave", {kMessengerHeader, "~Inside()", "inside_.fetch_sub("}, Order::relaxed},
                    {"close", {kMessenger, "void Messenger::close", "closed_.store("}, Order::release},
                    {"inside", {kMessenger, "void Messenger::close", "inside_.load("}, Order::acquire}},
                   [](World& world, const Orders& orders) {
                       struct Shared {
                           Atomic inside;
                           Atomic closed;
                           Plain messenger;
                       };
                       auto shared = std::make_shared<Shared>();
                       world.thread([=] {
                           shared->inside.fetch_add(1, orders.at("enter"));
                           if (shared->closed.load(orders.at("closed")) == 0) shared->messenger.read();
                           shared->inside.fetch_sub(1, orders.at("leave"));
                       });
                       world.thread([=] {
                           shared->closed.store(1, orders.at("close"));
                           shared->inside.await(orders.at("inside"),
                                                [](std::uint64_t count) { return count == 0; });
                           shared->messenger.write(1);
                       });
                   });
}

// A store that the woken thread is to see, then `wake`, which counts up or takes the sleeper's bit away;
// and its counterpart before the sleep.
struct Alarm {
    Atomic reason;
    Atomic word;
    Plain record;
};

TEST_CASE("ShmLifeline's last_record is whole where its size is seen", "[protocol]") {
    check_protocol(
        {{"size", {kLifeline, "void ShmLifeline::ended", "last_record_size.store("}, Order::relaxed},
         {"read", {kLifeline, "::last_record_of(int place)", "last_record_size.load("}, Order::relaxed}},
        [](World& world, const Orders& orders) {
            auto alarm = std::make_shared<Alarm>();
            world.thread([=] {
                alarm->record.write(1);
                alarm->word.store(4, orders.at("size"));
            });
            world.thread([=] {
                if (alarm->word.load(orders.at("read")) == 4) alarm->record.read();
            });
        });
}

TEST_CASE("LifeTable's list of lost lives is whole as far as it is counted", "[protocol]") {
    check_protocol(
        {{"count", {kLifeTable, "bool LifeTable::announce", "lost_count.store("}, Order::relaxed},
         {"counted", {kLifeTable, "LifeTable::lost_count() const", "lost_count.load("}, Order::relaxed}},
        [](World& world, const Orders& orders) {
            auto alarm = std::make_shared<Alarm>();
            world.thread([=] {
                alarm->reason.store(7, Order::relaxed);
                alarm->word.store(1, orders.at("count"));
            });
            world.thread([=, &world] {
                if (alarm->word.load(orders.at("counted")) == 0) return;
                world.require(alarm->reason.load(Order::relaxed) == 7, "an entry that is not there yet");
            });
        });
}

TEST_CASE("no worker sleeps through an entry of LifeTable's list", "[protocol]") {
    check_protocol(
        {{"wake", {kLifeTable, "void LifeTable::wake(int slot)", "wakeups.fetch_add("}, Order::relaxed},
         {"rung", {kLifeTable, "LifeTable::wakeups(int slot) const", "wakeups.load("}, Order::relaxed}},
        [](World& world, const Orders& orders) {
            auto alarm = std::make_shared<Alarm>();
            world.thread([=] {
                alarm->reason.store(1, Order::relaxed);
                alarm->word.fetch_add(1, orders.at("wake"));
                futex_wake_all(alarm->word);
            });
            world.thread([=] {
                while (true) {
                    const std::uint64_t rung = alarm->word.load(orders.at("rung"));
                    if (alarm->reason.load(Order::relaxed) != 0) return;
                    futex_wait(alarm->word, rung);
                }
            });
        });
}

TEST_CASE("the bit of waiters lets neither ShmLifeline nor LifeTable's watcher sleep through a reason",
          "[protocol]") {
    const bool table = GENERATE(false, true);
    const Place wake = table ? Place{kLifeTable, "void LifeTable::wake_watcher", "word.fetch_and("}
                             : Place{kLifeline, "void ShmLifeline::wake_sleeper", "word.fetch_and("};
    const Place sleep = table ? Place{kLifeTable, "void LifeTable::wait_for_death", "word.fetch_or("}
                              : Place{kLifeline, "void ShmLifeline::sleep_on", "word.fetch_or("};
    check_protocol({{"wake", wake, Order::relaxed}, {"sleep", sleep, Order::relaxed}},
                   [](World& world, const Orders& orders) {
                       auto alarm = std::make_shared<Alarm>();
                       world.thread([=] {
                           alarm->reason.store(1, Order::relaxed);
                           alarm->word.fetch_and(~kWaiters, orders.at("wake"));
                           futex_wake_all(alarm->word);
                       });
                       world.thread([=] {
                           const std::uint64_t value =
                               alarm->word.fetch_or(kWaiters, orders.at("sleep")) | kWaiters;
                           if (alarm->reason.load(Order::relaxed) == 0) futex_wait(alarm->word, value);
                       });
                   });
}

// A slot of LifeTable, of whose holders the odd ones die and the even ones leave. A death is taken as the
// source does it, or by a look at the life before the word changes.
struct Slot {
    static constexpr std::uint64_t kDied = 2, kHeld = 4, kTaking = 8;
    Atomic word{kDied};
    Atomic life{1};

    void claim(std::uint64_t of) {
        std::uint64_t value = word.load();
        do {
            while (value == kTaking) {
                futex_wait(word, value);
                value = word.load();
            }
        } while (!word.compare_exchange_strong(value, kHeld));
        life.store(of);
    }
    void leave() {
        life.store(0);
        word.fetch_and(kWaiters);
    }
    // 0: there is no death.
    std::uint64_t take_death(bool holds) {
        std::uint64_t value = word.load();
        if (value != kDied) return 0;
        const std::uint64_t looked_at = life.load();
        while (!word.compare_exchange_strong(value, holds ? kTaking : 0)) {
            if (value != kDied) return 0;
        }
        if (!holds) return looked_at;
        const std::uint64_t ended = life.exchange(0);
        word.fetch_and(kWaiters);
        futex_wake_all(word);
        return ended;
    }
};

TEST_CASE("LifeTable reports none who has left, however often a slot is used while a death is taken",
          "[protocol]") {
    for (const char* statement :
         {"compare_exchange_weak(value, kTaking", "life.exchange(", "word.fetch_and("})
        source_order({kLifeTable, "LifeTable::take_death(", statement});
    const auto take = [](bool holds) {
        return explore([=](World& world) {
            auto slot = std::make_shared<Slot>();
            world.thread([=, &world] {
                const std::uint64_t life = slot->take_death(holds);
                world.require(life == 0 || life % 2 == 1, "one who has left");
            });
            world.thread([=] {
                slot->claim(2);
                slot->leave();
                slot->claim(3);
                slot->word.store(Slot::kDied);
            });
        });
    };
    CHECK(take(true).fault == "");
    CHECK(take(false).fault != "");
}

TEST_CASE("of two that sleep on one word with a bit of waiters one may sleep through a reason",
          "[protocol]") {
    // So each of ShmLifeline's words has one sleeper only.
    const auto sleepers = [](int count) {
        return explore([=](World& world) {
            auto alarm = std::make_shared<Alarm>();
            world.thread([=] {
                alarm->reason.store(1);
                alarm->word.fetch_and(~kWaiters);
                futex_wake_all(alarm->word);
            });
            for (int i = 0; i < count; ++i) {
                world.thread([=] {
                    const std::uint64_t value = alarm->word.fetch_or(kWaiters) | kWaiters;
                    if (alarm->reason.load() == 0) futex_wait(alarm->word, value);
                });
            }
        });
    };
    CHECK(sleepers(1).fault == "");
    CHECK(sleepers(2).fault != "");
}

TEST_CASE("ShmLifeline's thread ends though it goes on to another word meanwhile", "[protocol]") {
    // It looks at stopping_ twice; the first look only saves the system call.
    check_protocol(
        {{"stop", {kLifeline, "ShmLifeline::~ShmLifeline()", "stopping_.store("}, Order::release},
         {"which", {kLifeline, "ShmLifeline::~ShmLifeline()", "watched_.load("}, Order::acquire},
         {"watch", {kLifeline, "void ShmLifeline::watch", "watched_.store("}, Order::release},
         {"stopping", {kLifeline, "void ShmLifeline::sleep_on", "stopping_.load("}, Order::acquire}},
        [](World& world, const Orders& orders) {
            struct Shared {
                Atomic stopping;
                Atomic watched;
                Atomic words[2];
            };
            auto shared = std::make_shared<Shared>();
            world.thread([=] {
                shared->stopping.store(1, orders.at("stop"));
                Atomic& word = shared->words[shared->watched.load(orders.at("which"))];
                word.fetch_and(~kWaiters);
                futex_wake_all(word);
            });
            world.thread([=] {
                shared->watched.store(1, orders.at("watch"));
                Atomic& word = shared->words[1];
                const std::uint64_t value = word.fetch_or(kWaiters) | kWaiters;
                if (shared->stopping.load(orders.at("stopping")) == 0) futex_wait(word, value);
            });
        });
}

}  // namespace
}  // namespace memory_order_test
}  // namespace ddprun
