// LinkAcceptor: accepts connections and reads each one's Hello before anybody else sees it; where there is a
// key, also the proof that the caller has it.
//
// Driven by Lifeline's thread: it polls the descriptors and calls turn(). Never blocks. A process of another
// user of this machine is closed at once: loopback does not keep it away, but the kernel says whose it is. Of
// the others, a connection that does not say what it is in time, or says something else than a Hello, or
// proves nothing, is closed.
//
// Places are bounded. Where too many connections have not said a Hello, the oldest of these make room, so
// strangers cost a fixed amount of memory and all that a listener's queue holds (4,096) are through in half a
// second. A connection that has said a right Hello, which takes the nonce, makes room for nobody: it keeps
// its place until its own time is over. Whoever has been closed before an answer calls again (redial.hpp).
#pragma once

#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "collectives/wire/frame.hpp"
#include "collectives/wire/tcp_link.hpp"
#include "rendezvous/base/deadline.hpp"

namespace ddprun {
inline namespace detail {

// Connections that have not said a Hello yet.
inline constexpr std::size_t kMaxUnidentified = 256;
// Connections that owe a proof of the same Hello, challenges aside: one, and one more whose end is still on
// its way. So there are never more in all than this for each lane of each rank of each communicator.
inline constexpr std::ptrdiff_t kCallersOfOnePlace = 2;
inline constexpr std::chrono::milliseconds kHelloTimeout{5000};
// So long a connection may stay silent in any case: the first bytes of a rank are on their way.
inline constexpr std::chrono::milliseconds kLeastSilence{25};
// The rings are served again after so many connections.
inline constexpr int kMostTakenPerTurn = 64;

class LinkAcceptor {
  public:
    using Clock = Deadline::clock;
    // Decides about a Hello; called once for each, and, if the answer is `prove`, once more when that is
    // proven. `prove` is no answer where there is no key.
    using Judge = std::function<HelloAnswer(const LinkHello&, bool proven)>;

    struct Accepted {
        LinkHello hello;
        TcpLink link;
    };

    // Callers of this machine are of the user `own`, or root's.
    LinkAcceptor(TcpListener listener, Judge judge, std::optional<SecretKey> key = std::nullopt,
                 uid_t own = ::geteuid())
        : listener_(std::move(listener)), judge_(std::move(judge)), key_(std::move(key)), own_(own) {}

    void add_descriptors(std::vector<pollfd>& descriptors) const;
    // When turn() must be called even if no descriptor is ready.
    std::optional<Deadline> next_deadline() const;
    // The Hellos of those that were asked for a proof which has not come.
    std::vector<LinkHello> proving() const;
    // Does what can be done now, kMostTakenPerTurn new connections at most. Returns those that were welcomed,
    // already answered; of others' bytes behind the Hello, or the proof, nothing is read.
    std::vector<Accepted> turn(Deadline now);

  private:
    struct Caller {
        TcpLink link;
        HelloBytes bytes{};
        std::size_t held = 0;
        // Once the Hello is there and a proof is due.
        std::optional<LinkHello> hello = std::nullopt;
        Nonce challenge{};
        MeshProof proof{};
        Deadline may_go;  // from then on it makes room for others, while it has no Hello
        Deadline deadline;
        bool is_over = false;
    };

    // Hears those of whom something has come, and closes whose time is over.
    void hear_all(Deadline now, std::vector<Accepted>& accepted);
    // Reads what there is, without blocking, and judges what is complete; what was welcomed goes to
    // `accepted`. False if the connection is done here.
    bool hear(Caller& caller, Deadline now, std::vector<Accepted>& accepted);
    // The same; both throw LinkLost.
    bool hear_hello(Caller& caller, Deadline now, std::vector<Accepted>& accepted);
    bool hear_proof(Caller& caller, std::vector<Accepted>& accepted);
    // Asks for the proof. False if it could not be sent, or too many owe that of this Hello.
    bool ask_for_proof(Caller& caller, const LinkHello& hello, Deadline now);
    // Another connection may come; perhaps the oldest silent one makes room for it.
    bool has_room(Deadline now);
    void take(ProcessDescriptor fd, Deadline now, std::vector<Accepted>& accepted);
    // The oldest of those without a whole Hello.
    std::vector<Caller>::iterator oldest_silent();

    TcpListener listener_;
    Judge judge_;
    std::optional<SecretKey> key_;
    uid_t own_;
    std::vector<Caller> callers_;  // in order of arrival
    std::size_t silent_ = 0;       // of these, as of the last look
    std::vector<pollfd> polled_;   // kept so that nothing is allocated
    bool had_room_ = true;         // at the end of the last turn
};

}  // namespace detail
}  // namespace ddprun
