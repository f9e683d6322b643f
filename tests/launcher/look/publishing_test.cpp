// What the collectives publish, read while they do so.
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "collectives/liveness/call_slot.hpp"
#include "launcher/look/call_reader.hpp"
#include "launcher/look/memory_reader.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

constexpr int kRanks = 64;

void pass_time(std::uint64_t rounds) {
    for (std::uint64_t i = 0; i < rounds; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
}

// OwnMemory reads this process's memory word by word and takes its time, so that much may change meanwhile.
class OwnMemory final : public MemoryReader {
  public:
    bool read(std::uintptr_t address, std::span<std::byte> into) const override {
        for (std::size_t at = 0; at < into.size(); at += sizeof(std::uint64_t)) {
            // NOLINTNEXTLINE(performance-no-int-to-ptr)
            const auto* word = reinterpret_cast<const std::atomic<std::uint64_t>*>(address + at);
            const std::uint64_t value = word->load(std::memory_order_acquire);
            std::memcpy(into.data() + at, &value, sizeof(value));
            if (into.size() == kCallLine) pass_time(100);
        }
        return true;
    }
};

Call call_number(std::uint64_t number) {
    Call call;
    call.operation = number % 2 == 0 ? Operation::barrier : Operation::all_reduce;
    call.sequence = number;
    return call;
}

std::vector<int> all_ranks_of_test() {
    std::vector<int> ranks;
    for (int rank = 0; rank < kRanks; ++rank) ranks.push_back(rank);
    return ranks;
}

// Returns for whom the call of that number waits at first, and then; others than the calls beside it.
std::vector<int> awaited_in(std::uint64_t number, int wait) {
    std::vector<int> ranks;
    const int first = static_cast<int>((number * 7 + static_cast<std::uint64_t>(wait) * 3) % (kRanks - 8));
    for (int i = 0; i < 1 + first % 8; ++i) ranks.push_back(first + i);
    return ranks;
}

bool is_whole(const PublishedCall& call) {
    if (call.operation != (call.number % 2 == 0 ? "barrier" : "all_reduce")) return false;
    if (!call.wait) return true;
    if (call.wait->since_ns != static_cast<std::int64_t>(call.number) || call.wait->is_main) return false;
    return call.wait->awaited == awaited_in(call.number, 0) ||
           call.wait->awaited == awaited_in(call.number, 1);
}

}  // namespace

TEST_CASE("publishing: a reader sees each call whole, while another thread makes them") {
    constexpr int kEnough = 20'000;
    CallSlot slot(0x1234, all_ranks_of_test());
    slot.begin(call_number(1));
    const auto mappings = read_mappings(::getpid());
    REQUIRE(mappings.has_value());
    REQUIRE(publishes_calls(*mappings));
    const OwnMemory memory;
    std::atomic<bool> is_enough{false};
    std::thread writer([&] {
        for (std::uint64_t number = 2; !is_enough; ++number) {
            slot.begin(call_number(number));
            const Deadline since{std::chrono::nanoseconds(number)};
            for (int wait = 0; wait < 2; ++wait) {
                slot.wait(since, awaited_in(number, wait));
                pass_time(number % 64 * 500);
            }
            if (number % 3 == 0) slot.end();
        }
    });
    int torn = 0, backward = 0, waits = 0;
    std::uint64_t position = 0;
    while (waits < kEnough && torn + backward == 0) {
        const auto call = read_published_call(memory, *mappings);
        if (!call || !is_whole(*call)) ++torn;
        if (!call) continue;
        if (call->wait) ++waits;
        if (call->position < position) ++backward;
        position = call->position;
    }
    is_enough = true;
    writer.join();
    CHECK(torn == 0);
    CHECK(backward == 0);
    slot.begin(call_number(7));
    slot.wait(Deadline(std::chrono::nanoseconds(7)), std::vector{3, 5});
    const auto call = read_published_call(memory, *mappings);
    REQUIRE(call);
    CHECK(call->group == "0000000000001234");
    CHECK(call->wait == PublishedWait{7, true, {3, 5}});
}

}  // namespace ddprun
