#include "rendezvous/worker/call_page.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

TEST_CASE("call page: a call is one word, which grows from call to call") {
    const CallWord calls[] = {{0, 1, 6, true},
                              {0, 2, 7, false},
                              {1, 0, 1, true},
                              {1, 0xffff, 16, true},
                              {2, 0, 31, false},
                              {41'201, 0, 1, true},
                              {(std::uint64_t{1} << 40) - 1, 3, 127, true}};
    std::uint64_t before = 0;
    for (const CallWord& call : calls) {
        CHECK(call_of(to_word(call)) == call);
        CHECK(to_word(call) > before);
        before = to_word(call);
    }
    // What has no room does not touch what is beside it.
    CHECK(call_of(to_word(CallWord{std::uint64_t{1} << 40, 0x1'0000, 0x80, false})) == CallWord{});
}

TEST_CASE("call page: a wait is one word, and any word is a wait") {
    for (const WaitWord wait : {WaitWord{false, 0}, WaitWord{true, 3}, WaitWord{false, 8}})
        CHECK(wait_of(to_word(wait)) == wait);
    CHECK(wait_of(~std::uint64_t{0}) == WaitWord{true, kCallAwaited});
}

TEST_CASE("call page: eight ranks lie in two words") {
    std::array<std::uint64_t, 2> words{};
    const int ranks[kCallAwaited] = {0, 1, kMostCallRank, 3, 40'000, 5, 6, 7};
    for (std::size_t i = 0; i < kCallAwaited; ++i) set_awaited_rank(words, i, ranks[i]);
    for (std::size_t i = 0; i < kCallAwaited; ++i) CHECK(awaited_rank(words, i) == ranks[i]);
}

TEST_CASE("call page: writer and reader see one layout") {
    CHECK(offsetof(CallPage, slots) == offsetof(CallPageCopy, slots));
    CHECK(offsetof(CallPage, names) == offsetof(CallPageCopy, names));
    CHECK(offsetof(CallSlotOf<std::atomic<std::uint64_t>>, awaited) == offsetof(CallSlotCopy, awaited));
    CHECK(sizeof(CallSlotCopy) == kCallLine);
}

}  // namespace
}  // namespace ddprun
