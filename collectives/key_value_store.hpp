// KeyValueStore: where ranks meet, given by the program. Public; standard library only.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)
namespace ddprun {

// A KeyValueStore is what Communicator::join() meets over, and over nothing else: one that all ranks reach,
// such as the program's own, or PyTorch's. It is called by the thread that is in join() or shrink() of a
// communicator that was made over it, or of one that comes from that one, in a moment or after hours; by
// several threads at once if those are. Keys are of printable ASCII, values any bytes; what the library
// writes is under `ddprun/`, some hundred bytes for each rank. Whatever a function throws becomes a
// CollectiveError with code `system` that has its text.
class KeyValueStore {
  public:
    virtual ~KeyValueStore() = default;

    virtual void set(const std::string& key, std::string_view value) = 0;
    // Returns the key's value as soon as there is one; nothing when `limit`, 1 ms at least, has passed.
    virtual std::optional<std::string> get(const std::string& key, std::chrono::milliseconds limit) = 0;
    // Adds to the number under the key, 0 where there is none, and returns the sum, at once. For keys that
    // set() and get() are not called with.
    virtual std::int64_t add(const std::string& key, std::int64_t amount) = 0;
    // Takes the key away if it is there. Need not do anything.
    virtual void remove(const std::string&) {}
};

}  // namespace ddprun
#pragma GCC visibility pop
