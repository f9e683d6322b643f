// Store is a shared key-value service, as one process sees it.
//
// Implementations: TcpStore (client of a StoreService, or of PyTorch's own server), FileStore (a file on a
// shared disk). All functions block the caller, each for a stated time at most. A Store is used by one thread
// at a time; the caller owns it. Keys and values are any bytes; a missing key is never the same as an empty
// value.
//
// Failures: boost::system::system_error with Errc::timed_out (the message names the keys waited for),
// connection_lost, protocol_violation, limit_exceeded, or malformed (add on a value that is no number).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {
inline namespace base {

class Store {
  public:
    using Milliseconds = std::chrono::milliseconds;

    Store() = default;
    Store(const Store&) = delete;
    Store& operator=(const Store&) = delete;
    virtual ~Store() = default;

    // Stores the value under the key and wakes the clients that wait for it.
    virtual void set(std::string_view key, std::string_view value) = 0;

    // Returns the value of the key; waits until the key exists, `timeout` at most.
    virtual std::string get(std::string_view key, Milliseconds timeout) = 0;

    // Adds to the number kept as decimal text under the key (missing counts as 0) and returns the sum.
    virtual std::int64_t add(std::string_view key, std::int64_t delta) = 0;

    // Stores `desired` if the key holds `expected`, or is missing and `expected` is empty. Returns the value
    // held afterwards; for a missing key with a non-empty `expected`, nothing is stored and `expected` is
    // returned.
    virtual std::string compare_set(std::string_view key, std::string_view expected,
                                    std::string_view desired) = 0;

    // Waits until all keys exist, `timeout` at most.
    virtual void wait(const std::vector<std::string>& keys, Milliseconds timeout) = 0;

    // Says whether all keys exist now.
    virtual bool check_keys(const std::vector<std::string>& keys) = 0;

    // Removes the key; returns whether it existed.
    virtual bool erase(std::string_view key) = 0;
};

}  // namespace base
}  // namespace ddprun
