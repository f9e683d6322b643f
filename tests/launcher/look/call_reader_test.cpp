#include "launcher/look/call_reader.hpp"

#include <cstring>
#include <functional>
#include <random>
#include <string_view>

#include "rendezvous/worker/call_page.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

constexpr std::uintptr_t kAddress = 0x7f00'0000'1000;

std::vector<Mapping> mapped(std::uintptr_t address = kAddress) {
    return {{0x1000, 0x2000, 0, "r-xp", "/usr/bin/train"},
            {address, address + 4096, 0, "rw-s", "/memfd:ddprun-calls (deleted)"}};
}

// PageMemory has the page at kAddress, and another one behind it; before_read() may change them.
class PageMemory final : public MemoryReader {
  public:
    PageMemory() {
        page.magic = kCallPageMagic;
        page.version = kCallPageVersion;
        page.size = sizeof(CallPageCopy);
        name(1, "all_reduce");
        name(5, "barrier");
        name(6, "send");
    }
    void name(std::size_t place, std::string_view text) {
        std::copy(text.begin(), text.end(), page.names[place].begin());
    }
    // Returns the slot, in the open call of that number.
    CallSlotCopy& slot(std::size_t place, std::uint64_t number, std::uint32_t operation = 1) {
        CallSlotCopy& slot = page.slots[place];
        slot.group = 0xabc0 + place;
        slot.call = to_word(CallWord{number, 0, operation, true});
        return slot;
    }
    CallSlotCopy& waiting(std::size_t place, std::uint64_t number, bool is_main,
                          std::vector<int> ranks = {}) {
        CallSlotCopy& one = slot(place, number);
        one.waiting_call = one.call;
        one.since_ns = 1'000 + number;
        one.about = to_word(WaitWord{is_main, static_cast<std::uint32_t>(ranks.size())});
        for (std::size_t i = 0; i < ranks.size(); ++i) set_awaited_rank(one.awaited, i, ranks[i]);
        return one;
    }

    bool read(std::uintptr_t address, std::span<std::byte> into) const override {
        if (before_read) before_read(++reads_);
        std::array<std::byte, 4096> bytes{};
        std::memcpy(bytes.data(), &page, sizeof(page));
        if (address < kAddress || address - kAddress > bytes.size() - into.size()) return false;
        std::memcpy(into.data(), bytes.data() + (address - kAddress), into.size());
        return true;
    }

    CallPageCopy page{};
    std::function<void(int)> before_read;

  private:
    mutable int reads_ = 0;
};

}  // namespace

