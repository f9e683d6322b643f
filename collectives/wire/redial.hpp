// Dial: one rank's call to another. Redial: when a rank that was closed before it had an answer calls again;
// pure, but for the chance in its pauses.
//
// A closed door is no death: a listener that strangers crowd closes callers that have not spoken yet, and one
// whose queue is full does not even answer. Where nobody listens any more, the call is refused; that, and
// silence from another machine, is what a death looks like.
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

// The second call comes at once. Pauses are a half to one and a half of these, twice as long each time.
inline constexpr std::chrono::milliseconds kFirstRedialPause{5};
inline constexpr std::chrono::milliseconds kLongestRedialPause{250};
// Within a machine a call that is heard stands at once, and one that is not is repeated by the system after a
// second only. Twice as long each time, up to the other, since a machine may lengthen its own ways.
inline constexpr std::chrono::milliseconds kFirstPatience{50};
inline constexpr std::chrono::milliseconds kLongestPatience{3200};

class Redial {
  public:
    // A call has ended with this errno (0: it was closed) before it was answered, by a peer `within_machine`
    // or not. Returns how long to wait before the next; none: nobody will answer there.
    std::optional<std::chrono::milliseconds> pause_after(int error_number, bool within_machine);

    // How long the next call may take until it stands, within a machine.
    std::chrono::milliseconds patience() const { return patience_; }

  private:
    bool has_called_ = false;
    std::chrono::milliseconds patience_ = kFirstPatience;
    std::chrono::milliseconds pause_ = kFirstRedialPause;
    std::optional<std::minstd_rand> chance_;
};

// What listens there is not the rank, or does not want this one: in words.
struct DialRefused {
    std::string what;
};

// Until the other one has answered that this rank may come and, where there is a key, each has proven that it
// has it. Never waits: whoever owns it does.
class Dial {
  public:
    // `membership` is borrowed.
    Dial(const Membership& membership, int peer, Channel channel, int lane = 0);

    // Goes on as far as it can, also by calling again. True once this rank may come. Throws LinkLost where
    // nobody will answer, and DialRefused.
    bool go_on();
    // What it waits for: that link() can be read (POLLIN) or written (POLLOUT), or nothing of that (0); and
    // this moment.
    short awaits() const;
    Deadline until() const { return until_; }
    // What was dialled last; whether it was said there who dials.
    TcpLink& link() { return link_; }
    bool has_spoken() const { return stage_ > Stage::connecting; }

  private:
    enum class Stage { paused, connecting, answered, proven, done };

    bool go_on_once();
    void begin();
    void take_answer();
    void prove();
    void write_whole(std::span<std::byte> bytes);
    // False: there is more to come.
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
