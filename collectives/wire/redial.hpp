// Dial: one rank's call to another. Redial: when a rank that was closed before it had an answer calls again;
// pure, but for the chance in its pauses.
//
// A closed connection is no death: a listener that strangers crowd closes callers that have not spoken yet,
// and a listener with a full queue does not even answer. Where no process listens any more, the call is
// refused. A refused call, and silence from another machine, are the signs of a death.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string>

#include "collectives/wire/frame.hpp"
#include "collectives/wire/membership.hpp"
#include "collectives/wire/tcp_link.hpp"
#include "rendezvous/base/deadline.hpp"

namespace ddprun {
inline namespace detail {

// kFirstRedialPause: the base of the pause before the third call; the second comes at once. A pause is a half
// to one and a half of its base, which doubles each time, up to kLongestRedialPause.
inline constexpr std::chrono::milliseconds kFirstRedialPause{5};
inline constexpr std::chrono::milliseconds kLongestRedialPause{250};
// kFirstPatience: how long the first call within a machine may take. There a connection stands at once if the
// listener has room for it, and the system repeats a failed attempt only after a second. The patience doubles
// each time, up to kLongestPatience, since even a connection within a machine can be slow.
inline constexpr std::chrono::milliseconds kFirstPatience{50};
inline constexpr std::chrono::milliseconds kLongestPatience{3200};

class Redial {
  public:
    // Returns how long to wait before the next call; nothing: no listener will answer there. The last call
    // has ended with this errno (0: it was closed) before it was answered, by a peer `within_machine` or not.
    std::optional<std::chrono::milliseconds> pause_after(int error_number, bool within_machine);

    // Returns how long the next call may take until the connection stands, within a machine.
    std::chrono::milliseconds patience() const { return patience_; }

  private:
    bool has_called_ = false;
    std::chrono::milliseconds patience_ = kFirstPatience;
    std::chrono::milliseconds pause_ = kFirstRedialPause;
    std::optional<std::minstd_rand> chance_;
};

// DialRefused says, in words, that what listens there is not the rank, or that the rank does not let this one
// in.
struct DialRefused {
    std::string what;
};

// Dial: a call to a rank, until that rank has let this one in and, where there is a key, each has proven that
// it has the key. A Dial never waits: its owner does.
class Dial {
  public:
    // Borrows `membership`.
    Dial(const Membership& membership, int peer, Channel channel, int lane = 0);

    // Goes on as far as it can, also by calling again. Returns true once this rank may come. Throws LinkLost
    // where no listener will answer, and DialRefused.
    bool go_on();
    // Returns what the call waits for: that link() can be read (POLLIN) or written (POLLOUT), or only a
    // moment (0); until() is that moment, in all three cases.
    short awaits() const;
    Deadline until() const { return until_; }
    // Returns the connection that was dialled last; has_spoken() tells whether the Hello has been sent on it.
    TcpLink& link() { return link_; }
    bool has_spoken() const { return stage_ > Stage::connecting; }

  private:
    enum class Stage { paused, connecting, answered, proven, done };

    bool go_on_once();
    void begin();
    void take_answer();
    void prove();
    void write_whole(std::span<std::byte> bytes);
    // Returns false if there is more to come.
    bool hear(std::size_t bytes);

    const Membership& membership_;
    const int peer_;
    const Channel channel_;
    const int lane_;
    Stage stage_ = Stage::paused;
    Deadline until_ = Deadline::min();
    Redial redial_;
    TcpLink link_;
    HelloBytes hello_{};
    std::array<std::byte, kOfferSize> heard_{};
    std::size_t heard_bytes_ = 0;
};

}  // namespace detail
}  // namespace ddprun
