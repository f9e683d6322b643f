#include "rendezvous/link/store_door.hpp"

#include "rendezvous/door/door_frames.hpp"
#include "rendezvous/door/door_host.hpp"
#include "rendezvous/door/sealed_link.hpp"
#include "tests/rendezvous/link/door_fixture.hpp"
#include "tests/rendezvous/store/store_service_fixture.hpp"
#include "tests/support/other_user.hpp"
#include "tests/support/store_bytes.hpp"

namespace ddprun {
namespace {

constexpr std::size_t kBig = kMaxValueLength;

std::string set(const std::string& key, const std::string& value) {
    return modern({.opcode = Opcode::set, .key = key, .value = value});
}
std::string get(const std::string& key) { return modern({.opcode = Opcode::get, .key = key}); }
// Of a client that had gone before, nobody could say whose it was.
void be_let_in(RawClient& client) {
    client.send(opening() + get("nothing"));
    CHECK(client.receive(8) == wire_string(""));
}
std::string wait_for(std::string_view key) { return modern({.opcode = Opcode::wait, .keys = {key}}); }

}  // namespace

TEST_CASE("clients of a door are clients of the store, in both dialects and however their bytes are cut",
          "[store_door]") {
    DoorFixture job;
    for (const Dialect dialect : kDialects) {
        RawClient one = job.client(), other = job.neighbour();
        const std::string key = dialect == Dialect::modern ? "/modern" : "/legacy";
        one.send_slowly(first(dialect, {.opcode = Opcode::set, .key = key, .value = "v1"}));
        one.send(bytes_of(dialect, {.opcode = Opcode::get, .key = key}));
        CHECK(one.receive(10) == wire_string("v1"));
        other.send(first(dialect, {.opcode = Opcode::get, .key = key}));
        CHECK(other.receive(10) == wire_string("v1"));
        one.send(bytes_of(dialect, {.opcode = Opcode::wait, .keys = {key + "2"}}));
        other.send(bytes_of(dialect, {.opcode = Opcode::add, .key = key + "2", .number = 5}));
        CHECK(other.receive(8) == wire_i64(5));
        CHECK(one.receive(1) == kZero);
    }
}

TEST_CASE("what a legacy client watches is told through a door", "[store_door]") {
    DoorFixture job;
    RawClient watcher = job.client(), setter = job.client();
    watcher.send(legacy({.opcode = Opcode::watch_key, .key = "/k"}));
    CHECK(watcher.receive(1) == std::string(1, kWatchingReply));
    setter.send(legacy({.opcode = Opcode::set, .key = "/k", .value = "new"}));
    CHECK(watcher.receive(1 + 10 + 8 + 11) ==
          std::string(1, kCreatedEvent) + wire_string("/k") + wire_string("") + wire_string("new"));
}

TEST_CASE("the largest values go through a door both ways, and hold up nobody", "[store_door]") {
    DoorFixture job;
    RawClient big = job.client(), small = job.client();
    const std::string value(kBig, 'v');
    big.send(opening() + set("big", value));
    // Nobody takes the reply for now.
    big.send(get("big"));
    small.send(opening());
    for (int i = 1; i <= 100; ++i) {
        small.send(modern({.opcode = Opcode::add, .key = "n", .number = 1}));
        CHECK(small.receive(8) == wire_i64(i));
    }
    CHECK(big.receive(8 + kBig) == wire_string(value));
}

TEST_CASE("requests that were sent before a client hung up are served", "[store_door]") {
    DoorFixture job;
    constexpr int kRequests = 5'000;  // more than one turn's
    {
        // The replies are never taken: they are many, and of no use to anybody.
        RawClient client = job.client();
        be_let_in(client);
        std::string requests = set("k", std::string(1'000, 'v'));
        for (int i = 0; i < kRequests; ++i) requests += get("k");
        client.send(requests);
    }
    {
        RawClient client = job.client();
        be_let_in(client);
        std::string requests;
        // No replies: if something were left unread, what was sent would be taken back.
        for (int i = 0; i < kRequests; ++i)
            requests += modern({.opcode = Opcode::append, .key = "log", .value = "x"});
        client.send(requests + set("last", "v"));
    }
    RawClient other = job.client();
    other.send(opening() + wait_for("last"));
    CHECK(other.receive(1) == kZero);
    other.send(get("log"));
    CHECK(other.receive(8 + kRequests) == wire_string(std::string(kRequests, 'x')));
}

TEST_CASE("what the store ends, its door ends, behind what was said before", "[store_door]") {
    DoorFixture job;
    RawClient client = job.client(), other = job.client();
    other.send(opening());
    client.send(opening() + set("k", "v") + get("k") + "\xff");
    CHECK(client.receive_until_closed() == wire_string("v"));
    other.send(get("k"));
    CHECK(other.receive(9) == wire_string("v"));
}

TEST_CASE("a client that is gone is forgotten with all that it waits for", "[store_door]") {
    DoorFixture job;
    RawClient other = job.client();
    other.send(opening());
    for (int i = 0; i < 200; ++i) {
        RawClient client = job.client();
        client.send(opening() + modern({.opcode = Opcode::add, .key = "came", .number = 1}));
        CHECK(client.receive(8) == wire_i64(i + 1));
        client.send(wait_for("never"));
    }
    other.send(set("never", "now") + modern({.opcode = Opcode::add, .key = "came", .number = 0}));
    CHECK(other.receive(8) == wire_i64(200));
}

TEST_CASE("a new round hangs up on the workers of the one before, and finds another store", "[store_door]") {
    DoorFixture job;
    RawClient old = job.client();
    old.send(opening() + set("k", "old") + get("k"));
    CHECK(old.receive(11) == wire_string("old"));
    old.send(wait_for("never"));
    RendezvousServer elsewhere({.coordinator = {.job_id = "job", .nnodes = 2}, .key = job.key()});
    job.door().begin_round(elsewhere.own_endpoint());
    CHECK(old.receive_until_closed().empty());
    RawClient fresh = job.client();
    fresh.send(opening() + get("k"));
    CHECK(fresh.receive(8) == wire_string(""));
}

TEST_CASE("a door waits for a store that comes late, and ends with one that goes", "[store_door]") {
    DoorFixture job;
    const Endpoint place = job.place();
    job.end_host();
    RawClient early = job.client();
    early.send(opening() + set("k", "v") + get("k"));
    job.host(place.port);
    CHECK(early.receive(9) == wire_string("v"));
    early.send(wait_for("never"));
    job.end_host();
    CHECK(early.receive_until_closed().empty());
    job.host(place.port);
    RawClient again = job.client();
    again.send(opening() + get("k"));
    CHECK(again.receive(8) == wire_string(""));
}

TEST_CASE("a door is on loopback, and closed to another user", "[store_door]") {
    DoorFixture job;
    CHECK(job.door().endpoint().host == "127.0.0.1");
    if (!can_be_other_user()) return;
    const int outcome = as_other_user([&] {
        RawClient client = job.client();
        client.send_as_taken(opening() + get("k"));
        return client.receive_until_closed().empty() ? 0 : 1;
    });
    CHECK(outcome == 0);
    // It was served after that one, so the remark has been made.
    RawClient own = job.client();
    own.send(opening() + get("k"));
    CHECK(own.receive(8) == wire_string(""));
    CHECK_THAT(job.remark(), Catch::Contains("user 61234"));
}

TEST_CASE("many clients share one connection to node 0", "[store_door]") {
    DoorFixture job;
    std::vector<RawClient> clients;
    constexpr int kClients = 300;
    for (int i = 0; i < kClients; ++i) clients.push_back(job.client());
    for (RawClient& client : clients)
        client.send(opening() + modern({.opcode = Opcode::barrier, .key = "all", .number = kClients}));
    for (RawClient& client : clients) CHECK(client.receive(1) == kZero);
}

}  // namespace ddprun