TEST_CASE("published call: operation, group, number and for whom it waits") {
    PageMemory memory;
    memory.waiting(0, 41'201, true, {3, 900, 0xffff});
    const auto call = read_published_call(memory, mapped());
    REQUIRE(call);
    CHECK(call->operation == "all_reduce");
    CHECK(call->group == "000000000000abc0");
    CHECK(call->number == 41'201);
    CHECK(call->position == std::uint64_t{41'201} << 16);
    CHECK(call->wait == PublishedWait{1'000 + 41'201, true, {3, 900, 0xffff}});
    CHECK(publishes_calls(mapped()));
}

TEST_CASE("published call: nothing where none was made, or there is no such page") {
    PageMemory memory;
    CHECK_FALSE(read_published_call(memory, mapped()));
    memory.slot(0, 1);
    CHECK(read_published_call(memory, mapped()));
    CHECK_FALSE(read_published_call(memory, {}));
    CHECK_FALSE(read_published_call(memory, mapped(kAddress + 4096)));
    auto other = mapped();
    other[1].path = "/memfd:ddprun-collectives (deleted)";
    CHECK_FALSE(publishes_calls(other));
    CHECK_FALSE(read_published_call(memory, other));
    auto cut = mapped();
    cut[1].end = cut[1].begin + sizeof(CallPageCopy) - 1;
    CHECK_FALSE(read_published_call(memory, cut));
    ++memory.page.version;
    CHECK_FALSE(read_published_call(memory, mapped()));
    memory.page = CallPageCopy{};
    CHECK_FALSE(read_published_call(memory, mapped()));
}

TEST_CASE("published call: the main thread's wait, else another one's, else the last call") {
    PageMemory memory;
    memory.slot(2, 7);
    memory.slot(4, 9);
    memory.page.latest = 2;
    CHECK(read_published_call(memory, mapped())->number == 7);
    memory.page.latest = 4;
    CHECK(read_published_call(memory, mapped())->number == 9);
    memory.page.latest = 1'000'000;
    CHECK(read_published_call(memory, mapped()));
    memory.page.latest = 4;
    memory.waiting(1, 3, false);
    CHECK(read_published_call(memory, mapped())->number == 3);
    memory.waiting(6, 5, false);
    CHECK(read_published_call(memory, mapped())->number == 5);  // it began later
    memory.waiting(3, 2, true);
    CHECK(read_published_call(memory, mapped())->number == 2);
}

TEST_CASE("published call: a wait belongs to the call in which it was, and ends with it") {
    PageMemory memory;
    CallSlotCopy& slot = memory.waiting(0, 4, true, {1});
    slot.call = to_word(CallWord{4, 0, 1, false});
    CHECK_FALSE(read_published_call(memory, mapped())->wait);
    slot.call = to_word(CallWord{5, 0, 5, true});
    const auto call = read_published_call(memory, mapped());
    CHECK(call->operation == "barrier");
    CHECK_FALSE(call->wait);
}

TEST_CASE("published call: numbers and names that are none") {
    PageMemory memory;
    CallSlotCopy& slot = memory.waiting(0, 4, true, {1});
    slot.about = ~std::uint64_t{0};
    CHECK(read_published_call(memory, mapped())->wait->awaited.size() == kCallAwaited);
    slot.since_ns = ~std::uint64_t{0};
    CHECK_FALSE(read_published_call(memory, mapped())->wait);
    memory.page.names[1].fill('a');
    CHECK(read_published_call(memory, mapped())->operation == std::string(kCallNameSize, 'a'));
    memory.page.names[1][3] = '\x1b';
    CHECK(read_published_call(memory, mapped())->operation.empty());
    slot.call = to_word(CallWord{4, 0, 127, true});
    CHECK(read_published_call(memory, mapped())->operation.empty());
}

TEST_CASE("published call: a slot is read again while it changes, and not for ever") {
    PageMemory memory;
    CallSlotCopy& slot = memory.waiting(0, 4, true, {1, 2});
    // A thread that is in the middle of telling, until the sixth read.
    memory.before_read = [&](int reads) {
        slot.turn = reads < 6 ? 1 : 2;
        slot.about = to_word(WaitWord{true, reads < 6 ? 1U : 2U});
    };
    CHECK(read_published_call(memory, mapped())->wait->awaited == std::vector<int>{1, 2});
    memory.before_read = [&](int reads) { slot.turn = static_cast<std::uint64_t>(reads) * 2; };
    const auto restless = read_published_call(memory, mapped());
    CHECK(restless->number == 4);
    CHECK_FALSE(restless->wait);
    memory.before_read = [&](int reads) {
        if (reads > 1) slot = CallSlotCopy{};
    };
    PageMemory ended;
    ended.waiting(0, 4, true);
    ended.before_read = [&](int reads) {
        if (reads > 1) ended.page.slots[0] = CallSlotCopy{};
    };
    CHECK_FALSE(read_published_call(ended, mapped()));
}

TEST_CASE("published call: any bytes give nothing, or what is within limits") {
    const auto seed = std::random_device()();
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    for (int round = 0; round < 2000; ++round) {
        PageMemory memory;
        const auto scramble = [&](int) {
            auto* const bytes = reinterpret_cast<unsigned char*>(&memory.page);
            for (int i = 0; i < 200; ++i)
                bytes[24 + random() % (sizeof(memory.page) - 24)] = static_cast<unsigned char>(random());
        };
        memory.before_read = scramble;
        const auto call = read_published_call(memory, mapped());
        if (!call) continue;
        CHECK(call->operation.size() <= kCallNameSize);
        CHECK(call->group.size() == 16);
        if (!call->wait) continue;
        CHECK(call->wait->since_ns >= 0);
        CHECK(call->wait->awaited.size() <= kCallAwaited);
    }
}

}  // namespace ddprun
