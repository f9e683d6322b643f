#include "rendezvous/store/wait_table.hpp"

#include <map>
#include <random>

#include "rendezvous/store/wire.hpp"
#include "rendezvous/text/number_text.hpp"
#include "tests/rendezvous/store/store_state_fixture.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/raw_client.hpp"
#include "tests/support/store_bytes.hpp"

namespace ddprun {

TEST_CASE("store state: set, get, missing and empty values") {
    Bench bench;
    CHECK(bench.get("a") == wire_string(""));
    bench.set("a", "1");
    CHECK(bench.get("a") == wire_string("1"));
    bench.set("a", std::string_view("x\0y", 3));
    CHECK(bench.get("a") == wire_string(std::string_view("x\0y", 3)));
    bench.set("a", "");
    CHECK(bench.get("a") == wire_string(""));
    CHECK(bench.state.key_count() == 1);
    CHECK(bench.ask(1, {.opcode = Opcode::check, .keys = {"a"}}) == kZero);
}

TEST_CASE("store state: add keeps decimal text and reads what PyTorch's server reads") {
    Bench bench;
    CHECK(bench.add("n", 5) == wire_i64(5));
    CHECK(bench.add("n", -7) == wire_i64(-2));
    CHECK(bench.get("n") == wire_string("-2"));
    CHECK(bench.add("fresh", 0) == wire_i64(0));
    CHECK(bench.get("fresh") == wire_string("0"));
    bench.set("text", " 12abc");
    CHECK(bench.add("text", 1) == wire_i64(13));
    CHECK(bench.get("text") == wire_string("13"));
    bench.set("most", "9223372036854775807");
    CHECK(bench.add("most", 1) == wire_i64(INT64_MIN));
    CHECK(bench.get("most") == wire_string("-9223372036854775808"));
    for (const char* bad : {"", "abc", " ", "-", "99999999999999999999"}) {
        INFO("value '" << bad << "'");
        bench.set("bad", bad);
        CHECK(bench.add("bad", 1).empty());
        CHECK_FALSE(bench.refusal.empty());
        CHECK(bench.get("bad") == wire_string(bad));
    }
}

TEST_CASE("store state: numbers as text") {
    CHECK(parse_number("12") == 12);
    CHECK(parse_number("\t-12x") == -12);
    CHECK(parse_number("+3") == 3);
    CHECK_FALSE(parse_number("+-3"));
    CHECK_FALSE(parse_number("x1"));
    CHECK(wrapping_sum(INT64_MAX, 1) == INT64_MIN);
}

TEST_CASE("store state: compare_set in all its cases") {
    struct Row {
        const char *name, *held, *expected, *desired, *reply, *after;  // null: the key is missing
    };
    const Row rows[] = {
        {"missing, nothing expected: stored", nullptr, "", "new", "new", "new"},
        {"missing, something expected: not stored", nullptr, "old", "new", "old", nullptr},
        {"equal: stored", "old", "old", "new", "new", "new"},
        {"different: kept", "other", "old", "new", "other", "other"},
        {"empty value equals nothing expected", "", "", "new", "new", "new"},
        {"nothing expected but something held", "other", "", "new", "other", "other"},
    };
    for (const Row& row : rows) {
        INFO(row.name);
        Bench bench;
        if (row.held != nullptr) bench.set("k", row.held);
        Request request{
            .opcode = Opcode::compare_set, .key = "k", .value = row.expected, .desired = row.desired};
        CHECK(bench.ask(1, request) == wire_string(row.reply));
        CHECK(bench.state.key_count() == (row.after == nullptr ? 0 : 1));
        if (row.after != nullptr) CHECK(bench.get("k") == wire_string(row.after));
    }
}

TEST_CASE("store state: compare_set wakes only when it stores") {
    Bench bench;
    CHECK(bench.wait(1, {"k"}).empty());
    bench.ask(2, {.opcode = Opcode::compare_set, .key = "k", .value = "x", .desired = "y"});
    CHECK(bench.taken(1).empty());
    bench.ask(2, {.opcode = Opcode::compare_set, .key = "k", .value = "", .desired = "y"});
    CHECK(bench.taken(1) == kZero);
}

TEST_CASE("store state: check looks at all keys, and at queues") {
    Bench bench;
    bench.set("a", "1");
    bench.push("q", "item");
    auto check = [&](std::vector<std::string_view> keys) {
        return bench.ask(1, {.opcode = Opcode::check, .keys = std::move(keys)});
    };
    CHECK(check({}) == kZero);
    CHECK(check({"a"}) == kZero);
    CHECK(check({"a", "q"}) == kZero);
    CHECK(check({"a", "b"}) == kOne);
    CHECK(check({"b"}) == kOne);
    bench.pop("q");
    CHECK(check({"q"}) == kOne);
}

TEST_CASE("store state: delete, count and list keys") {
    Bench bench;
    bench.set("a", "1");
    bench.set("b", "2");
    bench.push("q", "not a key");
    CHECK(bench.ask(1, {.opcode = Opcode::num_keys}) == wire_i64(2));
    CHECK(bench.ask(1, {.opcode = Opcode::delete_key, .key = "a"}) == wire_i64(1));
    CHECK(bench.ask(1, {.opcode = Opcode::delete_key, .key = "a"}) == wire_i64(0));
    CHECK(bench.ask(1, {.opcode = Opcode::delete_key, .key = "q"}) == wire_i64(0));
    CHECK(bench.ask(1, {.opcode = Opcode::list_keys}) == wire_i64(1) + wire_string("b"));
    CHECK(bench.ask(1, {.opcode = Opcode::queue_len, .key = "q"}) == wire_i64(1));
}

TEST_CASE("store state: append, multi_get, multi_set, ping, validate") {
    Bench bench;
    CHECK(bench.ask(1, {.opcode = Opcode::validate, .number = kValidateMagic}).empty());
    CHECK(bench.ask(1, {.opcode = Opcode::ping, .number = 0x11223344}) == wire_u32(0x11223344));
    bench.ask(1, {.opcode = Opcode::append, .key = "a", .value = "one"});
    bench.ask(1, {.opcode = Opcode::append, .key = "a", .value = "two"});
    bench.ask(1, {.opcode = Opcode::multi_set, .keys = {"b", "c", "b"}, .values = {"1", "2", "3"}});
    CHECK(bench.ask(1, {.opcode = Opcode::multi_get, .keys = {"a", "b", "none", "c"}}) ==
          wire_string("onetwo") + wire_string("3") + wire_string("") + wire_string("2"));
}

TEST_CASE("store state: a wait ends with the last missing key, in any order, by any kind of store") {
    Bench bench;
    bench.set("there", "");
    CHECK(bench.wait(1, {"there"}) == kZero);
    CHECK(bench.wait(1, {}) == kZero);
    CHECK(bench.wait(1, {"a", "there", "b", "c", "d"}).empty());
    CHECK(bench.wait(2, {"d"}).empty());
    bench.add("d", 1);
    CHECK(bench.taken(2) == kZero);
    bench.ask(3, {.opcode = Opcode::append, .key = "b", .value = "x"});
    bench.ask(3, {.opcode = Opcode::multi_set, .keys = {"a"}, .values = {"x"}});
    CHECK(bench.taken(1).empty());
    bench.set("c", "x");
    CHECK(bench.taken(1) == kZero);
    bench.set("c", "y");
    CHECK(bench.taken(1).empty());
    CHECK(bench.taken(2).empty());
}

TEST_CASE("store state: a key that was ticked off stays so when it is deleted") {
    Bench bench;
    bench.wait(1, {"a", "b"});
    bench.set("a", "1");
    bench.ask(2, {.opcode = Opcode::delete_key, .key = "a"});
    bench.set("b", "1");
    CHECK(bench.taken(1) == kZero);
}

TEST_CASE("store state: a key named twice counts twice and is ticked twice") {
    Bench bench;
    CHECK(bench.wait(1, {"a", "a", "b"}).empty());
    bench.set("a", "1");
    CHECK(bench.taken(1).empty());
    bench.set("b", "1");
    CHECK(bench.taken(1) == kZero);
}

TEST_CASE("store state: cancel always answers one, and nothing follows it") {
    Bench bench;
    CHECK(bench.cancel(1) == kOne);
    bench.wait(1, {"a"});
    CHECK(bench.cancel(1) == kOne);
    bench.set("a", "1");
    CHECK(bench.taken(1).empty());
    // The race: the wait was answered just before the cancel came.
    bench.wait(1, {"b"});
    bench.set("b", "1");
    CHECK(bench.cancel(1) == kZero + kOne);
    CHECK(bench.state.bytes() == 2 * 130);
}

TEST_CASE("store state: a connection that is gone waits no more") {
    Bench bench;
    bench.wait(1, {"a", "b"});
    bench.wait(2, {"a"});
    bench.state.remove(1);
    bench.set("a", "1");
    bench.set("b", "1");
    CHECK(bench.boxes.count(1) == 1);
    CHECK(bench.taken(1).empty());
    CHECK(bench.taken(2) == kZero);
}

TEST_CASE("store state: queues are first in, first out, and wake one waiter each") {
    Bench bench;
    CHECK(bench.pop("q") == wire_i64(0));
    for (ConnectionId id : {1, 2, 3}) CHECK(bench.wait(id, {"q"}).empty());
    bench.push("q", "a");
    CHECK(bench.taken(1) == kZero);
    CHECK(bench.taken(2).empty());
    bench.push("q", "b");
    CHECK(bench.taken(2) == kZero);
    CHECK(bench.taken(3).empty());
    CHECK(bench.ask(4, {.opcode = Opcode::queue_len, .key = "q"}) == wire_i64(2));
    CHECK(bench.pop("q") == wire_i64(2) + wire_string("a"));
    CHECK(bench.pop("q") == wire_i64(1) + wire_string("b"));
    CHECK(bench.pop("q") == wire_i64(0));
    // A key of the same name is another thing, but ends a wait as well.
    bench.set("q", "value");
    CHECK(bench.taken(3) == kZero);
    CHECK(bench.pop("q") == wire_i64(0));
}

TEST_CASE("store state: a barrier lets everybody go when the last one comes, and is cancellable") {
    Bench bench;
    auto arrive = [&](ConnectionId id, std::int64_t size) {
        return bench.ask(id, {.opcode = Opcode::barrier, .key = "b", .number = size});
    };
    CHECK(arrive(1, 3).empty());
    CHECK(arrive(2, 3).empty());
    CHECK(bench.cancel(2) == kOne);
    CHECK(arrive(3, 3) == kZero);
    CHECK(bench.taken(1) == kZero);
    CHECK(bench.taken(2).empty());
    CHECK(bench.get("b") == wire_string("3"));
    // The counter is never reset: whoever comes later passes.
    CHECK(arrive(4, 3) == kZero);
    CHECK(bench.ask(5, {.opcode = Opcode::barrier, .key = "one", .number = 1}) == kZero);
    bench.set("no number", "x");
    CHECK(bench.ask(5, {.opcode = Opcode::barrier, .key = "no number", .number = 2}).empty());
    CHECK_FALSE(bench.refusal.empty());
}

TEST_CASE("store state: watchers hear of created, updated and deleted keys") {
    Bench bench;
    CHECK(bench.ask(1, {.opcode = Opcode::watch_key, .key = "k"}) == "\3");
    CHECK(bench.ask(1, {.opcode = Opcode::watch_key, .key = "k"}) == "\3");
    bench.set("other", "x");
    CHECK(bench.taken(1).empty());
    bench.set("k", "1");
    CHECK(bench.taken(1) == kOne + wire_string("k") + wire_string("") + wire_string("1"));
    bench.add("k", 1);
    CHECK(bench.taken(1) == kZero + wire_string("k") + wire_string("1") + wire_string("2"));
    bench.ask(2, {.opcode = Opcode::append, .key = "k", .value = "x"});
    CHECK(bench.taken(1) == kZero + wire_string("k") + wire_string("2") + wire_string("2x"));
    bench.ask(2, {.opcode = Opcode::delete_key, .key = "k"});
    CHECK(bench.taken(1) == "\2" + wire_string("k") + wire_string("2x") + wire_string(""));
    bench.state.remove(1);
    bench.set("k", "1");
    CHECK(bench.taken(1).empty());
}

TEST_CASE("store state: clear forgets keys, queues and barriers; waiting goes on") {
    Bench bench;
    bench.set("a", "1");
    bench.push("q", "x");
    bench.wait(1, {"later"});
    bench.state.clear();
    CHECK(bench.state.key_count() == 0);
    CHECK(bench.get("a") == wire_string(""));
    CHECK(bench.pop("q") == wire_i64(0));
    bench.set("later", "1");
    CHECK(bench.taken(1) == kZero);
}

}  // namespace ddprun
