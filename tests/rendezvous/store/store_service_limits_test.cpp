// What clients of a store can do to it: too many of them, too much unread, noise.
#include <sys/fsuid.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <thread>

#include "rendezvous/store/store_host.hpp"
#include "tests/rendezvous/store/store_service_fixture.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/raw_client.hpp"
#include "tests/support/store_bytes.hpp"

namespace ddprun {

// A sanitizer's allocator keeps what it likes.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
namespace {

std::size_t resident_bytes() {
    std::ifstream file("/proc/self/statm");
    std::size_t total = 0, resident = 0;
    file >> total >> resident;
    return resident * static_cast<std::size_t>(::getpagesize());
}

}  // namespace

TEST_CASE("store service: what was freed is given back to the system") {
    constexpr std::size_t kValues = 4'000, kValueBytes = 50'000;
    StoreHost host(ListenScope::loopback, 0);
    RawClient client(host.port());
    const std::size_t before = resident_bytes();
    client.send(opening());
    for (std::size_t i = 0; i < kValues; ++i)
        client.send(modern(
            {.opcode = Opcode::set, .key = "k" + std::to_string(i), .value = std::string(kValueBytes, 'v')}));
    // One that stays, above the others.
    client.send(modern({.opcode = Opcode::set, .key = "last", .value = "v"}) +
                modern({.opcode = Opcode::get, .key = "last"}));
    CHECK(client.receive(9) == wire_string("v"));
    const std::size_t full = resident_bytes();
    CHECK(full - before > kValues * kValueBytes / 2);
    for (std::size_t i = 0; i < kValues; ++i) {
        client.send(modern({.opcode = Opcode::delete_key, .key = "k" + std::to_string(i)}));
        CHECK(client.receive(8) == wire_i64(1));
    }
    client.send(modern({.opcode = Opcode::get, .key = "last"}));
    CHECK(client.receive(9) == wire_string("v"));
    CHECK(resident_bytes() - before < kValues * kValueBytes / 2);
}
#endif

TEST_CASE("store service: a thousand idle connections") {
    rlimit files{};
    REQUIRE(getrlimit(RLIMIT_NOFILE, &files) == 0);
    files.rlim_cur = std::min<rlim_t>(files.rlim_max, 4096);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &files) == 0);
    if (files.rlim_cur < 2200) {
        WARN("skipped: only " << files.rlim_cur << " descriptors are allowed");
        return;
    }
    StoreHost host(ListenScope::loopback, 0);
    std::vector<RawClient> idle;
    for (int i = 0; i < 1000; ++i) {
        idle.emplace_back(host.port());
        if (i % 2 == 0) idle.back().send(opening());
    }
    RawClient client(host.port());
    for (int i = 0; i < 100; ++i) {
        client.send((i == 0 ? opening() : "") + modern({.opcode = Opcode::add, .key = "n", .number = 1}));
        CHECK(client.receive(8) == wire_i64(i + 1));
    }
    await_connections(host, 1001, 1001);
    idle[7].send(legacy({.opcode = Opcode::get, .key = "n"}));
    CHECK(idle[7].receive(11) == wire_string("100"));
}

TEST_CASE("store service: connections have a limit") {
    StoreLimits limits;
    limits.connections = 2;
    StoreHost host(ListenScope::loopback, 0, limits);
    RawClient one(host.port());
    RawClient two(host.port());
    await_connections(host, 2, 2);
    {
        RawClient three(host.port());
        CHECK(three.receive_until_closed().empty());
        CHECK(host.counters().last_refusal == "too many connections");
    }
    one.send(legacy({.opcode = Opcode::num_keys}));
    CHECK(one.receive(8) == wire_i64(0));
}

TEST_CASE(
    "store service: where newcomers have a limit, silence and half a request make room, and whoever has asked does not") {
    StoreLimits limits;
    limits.newcomers = 4;
    StoreHost host(ListenScope::loopback, 0, limits);
    RawClient client(host.port());
    client.send(first(Dialect::modern, {.opcode = Opcode::add, .key = "n", .number = 1}));
    CHECK(client.receive(8) == wire_i64(1));
    std::vector<RawClient> strangers;
    for (std::size_t i = 0; i < 3 * limits.newcomers; ++i) {
        strangers.emplace_back(host.port());
        if (i % 2 == 0) strangers.back().send(opening().substr(0, 2));
    }
    for (std::size_t i = 0; i < 2 * limits.newcomers; ++i) CHECK(strangers[i].receive_until_closed().empty());
    await_counters(host, [&](const StoreService::Counters& counters) {
        return counters.connections == limits.newcomers + 1;
    });
    for (int i = 2; i < 5; ++i) {
        RawClient other(host.port());
        for (RawClient* one : {&client, &other}) {
            one->send((one == &other ? opening() : "") +
                      modern({.opcode = Opcode::add, .key = "n", .number = 0}));
            CHECK(one->receive(8) == wire_i64(1));
        }
    }
}

