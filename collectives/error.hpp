// CollectiveError: the one exception of the collectives library. Public.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)
namespace ddprun {

enum class CollectiveErrorCode {
    invalid_argument,  // this call is wrong; nothing was sent, the communicator stays usable
    timed_out,         // a deadline passed; culprits are the ranks that did not come, or those that came
                       // where most do not (a call too many)
    peer_died,         // a rank's process ended, or its machine is gone, without leaving in order
    peer_left,         // a rank destroyed its communicator, or called exit(), while others still needed it
    aborted,           // a rank called abort(); the culprit is that rank
    mismatch,          // ranks called different operations, the same with different arguments, or one call
                       // too many; culprits are those that did something else than most, or all
    system,            // the operating system or the store refused; the text says what
};

// Returns "timed_out" and so on.
std::string_view name_of(CollectiveErrorCode code) noexcept;

// CollectiveError: how an operation failed. Every code but invalid_argument ends the communicator on all
// ranks: data of the call is undefined, and every later call fails at once with the same error. All ranks
// that can still be told get the same code and culprits.
class CollectiveError : public std::runtime_error {
  public:
    CollectiveError(CollectiveErrorCode code, const std::string& what, std::vector<int> culprits = {},
                    std::string operation = {}, std::uint64_t sequence = 0);

    CollectiveErrorCode code() const noexcept;

    // Returns the ranks that the error is about: dead, gone, late, or in disagreement. Ascending; empty when
    // no rank is to blame.
    const std::vector<int>& culprits() const noexcept;

    // Returns the name of this rank's call that failed: "all_reduce", or "join" while the communicator is
    // made.
    const std::string& operation() const noexcept;
    // Returns the number of that call. The collectives of a communicator are counted from 1; send and recv
    // carry the number of the collective before them.
    std::uint64_t sequence() const noexcept;

  private:
    struct [[gnu::visibility("hidden")]] Details;
    std::shared_ptr<const Details> details_;  // shared, so that copying the exception never throws
};

}  // namespace ddprun
#pragma GCC visibility pop
