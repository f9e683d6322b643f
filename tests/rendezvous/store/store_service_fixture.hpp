// Requests as bytes, and what a store host has counted. For the tests of the StoreService.
#pragma once

#include <chrono>
#include <string>
#include <thread>

#include "rendezvous/store/store_host.hpp"
#include "rendezvous/store/store_service.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"

namespace ddprun {

inline std::string bytes_of(Dialect dialect, const Request& request) {
    std::string bytes;
    encode_request(bytes, dialect, request);
    return bytes;
}

inline std::string modern(const Request& request) { return bytes_of(Dialect::modern, request); }
inline std::string legacy(const Request& request) { return bytes_of(Dialect::legacy, request); }

inline std::string opening() { return modern({.opcode = Opcode::validate, .number = kValidateMagic}); }

// One request, in the dialect, with the opening if it needs one.
inline std::string first(Dialect dialect, const Request& request) {
    return (dialect == Dialect::modern ? opening() : "") + bytes_of(dialect, request);
}

// Waits until the host's counters are as wanted: for what only the host can see.
template <typename Condition>
void await_counters(const StoreHost& host, Condition condition) {
    const auto guard = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!condition(host.counters())) {
        REQUIRE(std::chrono::steady_clock::now() < guard);
        std::this_thread::yield();
    }
}

// Until so many have ever come, and so many of them are still there.
inline void await_connections(const StoreHost& host, std::uint64_t accepted, std::size_t open) {
    await_counters(host, [&](const StoreService::Counters& counters) {
        return counters.accepted == accepted && counters.connections == open;
    });
}

inline const Dialect kDialects[] = {Dialect::modern, Dialect::legacy};

}  // namespace ddprun
