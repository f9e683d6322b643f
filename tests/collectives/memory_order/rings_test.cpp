// The protocols that hand memory to and fro, as their sources have them; each statement's order is read
// from there.
#include <array>
#include <memory>

#include "tests/collectives/memory_order/protocol.hpp"

namespace ddprun {
namespace memory_order_test {
namespace {

const Step kMet{"met", {kWaiterHeader, "bool met()", "word->load("}, Order::relaxed};

auto is(std::uint64_t wanted) {
    return [wanted](std::uint64_t value) { return value == wanted; };
}
auto reached(std::uint64_t wanted) {
    return [wanted](std::uint64_t value) { return value >= wanted; };
}

// ShmChannel::open(), announce() and await(), of `calls` calls. In each, rank 1 reads what rank 0 has
// announced; and rank 0 what rank 1 has, if all_read.
void announcements(World& world, const Orders& orders, bool all_read) {
    struct Shared {
        std::array<std::array<Atomic, 2>, 2> stamp;
        std::array<std::array<Plain, 2>, 2> payload;
    };
    auto shared = std::make_shared<Shared>();
    for (std::size_t rank = 0; rank < 2; ++rank) {
        world.thread([=, &world] {
            const std::size_t peer = 1 - rank;
            for (std::uint64_t call = 1; call <= 3; ++call) {
                if (call > 1) shared->stamp[peer][(call - 1) % 2].await(orders.at("met"), is(call - 1));
                shared->payload[rank][call % 2].write(call);
                shared->stamp[rank][call % 2].store(call, orders.at("stamp"));
                if (rank == 0 && !all_read) continue;
                shared->stamp[peer][call % 2].await(orders.at("met"), is(call));
                world.require(shared->payload[peer][call % 2].read() == call, "the payload of another call");
            }
        });
    }
}

TEST_CASE(
    "ShmChannel's announcements are whole when they are seen, and their banks free when they are used again",
    "[protocol]") {
    const bool all_read = GENERATE(false, true);
    check_protocol({kMet, {"stamp", {kChannel, "::announce_and_hold", ".stamp.store("}, Order::relaxed}},
                   [=](World& world, const Orders& orders) { announcements(world, orders, all_read); });
}

TEST_CASE("ShmChannel's stages are whole when they are read, and released before they are written again",
          "[protocol]") {
    constexpr std::uint64_t kStages = 3;
    const bool reduces = GENERATE(false, true);
    std::vector<Step> steps{kMet, {"step", {kChannelHeader, "void step(", "word.store("}, Order::relaxed}};
    if (reduces)
        steps.push_back(
            {"both", {kChannelHeader, "void set_reduced_and_released", "released.store("}, Order::relaxed});
    check_protocol(steps, [=](World& world, const Orders& orders) {
        struct Shared {
            std::array<Plain, kStages> stage;
            Atomic staged;
            Atomic released;
            Atomic reduced;
        };
        auto shared = std::make_shared<Shared>();
        world.thread([=] {
            for (std::uint64_t round = 0; round < kStages + 1; ++round) {
                if (round >= kStages) shared->released.await(orders.at("met"), reached(round - kStages + 1));
                shared->stage[round % kStages].write(round);
                shared->staged.store(round + 1, orders.at("step"));
            }
        });
        world.thread([=, &world] {
            for (std::uint64_t round = 0; round < kStages + 1; ++round) {
                shared->staged.await(orders.at("met"), reached(round + 1));
                world.require(shared->stage[round % kStages].read() == round, "the stage of another round");
                shared->released.store(round + 1, orders.at(reduces ? "both" : "step"));
                if (reduces) shared->reduced.store(round + 1, orders.at("step"));
            }
        });
    });
}

TEST_CASE("ShmChannel's meeting is complete with all announcements, and with the place of the last",
          "[protocol]") {
    const std::vector<Step> steps{
        kMet, {"complete", {kChannel, "void ShmChannel::release", "complete.store("}, Order::relaxed}};
    const Order stamp = source_order({kChannel, "::announce_and_hold", ".stamp.store("});
    const Order announced = source_order({kChannel, "::announce_and_hold", "announced.fetch_add("});
    const Order last = source_order({kChannel, "void ShmChannel::release", "last.store("});
    check_protocol(steps, [=](World& world, const Orders& orders) {
        struct Shared {
            std::array<Atomic, 3> stamp;
            std::array<Plain, 3> place;
            Atomic announced;
            Atomic complete;
            Atomic last{9};
        };
        auto shared = std::make_shared<Shared>();
        for (std::size_t rank = 0; rank < 3; ++rank) {
            world.thread([=, &world] {
                shared->place[rank].write(1);
                shared->stamp[rank].store(1, stamp);
                if (shared->announced.fetch_add(1, announced) + 1 == 3) {
                    std::uint64_t sum = 0;
                    for (std::size_t peer = 0; peer < 3; ++peer) {
                        shared->stamp[peer].await(orders.at("met"), is(1));
                        sum += shared->place[peer].read();
                    }
                    shared->place[rank].write(sum);
                    shared->last.store(rank, last);
                    shared->complete.store(1, orders.at("complete"));
                    return;
                }
                shared->complete.await(orders.at("met"), reached(1));
                const std::uint64_t place = shared->last.load(last);
                world.require(place < 3, "nobody is the last");
                world.require(shared->place[place].read() == 3, "the result is not whole");
            });
        }
    });
}

// ShmMessageLine::put(), take() and release(): `frames` frames through so many cells, each with bytes of
// its own in a ring that has room for those of one, or in its cell.
void message_ring(World& world, const Orders& orders, std::uint64_t frames, std::uint64_t cells, bool bytes) {
    struct Shared {
        std::array<Atomic, 2> stamp;
        std::array<Plain, 2> cell;
        Plain ring;
        Atomic cells;
        Atomic bytes;
    };
    auto shared = std::make_shared<Shared>();
    world.thread([=] {
        for (std::uint64_t number = 0; number < frames; ++number) {
            if (number >= cells)
                shared->cells.await(orders.at(bytes ? "room" : "cells"), reached(number - cells + 1));
            if (bytes && number > 0) {
                shared->cells.load(orders.at("room"));
                shared->bytes.await(orders.at("bytes"), reached(number));
            }
            (bytes ? shared->ring : shared->cell[number % cells]).write(number);
            shared->stamp[number % cells].store(number / cells + 1, orders.at("stamp"));
        }
    });
    world.thread([=, &world] {
        for (std::uint64_t number = 0; number < frames; ++number) {
            shared->stamp[number % cells].await(orders.at("take"), is(number / cells + 1));
            const std::uint64_t read = (bytes ? shared->ring : shared->cell[number % cells]).read();
            world.require(read == number, "another frame's bytes");
            if (bytes) shared->bytes.store(number + 1, orders.at("free bytes"));
            shared->cells.store(number + 1, orders.at(bytes ? "free" : "free cells"));
        }
    });
}

TEST_CASE("ShmMessageLine's cells and bytes are whole when they are taken, and free when they are put again",
          "[protocol]") {
    const std::vector<Step> both{
        {"stamp", {kLine, "bool ShmMessageLine::put", "stamp.store("}, Order::relaxed},
        {"take", {kLine, "bool ShmMessageLine::take", "stamp.load("}, Order::relaxed}};
    std::vector<Step> cells = both;
    cells.push_back({"cells", {kLine, "bool ShmMessageLine::put", "out_.cells.load("}, Order::relaxed});
    cells.push_back(
        {"free cells", {kLine, "void ShmMessageLine::release", "in_.cells.store("}, Order::relaxed});
    check_protocol(cells,
                   [](World& world, const Orders& orders) { message_ring(world, orders, 3, 1, false); });
    const Order room = source_order({kLine, "if (end - free_bytes_ > size)", "out_.cells.load("});
    const Order free = source_order({kLine, "void ShmMessageLine::release", "in_.cells.store("});
    std::vector<Step> bytes = both;
    bytes.push_back({"bytes", {kLine, "bool ShmMessageLine::put", "out_.bytes.load("}, Order::relaxed});
    bytes.push_back(
        {"free bytes", {kLine, "void ShmMessageLine::release", "in_.bytes.store("}, Order::relaxed});
    check_protocol(bytes, [=](World& world, Orders orders) {
        orders["room"] = room;
        orders["free"] = free;
        message_ring(world, orders, 2, 2, true);
    });
}

TEST_CASE("a message's memory is its sender's again when its offer is taken or retracted", "[protocol]") {
    enum : std::uint64_t { offered, claimed, taken, retracted };
    const Order claim = source_order({kFlow, "MessageFlow::accept", "compare_exchange_strong("});
    check_protocol({{"take", {kFlow, "MessageFlow::pull", "compare_exchange_strong("}, Order::relaxed},
                    {"retract", {kFlow, "MessageFlow::withdraw_send", ".exchange("}, Order::relaxed}},
                   [=](World& world, const Orders& orders) {
                       struct Shared {
                           Atomic word{offered};
                           Plain message;
                       };
                       auto shared = std::make_shared<Shared>();
                       world.thread([=] {
                           std::uint64_t expected = offered;
                           if (!shared->word.compare_exchange_strong(expected, claimed, claim)) return;
                           shared->message.read();
                           expected = claimed;
                           shared->word.compare_exchange_strong(expected, taken, orders.at("take"));
                       });
                       // What was copied while it was retracted is not used.
                       world.thread([=] {
                           const std::uint64_t before =
                               shared->word.exchange(retracted, orders.at("retract"));
                           if (before != claimed) shared->message.write(1);
                       });
                   });
}

}  // namespace
}  // namespace memory_order_test
}  // namespace ddprun
