// OthersWord: a number in memory that ranks share, which another process may change at any moment. Pure.
//
// Each read of an OthersWord reads memory once, and the copy is what is checked and used: the compiler might
// read a plain variable again behind the check. A value that no rank writes ends the communicator by a
// verdict that names the rank.
#pragma once

#include <cerrno>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/call/call.hpp"

namespace ddprun {
inline namespace detail {

template <class T>
class OthersWord {
  public:
    operator T() const noexcept { return __atomic_load_n(&value_, __ATOMIC_RELAXED); }
    OthersWord& operator=(T value) noexcept {
        __atomic_store_n(&value_, value, __ATOMIC_RELAXED);
        return *this;
    }

  private:
    T value_;
};

// Returns whether `offset`, and the `bytes` from it on, lie within the `size` bytes that begin at `begin`.
constexpr bool lies_within(std::uint64_t offset, std::uint64_t bytes, std::uint64_t begin,
                           std::uint64_t size) {
    return offset >= begin && offset - begin < size && bytes <= size - (offset - begin);
}

// kLinkBroken and kLinkOverrun: the errors of a link (LinkLost) that are no death of the peer. The peer sent
// what no rank sends, or more than it may.
inline constexpr int kLinkBroken = EBADMSG;
inline constexpr int kLinkOverrun = EDQUOT;

// Returns the verdict that one of `writers` wrote `what`: the one rank that did, or all ranks that may have.
inline Verdict broken_verdict(std::vector<int> writers, std::string_view what) {
    std::string who = (writers.size() == 1 ? "rank " : "one of the ranks ") + list_of_ranks(writers);
    return {CollectiveErrorCode::mismatch, std::move(writers), who + " wrote " + std::string(what)};
}

}  // namespace detail
}  // namespace ddprun
