// The matcher beside two lists in the order of what came, with more tags than it remembers.
#include "collectives/messages/message_matcher.hpp"

#include <algorithm>
#include <deque>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "tests/support/catch.hpp"

using namespace ddprun;

namespace {

class Receive {
  public:
    Receive(int peer, std::uint64_t tag, std::uint64_t number) : peer_(peer), tag_(tag), number_(number) {}
    int peer() const { return peer_; }
    std::uint64_t tag() const { return tag_; }
    std::uint64_t number() const { return number_; }
    bool takes(int source, std::uint64_t tag) const {
        return tag == tag_ && (peer_ == kAnyRank || peer_ == source);
    }

  private:
    int peer_;
    std::uint64_t tag_;
    std::uint64_t number_;
};

struct Arrived {
    int source;
    std::uint64_t tag;
    std::uint64_t bytes;
};

}  // namespace

TEST_CASE("a matcher finds what two plain lists find, with any number of tags", "[messages]") {
    const auto seed = std::random_device{}();
    for (const unsigned tags : {1U, 3U, 200U}) {
        CAPTURE(seed, tags);
        std::mt19937 random(seed);
        MessageMatcher<Receive> matcher;
        std::deque<Receive> made;
        std::vector<Receive*> posted;
        std::vector<Arrived> arrived;
        for (std::uint64_t i = 0; i < 20'000; ++i) {
            const int source = static_cast<int>(random() % 3);
            const std::uint64_t tag = random() % tags;
            const auto act = random() % 5;
            if (act < 2) {
                Receive& receive = made.emplace_back(random() % 4 == 0 ? kAnyRank : source, tag, i);
                const auto expected = std::find_if(arrived.begin(), arrived.end(), [&](const Arrived& one) {
                    return receive.takes(one.source, one.tag);
                });
                const std::optional<ArrivedMessage> found = matcher.post(receive);
                REQUIRE(found.has_value() == (expected != arrived.end()));
                if (!found) {
                    posted.push_back(&receive);
                    continue;
                }
                REQUIRE(found->bytes == expected->bytes);
                arrived.erase(expected);
            } else if (act < 4) {
                const auto expected = std::find_if(posted.begin(), posted.end(), [&](const Receive* one) {
                    return one->takes(source, tag);
                });
                Receive* const found = matcher.match(source, tag);
                REQUIRE(found == (expected == posted.end() ? nullptr : *expected));
                if (found != nullptr) {
                    posted.erase(expected);
                    continue;
                }
                arrived.push_back({source, tag, i});
                matcher.keep({.source = source, .tag = tag, .bytes = i});
            } else if (!posted.empty()) {
                const auto given_up = posted.begin() + static_cast<std::ptrdiff_t>(random() % posted.size());
                REQUIRE(matcher.withdraw(**given_up));
                REQUIRE_FALSE(matcher.withdraw(**given_up));
                posted.erase(given_up);
            }
            REQUIRE(matcher.kept() == arrived.size());
        }
    }
}
