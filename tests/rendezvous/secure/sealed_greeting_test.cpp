#include "rendezvous/secure/sealed_connection.hpp"
#include "rendezvous/secure/sealed_records.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun;

namespace {

// An answer whose host counts the ephemeral keys that it is asked for, each of which costs curve operations.
struct CountedAnswer {
    SealedAnswer answer;
    int ephemerals = 0;
};

CountedAnswer answer_counted(const std::string& call, const std::optional<SecretKey>& key) {
    CountedAnswer counted;
    counted.answer = answer_sealed_call(call, key, [&counted] {
        ++counted.ephemerals;
        return SecretKey::fresh();
    });
    return counted;
}

}  // namespace

TEST_CASE("two with the same key speak, and each hears what the other has said", "[greeting]") {
    const SecretKey key = SecretKey::fresh();
    SealedCall call(SealedPurpose::agent, key, SecretKey::fresh());
    CHECK(call.bytes().size() == kSealedCallBytes);
    const auto host = answer_counted(call.bytes(), key);
    REQUIRE(host.answer.proof == Proof::given);
    CHECK(host.ephemerals == 1);
    const auto caller = call.learn(host.answer.bytes);
    REQUIRE(caller.proof == Proof::given);
    SealedRecords there(*caller.keys), here(*host.answer.keys);
    CHECK(here.open(there.seal("hello")).value() == "hello");
    CHECK(there.open(here.seal("welcome")).value() == "welcome");
}

TEST_CASE("who has no key, or another one, learns that and costs nothing of the curve", "[greeting]") {
    const SecretKey key = SecretKey::fresh();
    SealedCall call(SealedPurpose::agent, key, SecretKey::fresh());
    const auto other = answer_counted(call.bytes(), SecretKey::fresh());
    CHECK(other.answer.proof == Proof::other_key);
    CHECK(other.answer.bytes.size() == kSealedRefusalBytes);
    CHECK(other.ephemerals == 0);
    CHECK(call.learn(other.answer.bytes).proof == Proof::other_key);
    const auto none = answer_counted(call.bytes(), std::nullopt);
    CHECK(none.answer.proof == Proof::no_key);
    CHECK(call.learn(none.answer.bytes).proof == Proof::no_key);
}

TEST_CASE("a call for another purpose, or changed anywhere, is not answered as if it were this one",
          "[greeting]") {
    const SecretKey key = SecretKey::fresh();
    const SealedCall store(SealedPurpose::store, key, SecretKey::fresh());
    const auto served = answer_counted(store.bytes(), key).answer;
    CHECK(served.proof == Proof::given);
    CHECK(served.purpose == SealedPurpose::store);
    std::string unknown = store.bytes();
    unknown[kSealedMagic.size()] = 'z';
    CHECK(answer_counted(unknown, key).answer.proof == Proof::none);
    // Nor if somebody has changed the purpose on the way: it is part of what is proven.
    std::string changed = store.bytes();
    changed[kSealedMagic.size()] = 'a';
    CHECK(answer_counted(changed, key).answer.proof == Proof::other_key);
    const SealedCall agent(SealedPurpose::agent, key, SecretKey::fresh());
    for (std::size_t i = 0; i < agent.bytes().size(); ++i) {
        std::string flipped = agent.bytes();
        flipped[i] = static_cast<char>(flipped[i] ^ 1);
        const auto host = answer_counted(flipped, key);
        CHECK(host.answer.proof != Proof::given);
        CHECK(host.ephemerals == 0);
    }
}

TEST_CASE("an answer that is no whole one proves nothing", "[greeting]") {
    const SecretKey key = SecretKey::fresh();
    SealedCall call(SealedPurpose::agent, key, SecretKey::fresh());
    const std::string answer = answer_counted(call.bytes(), key).answer.bytes;
    for (std::size_t size = 0; size < answer.size(); ++size) {
        SealedCall again = call;
        CHECK(again.learn(answer.substr(0, size)).proof == Proof::none);
    }
    CHECK(call.learn(answer + "x").proof == Proof::none);
    CHECK(call.learn("HTTP/1.1 400 Bad Request").proof == Proof::none);
}
