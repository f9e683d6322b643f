// Redial: when a rank that was closed before it had an answer calls again. Pure, but for the chance in its pauses.
//
// A closed door is no death: a listener that strangers crowd closes callers that have not spoken yet, and one whose queue is
// full does not even answer. Where nobody listens any more, the call is refused; that, and silence from another machine, is what
// a death looks like.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <random>

namespace ddprun::inline detail {

// The second call comes at once. Pauses are a half to one and a half of these, twice as long each time.
inline constexpr std::chrono::milliseconds kFirstRedialPause{5};
inline constexpr std::chrono::milliseconds kLongestRedialPause{250};
// Within a machine a call that is heard stands at once, and one that is not is repeated by the system after a second only. Twice
// as long each time, up to the other, since a machine may lengthen its own ways.
inline constexpr std::chrono::milliseconds kFirstPatience{50};
inline constexpr std::chrono::milliseconds kLongestPatience{3200};

class Redial {
  public:
    // A call has ended with this errno (0: it was closed) before it was answered, by a peer `within_machine` or not. Returns how long
    // to wait before the next; none: nobody will answer there.
    std::optional<std::chrono::milliseconds> pause_after(int error_number, bool within_machine);

    // How long the next call may take until it stands, within a machine.
    std::chrono::milliseconds patience() const { return patience_; }

  private:
    bool has_called_ = false;
    std::chrono::milliseconds patience_ = kFirstPatience;
    std::chrono::milliseconds pause_ = kFirstRedialPause;
    std::optional<std::minstd_rand> chance_;
};

}  // namespace ddprun::inline detail
