// Gate: lets the right ranks in. Accepts connections and reads each one's Hello before anybody else sees it.
//
// Driven by Lifeline's thread: it polls the gate's descriptors and calls turn(). Never blocks. A connection
// that does not say what it is in time, or says something else than a Hello, is closed; the number of such
// connections is bounded, so strangers cost a fixed amount of memory and no rank its place.
#pragma once

#include <poll.h>

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "collectives/wire/frame.hpp"
#include "collectives/wire/tcp_link.hpp"

namespace ddprun {

inline constexpr std::size_t kMaxUnidentified = 64;
inline constexpr std::chrono::milliseconds kIdentifyLimit{5000};

class Gate {
  public:
    using Clock = std::chrono::steady_clock;
    // Decides about a Hello; called once for each.
    using Judge = std::function<HelloAnswer(const LinkHello&)>;

    struct Visitor {
        LinkHello hello;
        TcpLink link;
    };

    Gate(TcpListener listener, Judge judge) : listener_(std::move(listener)), judge_(std::move(judge)) {}

    void add_descriptors(std::vector<pollfd>& descriptors) const;
    // When turn() must be called even if no descriptor is ready.
    std::optional<Clock::time_point> next_limit() const;
    // Does all that can be done now. Returns those that were welcomed, already answered.
    std::vector<Visitor> turn(Clock::time_point now);

  private:
    struct Unidentified {
        TcpLink link;
        std::array<std::byte, kHelloSize> bytes{};
        std::size_t held = 0;
        Clock::time_point limit;
    };
    enum class Progress { waiting, complete, useless };

    void accept_new(Clock::time_point now);
    static Progress read_hello(Unidentified& connection);
    std::optional<Visitor> judge(Unidentified& connection);

    TcpListener listener_;
    Judge judge_;
    std::vector<Unidentified> unidentified_;
};

}  // namespace ddprun
