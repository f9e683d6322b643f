// The store's limits, what its waits cost, and the store against a simple model.
#include <map>
#include <random>

#include "tests/rendezvous/store/store_state_fixture.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/raw_client.hpp"
#include "tests/support/store_bytes.hpp"

namespace ddprun {

TEST_CASE("store state: memory has a limit, whatever it is used for, and is given back") {
    const std::string kilobyte(1024, 'x');
    const std::vector<Request> hogs = {
        {.opcode = Opcode::set, .key = "k", .value = kilobyte},
        {.opcode = Opcode::append, .key = "k", .value = kilobyte},
        {.opcode = Opcode::queue_push, .key = "k", .value = kilobyte},
        {.opcode = Opcode::multi_set, .keys = {"k", "l"}, .values = {kilobyte, kilobyte}},
        {.opcode = Opcode::compare_set, .key = "k", .value = "", .desired = kilobyte},
        {.opcode = Opcode::wait, .keys = {kilobyte, kilobyte}},
        {.opcode = Opcode::watch_key, .key = kilobyte},
        {.opcode = Opcode::add, .key = kilobyte, .number = 1},
        {.opcode = Opcode::barrier, .key = kilobyte, .number = 2},
    };
    for (const Request& hog : hogs) {
        INFO("opcode " << static_cast<int>(hog.opcode));
        Bench small(1000);
        small.ask(1, hog);
        CHECK_FALSE(small.refusal.empty());
        CHECK(small.state.bytes() == 0);
        CHECK(small.state.key_count() == 0);

        Bench large(10'000);
        large.ask(1, hog);
        CHECK(large.refusal.empty());
        CHECK(large.state.bytes() > 1024);
        large.state.remove(1);
        large.state.clear();
        CHECK(large.state.bytes() == 0);
    }
    // Values that grow are counted, too; those that shrink give back.
    Bench bench(2000);
    bench.set("k", "small");
    bench.set("k", kilobyte);
    CHECK(bench.refusal.empty());
    bench.set("k", kilobyte + kilobyte);
    CHECK_FALSE(bench.refusal.empty());
    CHECK(bench.get("k") == wire_string(kilobyte));
    bench.set("k", "");
    bench.set("l", kilobyte);
    CHECK(bench.refusal.empty());
}

TEST_CASE("store state: a reply has a limit") {
    Bench bench;
    const std::string value(std::size_t{16} << 20, 'v');
    bench.set("k", value);
    std::vector<std::string_view> keys(kMaxReplyLength / value.size() + 1, "k");
    CHECK(bench.ask(1, {.opcode = Opcode::multi_get, .keys = keys}).empty());
    CHECK_FALSE(bench.refusal.empty());
    keys.resize(2);
    CHECK(bench.ask(1, {.opcode = Opcode::multi_get, .keys = keys}).size() == 2 * (8 + value.size()));
}

TEST_CASE("store state: many waits on one key cost their own number to forget") {
    // Quadratic work would be 10^10 steps here and end in the test's limit.
    Bench bench;
    const std::vector<std::string_view> keys(kMaxKeysPerCommand, "same");
    for (ConnectionId id : {1, 2}) CHECK(bench.wait(id, keys).empty());
    CHECK(bench.cancel(1) == kOne);
    bench.state.remove(2);
    CHECK(bench.state.bytes() == 0);
    CHECK(bench.wait(1, keys).empty());
    bench.set("same", "1");
    CHECK(bench.taken(1) == kZero);
}

TEST_CASE("store state: against a simple model, with random waits") {
    unsigned seed = std::random_device{}();
    CAPTURE(seed);
    std::mt19937 random(seed);
    Bench bench;
    std::map<std::string, bool> present;
    std::map<ConnectionId, std::map<std::string, int>> waiting;  // key -> ticks still due
    auto tick = [&](const std::string& key) {
        for (auto wait = waiting.begin(); wait != waiting.end();) {
            wait->second.erase(key);
            bool over = wait->second.empty();
            CHECK(bench.taken(wait->first) == (over ? kZero : ""));
            wait = over ? waiting.erase(wait) : std::next(wait);
        }
    };
    for (int step = 0; step < 5000; ++step) {
        std::string key(1, static_cast<char>('a' + random() % 8));
        ConnectionId id = 1 + random() % 5;
        switch (random() % 5) {
            case 0:
            case 1:
                bench.set(key, "v");
                present[key] = true;
                tick(key);
                break;
            case 2:
                CHECK(bench.ask(99, {.opcode = Opcode::delete_key, .key = key}) ==
                      wire_i64(present[key] ? 1 : 0));
                present[key] = false;
                break;
            case 3: {
                if (waiting.count(id) != 0) break;
                std::string other(1, static_cast<char>('a' + random() % 8));
                std::map<std::string, int> missing;
                for (const std::string& wanted : {key, other}) {
                    if (!present[wanted]) missing[wanted] = 1;
                }
                CHECK(bench.wait(id, {key, other}) == (missing.empty() ? kZero : ""));
                if (!missing.empty()) waiting[id] = missing;
                break;
            }
            default:
                CHECK(bench.cancel(id) == kOne);
                waiting.erase(id);
                break;
        }
    }
}

}  // namespace ddprun