TEST_CASE("store host: another user of this machine is closed at once") {
    if (::geteuid() != 0) {
        WARN("skipped: only root can call as somebody else");
        return;
    }
    constexpr uid_t kStranger = 61'234;
    StoreHost host(ListenScope::loopback, 0);
    ::setfsuid(kStranger);
    RawClient stranger(host.port());
    ::setfsuid(0);
    CHECK(stranger.receive_until_closed().empty());
    CHECK(host.counters().accepted == 0);
}

TEST_CASE("store service: concurrent adds lose nothing") {
    StoreHost host(ListenScope::loopback, 0);
    auto add_thousand = [&](Dialect dialect) {
        RawClient client(host.port());
        client.send(dialect == Dialect::modern ? opening() : "");
        for (int i = 0; i < 1000; ++i) {
            client.send(bytes_of(dialect, {.opcode = Opcode::add, .key = "n", .number = 1}));
            client.receive(8);
        }
    };
    std::thread other([&] { add_thousand(Dialect::legacy); });
    add_thousand(Dialect::modern);
    other.join();
    RawClient client(host.port());
    client.send(legacy({.opcode = Opcode::get, .key = "n"}));
    CHECK(client.receive(12) == wire_string("2000"));
}

TEST_CASE("store service: a reader that takes nothing holds up nobody, and gets everything in the end") {
    StoreHost host(ListenScope::loopback, 0);
    const std::string value(std::size_t{4} << 20, 'v');
    RawClient reader(host.port());
    RawClient other(host.port());
    other.send(first(Dialect::modern, {.opcode = Opcode::set, .key = "k", .value = value}) +
               modern({.opcode = Opcode::num_keys}));
    CHECK(other.receive(8) == wire_i64(1));
    reader.send(opening());
    constexpr int kGets = 20;
    for (int i = 0; i < kGets; ++i) reader.send(modern({.opcode = Opcode::get, .key = "k"}));
    reader.send(modern({.opcode = Opcode::ping, .number = 7}));
    for (int i = 0; i < 200; ++i) {
        other.send(modern({.opcode = Opcode::add, .key = "n", .number = 1}));
        CHECK(other.receive(8) == wire_i64(i + 1));
    }
    for (int i = 0; i < kGets; ++i) REQUIRE(reader.receive(8 + value.size()) == wire_string(value));
    CHECK(reader.receive(4) == wire_u32(7));
}

