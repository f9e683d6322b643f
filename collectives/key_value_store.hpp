// KeyValueStore: where ranks meet, given by the program. Public; standard library only.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)
namespace ddprun {

// KeyValueStore: the store that Communicator::join() meets over, and over nothing else. All ranks reach it:
// the program's own store, for example, or PyTorch's.
//
// The callers are threads in join(), or in shrink() of a communicator that was made over the store or comes
// from such a communicator. shrink() may call hours later. Several threads may call at once if several are in
// these functions. Keys are of printable ASCII, values any bytes; the library writes under `ddprun/`, some
// hundred bytes for each rank. An exception of a function becomes a CollectiveError with code `system` and
// its text.
class KeyValueStore {
  public:
    virtual ~KeyValueStore() = default;

    virtual void set(const std::string& key, std::string_view value) = 0;
    // Returns the key's value as soon as there is one; nothing when `limit`, 1 ms at least, has passed.
    virtual std::optional<std::string> get(const std::string& key, std::chrono::milliseconds limit) = 0;
    // Adds to the number under the key, 0 where there is none, and returns the sum, at once. Keys of add()
    // are never those of set() and get().
    virtual std::int64_t add(const std::string& key, std::int64_t amount) = 0;
    // Removes the key if it is there. May do nothing.
    virtual void remove(const std::string&) {}
};

}  // namespace ddprun
#pragma GCC visibility pop
