#include "rendezvous/store/store_service.hpp"

#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <random>
#include <thread>

#include "rendezvous/store/store_host.hpp"
#include "tests/rendezvous/store/store_service_fixture.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/raw_client.hpp"
#include "tests/support/store_bytes.hpp"

namespace ddprun {
TEST_CASE("store service: both dialects, side by side, on one store") {
    StoreHost host(ListenScope::loopback, 0);
    RawClient old_client(host.port());
    RawClient new_client(host.port());
    old_client.send(from_hex("00 0200000000000000 2f6b 0200000000000000 7631"));
    old_client.send(from_hex("05 0100000000000000 0200000000000000 2f6b"));
    CHECK(old_client.receive(1) == kZero);
    old_client.send(from_hex("02 0200000000000000 2f6b"));
    CHECK(old_client.receive(10) == wire_string("v1"));
    old_client.send(from_hex("03 0200000000000000 2f6e 0500000000000000"));
    CHECK(old_client.receive(8) == wire_i64(5));

    new_client.send(from_hex("00 CE F7 85 3C 0D 44332211"));
    CHECK(new_client.receive(4) == from_hex("44332211"));
    new_client.send(modern({.opcode = Opcode::get, .key = "/k"}));
    CHECK(new_client.receive(10) == wire_string("v1"));
    new_client.send(modern({.opcode = Opcode::add, .key = "/n", .number = -2}));
    CHECK(new_client.receive(8) == wire_i64(3));
}

TEST_CASE("store service: opcode in a segment of its own, then byte by byte, while another client works") {
    StoreHost host(ListenScope::loopback, 0);
    for (Dialect dialect : kDialects) {
        const Request set{.opcode = Opcode::set, .key = "key", .value = "value"};
        RawClient slow(host.port());
        RawClient quick(host.port());
        slow.send_slowly(first(dialect, {.opcode = Opcode::num_keys}));
        slow.receive(8);
        std::string bytes = bytes_of(dialect, set) + bytes_of(dialect, {.opcode = Opcode::get, .key = "key"});
        slow.send(bytes.substr(0, 1));
        quick.send(first(dialect, {.opcode = Opcode::add, .key = "other", .number = 1}));
        quick.receive(8);
        for (char byte : bytes.substr(1)) {
            slow.send({&byte, 1});
            quick.send(bytes_of(dialect, {.opcode = Opcode::add, .key = "other", .number = 0}));
            quick.receive(8);
        }
        CHECK(slow.receive(13) == wire_string("value"));
    }
}

TEST_CASE("store service: requests sent together are answered in order") {
    StoreHost host(ListenScope::loopback, 0);
    for (Dialect dialect : kDialects) {
        RawClient client(host.port());
        client.send(first(dialect, {.opcode = Opcode::set, .key = "k", .value = "v"}) +
                    bytes_of(dialect, {.opcode = Opcode::get, .key = "k"}) +
                    bytes_of(dialect, {.opcode = Opcode::num_keys}));
        CHECK(client.receive(17) == wire_string("v") + wire_i64(1));

        // More than one turn's worth.
        std::string many, answers;
        for (int i = 1; i <= 5000; ++i) {
            many += bytes_of(
                dialect, {.opcode = Opcode::add, .key = dialect == Dialect::modern ? "m" : "l", .number = 1});
            answers += wire_i64(i);
        }
        client.send(many);
        CHECK(client.receive(answers.size()) == answers);
        client.send(
            bytes_of(dialect, {.opcode = Opcode::delete_key, .key = dialect == Dialect::modern ? "m" : "l"}));
        client.receive(8);
    }
}

TEST_CASE("store service: random segments give the same answers as one") {
    unsigned seed = std::random_device{}();
    CAPTURE(seed);
    std::mt19937 random(seed);
    for (int round = 0; round < 10; ++round) {
        Dialect dialect = kDialects[round % 2];
        std::string stream =
            first(dialect, {.opcode = Opcode::set, .key = "k", .value = std::string(2000, 'v')});
        for (int i = 0; i < 100; ++i) {
            const std::string key(1, static_cast<char>('a' + random() % 4));
            const std::string value(random() % 2000, 'x');
            static constexpr Opcode kOpcodes[] = {Opcode::set, Opcode::get, Opcode::check, Opcode::delete_key,
                                                  Opcode::compare_set};
            stream += bytes_of(
                dialect, {.opcode = kOpcodes[random() % 5], .key = key, .value = value, .desired = "d"});
        }
        stream += bytes_of(dialect, {.opcode = Opcode::num_keys});
        // An unknown opcode ends the conversation, after everything before it is answered.
        stream += '\x7F';
        std::string answers[2];
        for (int cut = 0; cut < 2; ++cut) {
            StoreHost host(ListenScope::loopback, 0);
            RawClient client(host.port());
            std::string_view rest = stream;
            while (!rest.empty()) {
                std::size_t size =
                    cut == 0 ? rest.size() : std::min<std::size_t>(rest.size(), 1 + random() % 700);
                client.send(rest.substr(0, size));
                rest.remove_prefix(size);
            }
            answers[cut] = client.receive_until_closed();
        }
        CHECK(answers[0].size() > 100);
        CHECK(answers[0] == answers[1]);
    }
}

TEST_CASE("store service: what is no store client is closed at once") {
    StoreHost host(ListenScope::loopback, 0);
    const std::string rows[] = {
        "GET / HTTP/1.1\r\n\r\n",
        from_hex("09"),
        from_hex("00 CE F7 85 3D 0D 44332211"),                    // the wrong magic
        opening() + from_hex("13"),                                // an opcode of the future
        opening() + from_hex("03") + wire_i64(kMaxKeyLength + 1),  // over a limit, long before it arrives
        from_hex("00") + wire_string("k") + wire_i64(kMaxValueLength + 1),
    };
    std::uint64_t refused = 0;
    for (const std::string& row : rows) {
        RawClient client(host.port());
        client.send(row);
        CHECK(client.receive_until_closed().empty());
        CHECK(host.counters().refused == ++refused);
        CHECK_FALSE(host.counters().last_refusal.empty());
    }
    RawClient client(host.port());
    client.send(first(Dialect::legacy, {.opcode = Opcode::set, .key = "k", .value = "x"}));
    client.send(legacy({.opcode = Opcode::add, .key = "k", .number = 1}));
    CHECK(client.receive_until_closed().empty());
}

TEST_CASE("store service: a request that was begun must go on, but silence is allowed") {
    StoreLimits limits;
    limits.request_progress = std::chrono::milliseconds(50);
    StoreHost host(ListenScope::loopback, 0, limits);
    RawClient silent(host.port());
    RawClient between(host.port());
    between.send(opening() + modern({.opcode = Opcode::num_keys}));
    CHECK(between.receive(8) == wire_i64(0));
    const std::string again = opening() + modern({.opcode = Opcode::num_keys}) +
                              modern({.opcode = Opcode::get, .key = "k"}).substr(0, 3);
    for (const std::string& begin :
         {from_hex("00"), from_hex("00 CE F7"), from_hex("03 02"), from_hex("00 05 00"), again}) {
        RawClient client(host.port());
        client.send(begin);
        CHECK(client.receive_until_closed() == (begin == again ? wire_i64(0) : ""));
        CHECK(host.counters().last_refusal == "request not complete in time");
    }
    // Those two have been here longer than the others that were closed.
    CHECK(host.counters().connections == 2);
    silent.send(legacy({.opcode = Opcode::num_keys}));
    CHECK(silent.receive(8) == wire_i64(0));
    between.send(modern({.opcode = Opcode::get, .key = "k"}));
    CHECK(between.receive(8) == wire_string(""));
}

TEST_CASE("store service: a long request may take its time as long as it goes on") {
    StoreLimits limits;
    limits.request_progress = std::chrono::seconds(4);
    StoreHost host(ListenScope::loopback, 0, limits);
    RawClient client(host.port());
    const std::string value(std::size_t{12} << 20, 'v');
    const std::string bytes = first(Dialect::modern, {.opcode = Opcode::set, .key = "k", .value = value});
    const std::size_t piece = std::size_t{3} << 20;
    for (std::size_t sent = 0; sent < bytes.size(); sent += piece) {
        client.send(bytes.substr(sent, piece));
        // No event is waited for: that time passes is what is tested.
        std::this_thread::sleep_for(limits.request_progress / 3);
    }
    client.send(modern({.opcode = Opcode::get, .key = "k"}));
    CHECK(client.receive(8 + value.size()) == wire_string(value));
}

TEST_CASE("store service: wait, cancel, and the race between them") {
    StoreHost host(ListenScope::loopback, 0);
    RawClient waiter(host.port());
    RawClient setter(host.port());
    setter.send(opening());
    waiter.send(opening() + modern({.opcode = Opcode::wait, .keys = {"a", "b"}}));
    auto set = [&](std::string_view key) {
        setter.send(modern({.opcode = Opcode::set, .key = key, .value = "v"}) +
                    modern({.opcode = Opcode::num_keys}));
        setter.receive(8);
    };
    set("b");
    CHECK(waiter.is_silent());
    set("a");
    CHECK(waiter.receive(1) == kZero);

    waiter.send(modern({.opcode = Opcode::wait, .keys = {"c"}}) + modern({.opcode = Opcode::cancel_wait}));
    CHECK(waiter.receive(1) == kOne);
    set("c");
    waiter.send(modern({.opcode = Opcode::cancel_wait}) + modern({.opcode = Opcode::get, .key = "c"}));
    CHECK(waiter.receive(10) == kOne + wire_string("v"));

    // A cancel meets a set: 1, or 0 and then 1, and nothing else.
    for (int i = 0; i < 200; ++i) {
        const std::string key = "race" + std::to_string(i);
        waiter.send(modern({.opcode = Opcode::wait, .keys = {key}}));
        setter.send(modern({.opcode = Opcode::set, .key = key, .value = "v"}));
        waiter.send(modern({.opcode = Opcode::cancel_wait}));
        std::string reply = waiter.receive(1);
        if (reply == kZero) reply = waiter.receive(1);
        REQUIRE(reply == kOne);
        waiter.send(modern({.opcode = Opcode::ping, .number = i}));
        REQUIRE(waiter.receive(4) == wire_u32(static_cast<std::uint32_t>(i)));
    }
}

TEST_CASE("store service: modern commands over the wire") {
    StoreHost host(ListenScope::loopback, 0);
    RawClient client(host.port());
    RawClient other(host.port());
    client.send(opening() + modern({.opcode = Opcode::append, .key = "a", .value = "one"}) +
                modern({.opcode = Opcode::append, .key = "a", .value = "two"}) +
                modern({.opcode = Opcode::multi_set, .keys = {"b", "c"}, .values = {"1", "2"}}) +
                modern({.opcode = Opcode::multi_get, .keys = {"a", "b", "c"}}));
    CHECK(client.receive(14 + 9 + 9) == wire_string("onetwo") + wire_string("1") + wire_string("2"));
    client.send(modern({.opcode = Opcode::queue_pop, .key = "q"}) +
                modern({.opcode = Opcode::wait, .keys = {"q"}}));
    CHECK(client.receive(8) == wire_i64(0));
    other.send(opening() + modern({.opcode = Opcode::queue_push, .key = "q", .value = "item"}));
    CHECK(client.receive(1) == kZero);
    client.send(modern({.opcode = Opcode::queue_len, .key = "q"}) +
                modern({.opcode = Opcode::queue_pop, .key = "q"}));
    CHECK(client.receive(28) == wire_i64(1) + wire_i64(1) + wire_string("item"));
    client.send(modern({.opcode = Opcode::barrier, .key = "bar", .number = 2}));
    other.send(modern({.opcode = Opcode::barrier, .key = "bar", .number = 2}));
    CHECK(client.receive(1) == kZero);
    CHECK(other.receive(1) == kZero);
    other.send(modern({.opcode = Opcode::list_keys}));
    CHECK(other.receive(8) == wire_i64(4));
}

TEST_CASE("store service: legacy watches tell a silent second connection") {
    StoreHost host(ListenScope::loopback, 0);
    RawClient callback(host.port());
    RawClient client(host.port());
    callback.send(legacy({.opcode = Opcode::watch_key, .key = "k"}));
    CHECK(callback.receive(1) == "\3");
    client.send(legacy({.opcode = Opcode::set, .key = "k", .value = "v"}));
    CHECK(callback.receive(1 + 9 + 8 + 9) == kOne + wire_string("k") + wire_string("") + wire_string("v"));
}

TEST_CASE("store service: connections that end in the middle leave nothing behind") {
    StoreHost host(ListenScope::loopback, 0);
    RawClient stays(host.port());
    stays.send(opening() + modern({.opcode = Opcode::num_keys}));
    stays.receive(8);
    for (int i = 0; i < 20; ++i) {
        RawClient waiter(host.port());
        waiter.send(opening() + modern({.opcode = Opcode::wait, .keys = {"later"}}) +
                    modern({.opcode = Opcode::num_keys}));
        waiter.receive(8);
        RawClient half_way(host.port());
        half_way.send(
            first(kDialects[i % 2], {.opcode = Opcode::set, .key = "k", .value = "value"}).substr(0, 12));
    }
    await_connections(host, 41, 1);
    CHECK(host.counters().bytes == 0);
    stays.send(modern({.opcode = Opcode::set, .key = "later", .value = "v"}) +
               modern({.opcode = Opcode::num_keys}));
    CHECK(stays.receive(8) == wire_i64(1));
}

TEST_CASE("store service: requests sent just before a close are carried out") {
    StoreHost host(ListenScope::loopback, 0);
    {
        RawClient hasty(host.port());
        std::string sets = opening();
        for (int i = 0; i < 2000; ++i) {
            const std::string key = std::to_string(i);
            sets += modern({.opcode = Opcode::set, .key = key, .value = "v"});
        }
        hasty.send(sets);
    }
    await_connections(host, 1, 0);
    CHECK(host.counters().keys == 2000);
}

TEST_CASE("store service: clear empties the store and ends every connection") {
    StoreHost host(ListenScope::loopback, 0);
    RawClient old(host.port());
    old.send(first(Dialect::modern, {.opcode = Opcode::set, .key = "k", .value = "v"}) +
             modern({.opcode = Opcode::wait, .keys = {"later"}}) + modern({.opcode = Opcode::num_keys}));
    old.receive(8);
    host.clear();
    CHECK(old.receive_until_closed().empty());
    await_connections(host, 1, 0);
    CHECK(host.counters().keys == 0);
    CHECK(host.counters().bytes == 0);
    RawClient fresh(host.port());
    fresh.send(legacy({.opcode = Opcode::get, .key = "k"}));
    CHECK(fresh.receive(8) == wire_string(""));
}

}  // namespace ddprun
