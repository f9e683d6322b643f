// LinkAcceptor: accepts connections and reads each one's Hello before anybody else sees it.
//
// Driven by Lifeline's thread: it polls the descriptors and calls turn(). Never blocks. A connection that does
// not say what it is in time, or says something else than a Hello, is closed; the number of such connections
// is bounded, and where there are too many the oldest make room, so strangers cost a fixed amount of memory and no rank
// its place: all that a listener's queue holds (4,096) are through in half a second.
#pragma once

#include <poll.h>

#include <functional>
#include <optional>
#include <vector>

#include "collectives/wire/frame.hpp"
#include "collectives/wire/tcp_link.hpp"
#include "rendezvous/system/deadline.hpp"

namespace ddprun {

inline constexpr std::size_t kMaxUnidentified = 256;
inline constexpr std::chrono::milliseconds kHelloTimeout{5000};
// So long a connection may stay silent in any case: the first bytes of a rank are on their way.
inline constexpr std::chrono::milliseconds kLeastSilence{25};

class LinkAcceptor {
  public:
    using Clock = Deadline::clock;
    // Decides about a Hello; called once for each.
    using Judge = std::function<HelloAnswer(const LinkHello&)>;

    struct Accepted {
        LinkHello hello;
        TcpLink link;
    };

    LinkAcceptor(TcpListener listener, Judge judge)
        : listener_(std::move(listener)), judge_(std::move(judge)) {}

    void add_descriptors(std::vector<pollfd>& descriptors) const;
    // When turn() must be called even if no descriptor is ready.
    std::optional<Deadline> next_deadline() const;
    // Does all that can be done now. Returns those that were welcomed, already answered.
    std::vector<Accepted> turn(Deadline now);

  private:
    struct Unidentified {
        TcpLink link;
        std::array<std::byte, kHelloSize> bytes{};
        std::size_t held = 0;
        Deadline may_go;  // from then on it makes room for others
        Deadline deadline;
    };

    // Hears those that are not identified, and closes whose time is over.
    void hear(Deadline now, std::vector<Accepted>& accepted);
    // Another connection may come; perhaps the oldest makes room for it.
    bool has_room(Deadline now) const;
    // Answers a Hello that is complete; what was welcomed goes to `accepted`. Throws LinkLost.
    void judge(Unidentified& connection, std::vector<Accepted>& accepted);

    TcpListener listener_;
    Judge judge_;
    std::vector<Unidentified> unidentified_;  // in order of arrival
    bool had_room_ = true;                    // at the end of the last turn
};

}  // namespace ddprun
