// How many connections the port takes, and that the user hears of it when it takes no more.
#include "rendezvous/server/caller_gate.hpp"

#include <mutex>
#include <stdexcept>

#include "rendezvous/net/connect.hpp"
#include "rendezvous/server/rendezvous_server.hpp"
#include "rendezvous/store/tcp_store.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"

namespace ddprun {
namespace {

using Limit = ConnectionLimit;

// What was said, from another thread.
class HeardSentences {
  public:
    void add(const std::string& sentence) {
        const std::lock_guard lock(mutex_);
        sentences_.push_back(sentence);
    }
    std::vector<std::string> all() {
        const std::lock_guard lock(mutex_);
        return sentences_;
    }

  private:
    std::mutex mutex_;
    std::vector<std::string> sentences_;
};

// Connected, and silent.
std::vector<OwnedDescriptor> silent_callers(std::uint16_t port, std::size_t count) {
    std::vector<OwnedDescriptor> callers;
    for (std::size_t i = 0; i < count; ++i)
        callers.emplace_back(connect_tcp({"127.0.0.1", port}, kHangGuard));
    return callers;
}

// A legacy client's "how many keys", and the answer.
std::int64_t ask_for_keys(const OwnedDescriptor& caller) {
    const char num_keys = 6;
    REQUIRE(::send(caller.get(), &num_keys, 1, MSG_NOSIGNAL) == 1);
    std::int64_t keys = -1;
    REQUIRE(::recv(caller.get(), &keys, sizeof keys, MSG_WAITALL) == sizeof keys);
    return keys;
}

std::vector<OwnedDescriptor> spoken_callers(std::uint16_t port, std::size_t count) {
    auto callers = silent_callers(port, count);
    for (const OwnedDescriptor& caller : callers) ask_for_keys(caller);
    return callers;
}

bool was_closed_there(const OwnedDescriptor& caller) {
    char byte = 0;
    return ::recv(caller.get(), &byte, 1, 0) <= 0;
}

RendezvousServerOptions least_room() {
    RendezvousServerOptions options;
    options.coordinator = {.version = "1", .run_id = "none", .job_id = "job", .nnodes = 1};
    options.spared_descriptors = std::numeric_limits<std::size_t>::max();
    return options;
}

}  // namespace

TEST_CASE("connection limit: what the limit of open files leaves, within bounds") {
    struct Row {
        std::size_t open_files, spared, most;
    };
    const std::size_t unlimited = std::numeric_limits<std::size_t>::max();
    for (const Row& row :
         {Row{1024, 200, 824}, Row{1024, 1024, Limit::kLeastConnections},
          Row{1024, unlimited, Limit::kLeastConnections}, Row{524'288, 4'256, Limit::kMaxConnections},
          Row{unlimited, 200, Limit::kMaxConnections}, Row{0, 0, Limit::kLeastConnections}}) {
        CAPTURE(row.open_files, row.spared);
        const Limit limit(row.open_files, row.spared);
        CHECK(limit.most() == row.most);
        CHECK(limit.has_room(row.most - 1));
        CHECK_FALSE(limit.has_room(row.most));
    }
}

TEST_CASE("connection limit: it is told once, with the number and what helps") {
    Limit limit(1024, 200);
    const auto told = limit.tell_full();
    REQUIRE(told);
    for (const char* word : {"824 connections", "1024 open files", "ulimit -n"})
        CHECK_THAT(*told, Catch::Contains(word));
    CHECK_FALSE(limit.tell_full());
    Limit largest(1'000'000, 0);
    CHECK_THAT(*largest.tell_full(), !Catch::Contains("ulimit"));
}

TEST_CASE("the port takes so many connections and no more, and says so once") {
    HeardSentences heard;
    RendezvousServerEvents events;
    events.on_remark = [&](const std::string& sentence) { heard.add(sentence); };
    RendezvousServer server(least_room(), events);
    const auto callers = spoken_callers(server.port(), Limit::kLeastConnections);
    for (const OwnedDescriptor& late : silent_callers(server.port(), 2)) CHECK(was_closed_there(late));
    CHECK(heard.all().size() == 1);
}

TEST_CASE("silent callers of our own user keep nobody out, and push out nobody who has spoken") {
    RendezvousServer server(least_room());
    const auto spoken = spoken_callers(server.port(), 1);
    const auto silent = silent_callers(server.port(), 2 * Limit::kLeastConnections);
    TcpStore store({"127.0.0.1", server.port()}, kHangGuard);
    store.set("key", "value");
    CHECK(store.get("key", kHangGuard) == "value");
    CHECK(was_closed_there(silent.front()));
    CHECK(ask_for_keys(spoken.front()) == 1);
    // Who is silent without need is not closed.
    CHECK(ask_for_keys(silent.back()) == 1);
}

TEST_CASE("what escapes from the server's handlers is told, and the others are served all the same") {
    HeardSentences failures;
    RendezvousServerEvents events;
    events.on_remark = [](const std::string&) { throw std::runtime_error("nobody expected it"); };
    events.on_failed = [&](const std::string& what) { failures.add(what); };
    RendezvousServer server(least_room(), events);
    const auto callers = spoken_callers(server.port(), Limit::kLeastConnections);
    CHECK(was_closed_there(silent_callers(server.port(), 1).front()));
    // The answer comes behind the failure.
    CHECK(ask_for_keys(callers.front()) == 0);
    CHECK(failures.all() == std::vector<std::string>{"nobody expected it"});
}

TEST_CASE("a caller for whom there is no memory goes, and nothing else") {
    HeardSentences failures;
    RendezvousServerEvents events;
    events.on_remark = [](const std::string&) { throw std::bad_alloc(); };
    events.on_failed = [&](const std::string& what) { failures.add(what); };
    RendezvousServer server(least_room(), events);
    const auto callers = spoken_callers(server.port(), Limit::kLeastConnections);
    for (const OwnedDescriptor& late : silent_callers(server.port(), 2)) CHECK(was_closed_there(late));
    CHECK(failures.all().empty());
}

}  // namespace ddprun
