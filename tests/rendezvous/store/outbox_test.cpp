#include "rendezvous/store/outbox.hpp"

#include <random>

#include "rendezvous/store/wire.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/outbox_bytes.hpp"

using namespace ddprun;

namespace {

std::shared_ptr<StoredValue> value_of(std::size_t size, char letter) {
    return std::make_shared<StoredValue>(std::string(size, letter));
}

}  // namespace

TEST_CASE("an outbox gives what was put in, in order, in whatever pieces it is taken", "[outbox]") {
    const unsigned seed = std::random_device{}();
    CAPTURE(seed);
    std::mt19937 random(seed);
    for (int round = 0; round < 200; ++round) {
        Outbox outbox;
        std::string expected;
        std::string taken;
        for (int step = 0; step < 60; ++step) {
            const auto value = value_of(random() % 3 == 0 ? random() % 20'000 : random() % 10,
                                        static_cast<char>('a' + random() % 26));
            switch (random() % 3) {
                case 0:
                    outbox.text() += value->text;
                    expected += value->text;
                    break;
                case 1:
                    outbox.put_value(value);
                    put_string(expected, value->text);
                    break;
                default: {
                    std::array<iovec, 3> pieces;
                    const std::size_t most = 1 + random() % 30'000;
                    const std::size_t count = outbox.gather(pieces, most);
                    std::string got;
                    for (std::size_t i = 0; i < count; ++i)
                        got.append(static_cast<const char*>(pieces[i].iov_base), pieces[i].iov_len);
                    REQUIRE(got.size() <= most);
                    got.resize(random() % (got.size() + 1));
                    outbox.consume(got.size());
                    taken += got;
                }
            }
            REQUIRE(outbox.pending() == expected.size() - taken.size());
        }
        taken += take_all(outbox, 1 + random() % 5'000);
        REQUIRE(taken == expected);
    }
}

TEST_CASE("a long value costs an outbox no copy, and is let go when it was sent", "[outbox]") {
    const auto value = value_of(std::size_t{1} << 20, 'v');
    Outbox outbox;
    for (int i = 0; i < 100; ++i) outbox.put_value(value);
    CHECK(outbox.pending() == 100 * (8 + value->text.size()));
    CHECK(outbox.capacity() < 100'000);
    CHECK(value.use_count() == 101);
    outbox.consume(50 * (8 + value->text.size()));
    CHECK(value.use_count() == 51);
    outbox.clear();
    CHECK(value.use_count() == 1);
    CHECK(outbox.pending() == 0);
}

TEST_CASE("what is taken slowly while more comes does not grow without bound", "[outbox]") {
    Outbox outbox;
    for (int i = 0; i < 10'000; ++i) {
        outbox.text().append(1'000, 't');
        if (i >= 100) outbox.consume(1'000);
    }
    CHECK(outbox.pending() == 100'000);
    CHECK(outbox.capacity() < 1'000'000);
}

TEST_CASE("a value that the store has dropped counts until the last reply with it is gone", "[outbox]") {
    const auto orphans = std::make_shared<std::size_t>(0);
    auto value = value_of(10'000, 'v');
    Outbox one;
    Outbox two;
    one.put_value(value);
    two.put_value(value);
    value->orphan(orphans);
    value.reset();
    CHECK(*orphans == 10'000);
    one.clear();
    CHECK(*orphans == 10'000);
    CHECK(take_all(two).size() == 10'008);
    CHECK(*orphans == 0);
}