TEST_CASE("store service: replies nobody takes have a time limit and a size limit") {
    const std::string value(std::size_t{8} << 20, 'v');
    StoreLimits limits;
    SECTION("time") { limits.stalled_output = std::chrono::milliseconds(50); }
    SECTION("size") { limits.pending_output = std::size_t{1} << 20; }
    StoreHost host(ListenScope::loopback, 0, limits);
    // In pieces: a set of the whole would itself need more buffer than allowed here.
    RawClient writer(host.port());
    writer.send(opening());
    const std::string piece = value.substr(0, std::size_t{1} << 20);
    for (int i = 0; i < 8; ++i) writer.send(modern({.opcode = Opcode::append, .key = "k", .value = piece}));
    writer.send(modern({.opcode = Opcode::num_keys}));
    CHECK(writer.receive(8) == wire_i64(1));

    RawClient reader(host.port());
    int small = 4096;
    ::setsockopt(reader.fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    reader.send(opening() + modern({.opcode = Opcode::get, .key = "k"}) +
                modern({.opcode = Opcode::get, .key = "k"}));
    await_counters(
        host, [](const StoreService::Counters& now) { return now.refused == 1 && now.connections == 1; });
    writer.send(modern({.opcode = Opcode::num_keys}));
    CHECK(writer.receive(8) == wire_i64(1));
}

TEST_CASE("store service: what only replies hold any more counts against whoever does not take them") {
    StoreLimits limits;
    limits.buffered = std::size_t{20} << 20;
    StoreHost host(ListenScope::loopback, 0, limits);
    const std::string value(std::size_t{8} << 20, 'v');
    RawClient writer(host.port());
    writer.send(opening());
    constexpr int kReaders = 4;
    std::vector<RawClient> readers;
    for (int i = 0; i < kReaders; ++i) {
        const std::string key = "k" + std::to_string(i);
        writer.send(modern({.opcode = Opcode::set, .key = key, .value = value}) +
                    modern({.opcode = Opcode::num_keys}));
        CHECK(writer.receive(8) == wire_i64(i + 1));
        readers.emplace_back(host.port());
        int small = 4096;
        ::setsockopt(readers.back().fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
        const std::uint64_t before = host.counters().requests;
        readers.back().send(first(Dialect::modern, {.opcode = Opcode::get, .key = key}));
        await_counters(host, [&](const StoreService::Counters& now) { return now.requests == before + 2; });
    }
    // The store holds them as well: they are no buffers.
    CHECK(host.counters().refused == 0);
    for (int i = 0; i < kReaders; ++i)
        writer.send(modern({.opcode = Opcode::delete_key, .key = "k" + std::to_string(i)}));
    for (int i = 0; i < kReaders; ++i) CHECK(writer.receive(8) == wire_i64(1));
    await_counters(host, [](const StoreService::Counters& now) { return now.refused > 0; });
    CHECK(host.counters().last_refusal == "too much memory for buffers");
    writer.send(modern({.opcode = Opcode::num_keys}));
    CHECK(writer.receive(8) == wire_i64(0));
}

TEST_CASE("store service: where memory is short, who holds most goes first, and nobody small") {
    StoreLimits limits;
    limits.buffered = std::size_t{8} << 20;
    StoreHost host(ListenScope::loopback, 0, limits);
    RawClient good(host.port());
    good.send(opening());
    const std::string value(std::size_t{3} << 20, 'v');
    std::string half = first(Dialect::modern, {.opcode = Opcode::set, .key = "k", .value = value});
    half.resize(half.size() - 1);
    std::vector<RawClient> greedy;
    for (int i = 0; i < 8; ++i) {
        greedy.emplace_back(host.port());
        // What was refused in the meantime may not take it all.
        greedy.back().send_as_taken(half);
        good.send(modern({.opcode = Opcode::add, .key = "n", .number = 1}));
        CHECK(good.receive(8) == wire_i64(i + 1));
    }
    await_counters(host, [](const StoreService::Counters& now) { return now.refused >= 6; });
    RawClient late(host.port());
    late.send(first(Dialect::modern, {.opcode = Opcode::add, .key = "n", .number = 1}));
    CHECK(late.receive(8) == wire_i64(9));
    good.send(modern({.opcode = Opcode::add, .key = "n", .number = 1}));
    CHECK(good.receive(8) == wire_i64(10));
}

TEST_CASE(
    "store service: a watcher that takes nothing is closed before its events are made, not the setter") {
    StoreLimits limits;
    limits.pending_output = std::size_t{5} << 20;
    StoreHost host(ListenScope::loopback, 0, limits);
    constexpr int kWatchers = 30;
    std::vector<RawClient> watchers;
    for (int i = 0; i < kWatchers; ++i) {
        watchers.emplace_back(host.port());
        watchers.back().send(first(Dialect::legacy, {.opcode = Opcode::watch_key, .key = "k"}));
        CHECK(watchers.back().receive(1) == std::string(1, kWatchingReply));
    }
    RawClient setter(host.port());
    setter.send(opening());
    for (int i = 0; i < 10; ++i) {
        const std::string value(std::size_t{2} << 20, static_cast<char>('a' + i));
        setter.send(modern({.opcode = Opcode::set, .key = "k", .value = value}));
        setter.send(modern({.opcode = Opcode::num_keys}));
        REQUIRE(setter.receive(8) == wire_i64(1));
    }
    await_connections(host, kWatchers + 1, 1);
    CHECK(host.counters().last_refusal == "replies not taken");
}

TEST_CASE("store service: hostile noise, and the store still serves") {
    unsigned seed = std::random_device{}();
    CAPTURE(seed);
    std::mt19937 random(seed);
    StoreHost host(ListenScope::loopback, 0);
    RawClient honest(host.port());
    honest.send(opening());
    for (int round = 0; round < 200; ++round) {
        std::string noise = round % 2 == 0 ? opening() : "";
        for (int i = 0; i < 5; ++i) {
            // Lengths and counts that are sometimes plausible get deeper in.
            noise += static_cast<char>(random() % 20);
            noise += wire_i64(static_cast<std::int64_t>(random() % 6)) +
                     std::string(random() % 30, static_cast<char>(random()));
        }
        RawClient client(host.port());
        client.send(noise);
        honest.send(modern({.opcode = Opcode::ping, .number = round}));
        REQUIRE(honest.receive(4) == wire_u32(static_cast<std::uint32_t>(round)));
    }
    await_connections(host, 201, 1);
}

}  // namespace ddprun
