#include "rendezvous/secure/sealed_records.hpp"
#include "rendezvous/secure/noise_cipher.hpp"
#include "rendezvous/secure/noise_handshake.hpp"

#include <random>

#include "rendezvous/base/error.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun;

namespace {

struct SealedPair {
    SecretKey there = SecretKey::fresh();
    SecretKey back = SecretKey::fresh();
    SealedRecords caller{NoiseKeys{there, back}};
    SealedRecords host{NoiseKeys{back, there}};
};

std::string random_text(std::mt19937& random, std::size_t size) {
    std::string text(size, '\0');
    for (char& byte : text) byte = static_cast<char>(random());
    return text;
}

// With the bytes handed over in pieces of that size at most.
boost::system::result<std::string> opened_in_pieces(SealedRecords& records, std::string_view bytes,
                                                    std::size_t piece) {
    std::string plain;
    while (!bytes.empty()) {
        const auto part = records.open(bytes.substr(0, piece));
        if (!part) return part.error();
        plain += *part;
        bytes.remove_prefix(std::min(piece, bytes.size()));
    }
    return plain;
}

}  // namespace

TEST_CASE("records give back what was sealed, in whatever pieces they arrive", "[sealed]") {
    const unsigned seed = std::random_device{}();
    CAPTURE(seed);
    std::mt19937 random(seed);
    SealedPair pair;
    for (int i = 0; i < 100; ++i) {
        const std::string text = random_text(random, random() % (i % 10 == 0 ? 200'000 : 300));
        const std::size_t piece = 1 + random() % (i % 2 == 0 ? 40 : 70'000);
        const bool is_callers = random() % 2 == 0;
        const std::string sealed = (is_callers ? pair.caller : pair.host).seal(text);
        const auto plain = opened_in_pieces(is_callers ? pair.host : pair.caller, sealed, piece);
        REQUIRE(plain);
        CHECK(*plain == text);
    }
    CHECK(pair.caller.buffered() == 0);
    CHECK(pair.host.buffered() == 0);
}

TEST_CASE("a text that is too long for a record takes several, and none takes none", "[sealed]") {
    SealedPair pair;
    CHECK(pair.caller.seal({}).empty());
    const std::string one = pair.caller.seal(std::string(kMaxRecordText, 'a'));
    CHECK(one.size() == kRecordHeaderBytes + kMaxSealedRecord);
    const std::string two = pair.caller.seal(std::string(kMaxRecordText + 1, 'b'));
    CHECK(two.size() == one.size() + kRecordHeaderBytes + kNoiseTagBytes + 1);
    const auto plain = pair.host.open(one + two);
    REQUIRE(plain);
    CHECK(*plain == std::string(kMaxRecordText, 'a') + std::string(kMaxRecordText + 1, 'b'));
}

TEST_CASE("a bit that flips anywhere in a record ends the connection", "[sealed]") {
    SealedPair pair;
    const SealedRecords untouched = pair.host;
    const std::string sealed = pair.caller.seal("an order for the workers");
    for (std::size_t bit = 0; bit < sealed.size() * 8; ++bit) {
        INFO("bit " << bit);
        SealedRecords host = untouched;
        std::string changed = sealed;
        changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
        // A length that became larger waits for the rest of its record, which is another one's then.
        const auto plain = opened_in_pieces(host, changed + std::string(kMaxSealedRecord, 'x'), 4096);
        CHECK_FALSE(plain);
        CHECK_FALSE(host.open(sealed));
    }
}

TEST_CASE("records that are repeated, left out or exchanged are noticed", "[sealed]") {
    SealedPair pair;
    const std::string first = pair.caller.seal("first");
    const std::string second = pair.caller.seal("second");
    const SealedRecords untouched = pair.host;
    for (const std::string& stream : {first + first, second, second + first}) {
        SealedRecords host = untouched;
        CHECK_FALSE(host.open(stream));
    }
    // Said back to who has said it.
    CHECK_FALSE(pair.caller.open(first));
    CHECK(pair.host.open(first + second).value() == "firstsecond");
}

TEST_CASE("of a record that is cut nothing is given, and no more than that is kept", "[sealed]") {
    SealedPair pair;
    const std::string sealed = pair.caller.seal("a rather long order for the workers");
    const SealedRecords untouched = pair.host;
    for (std::size_t size = 0; size < sealed.size(); ++size) {
        SealedRecords host = untouched;
        CHECK(host.open(sealed.substr(0, size)).value().empty());
        CHECK(host.buffered() <= sealed.size());
    }
    SealedRecords host = untouched;
    CHECK_FALSE(host.open(std::string("\x0f\0", 2)));
}
