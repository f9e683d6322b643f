// OthersWord: a number in memory that ranks share, which another process may change at any moment. Pure.
//
// Each look reads memory once, and the copy is what is checked and used afterwards: a plain variable would
// let the compiler look again behind the check. What no rank writes ends the communicator by a verdict that
// names the rank.
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

// Whether `bytes` from `offset` on, not none of them, lie within `size` bytes that begin at `begin`.
constexpr bool lies_within(std::uint64_t offset, std::uint64_t bytes, std::uint64_t begin,
                           std::uint64_t size) {
    return offset >= begin && offset - begin < size && bytes <= size - (offset - begin);
}

// The errors of a link (LinkLost) that are no death of the peer: it sent what no rank sends, or more than it
// may.
inline constexpr int kLinkBroken = EBADMSG;
inline constexpr int kLinkOverrun = EDQUOT;

// `writers` are the ranks of which one wrote it: it says which, or where nobody can tell, all that may have.
inline Verdict broken_verdict(std::vector<int> writers, std::string_view what) {
    std::string who = (writers.size() == 1 ? "rank " : "one of the ranks ") + list_of_ranks(writers);
    return {CollectiveErrorCode::mismatch, std::move(writers), who + " wrote " + std::string(what)};
}

}  // namespace detail
}  // namespace ddprun
