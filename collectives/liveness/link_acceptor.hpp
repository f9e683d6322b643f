// LinkAcceptor: accepts connections and reads each one's Hello before any other code sees it; where there is
// a key, also the proof that the caller has it.
//
// A LinkAcceptor is driven by the thread of Family, which polls the descriptors and calls turn(). Never
// blocks. A process of another user of this machine is closed at once: loopback does not keep such a process
// away, but the kernel tells the owner. Any other connection is closed when it does not say what it is in
// time, says something else than a Hello, or proves nothing.
//
// Places are bounded. Where too many connections have not said a Hello, the oldest of them make room.
// Strangers thus cost a fixed amount of memory, and a full queue of the listener (4,096) is through in half a
// second. A connection that has said a right Hello, which takes the nonce, makes room for none: it keeps its
// place until its own time is over. A rank that was closed before an answer calls again (redial.hpp).
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

// kMaxUnidentified: the most connections that have not said a Hello yet.
inline constexpr std::size_t kMaxUnidentified = 256;
// kCallersOfOnePlace: the most connections that owe a proof of the same Hello, challenges aside: one, and one
// more when the end of the first is still on its way. In all there are never more than that for each lane of
// each rank of each communicator.
inline constexpr std::ptrdiff_t kCallersOfOnePlace = 2;
inline constexpr std::chrono::milliseconds kHelloTimeout{5000};
// kLeastSilence: how long a connection may stay silent in any case: a rank's first bytes are on their way.
inline constexpr std::chrono::milliseconds kLeastSilence{25};
// kMostTakenPerTurn: after that many new connections the rings are served again.
inline constexpr int kMostTakenPerTurn = 64;

class LinkAcceptor {
  public:
    using Clock = Deadline::clock;
    // Judge decides about a Hello. Called once for each, and, if the answer is `prove`, once more when the
    // Hello has been proven. Without a key, `prove` is no answer.
    using Judge = std::function<HelloAnswer(const LinkHello&, bool proven)>;

    struct Accepted {
        LinkHello hello;
        TcpLink link;
    };

    // Takes connections of this machine only from processes of the user `own`, or of root.
    LinkAcceptor(TcpListener listener, Judge judge, std::optional<SecretKey> key = std::nullopt,
                 uid_t own = ::geteuid())
        : listener_(std::move(listener)), judge_(std::move(judge)), key_(std::move(key)), own_(own) {}

    void add_descriptors(std::vector<pollfd>& descriptors) const;
    // Returns when turn() must be called even if no descriptor is ready.
    std::optional<Deadline> next_deadline() const;
    // Returns the Hellos of callers that were asked for a proof which has not come.
    std::vector<LinkHello> proving() const;
    // Does what can be done now, kMostTakenPerTurn new connections at most. Returns the connections that were
    // welcomed, already answered. Bytes behind a Hello, or a proof, are not read.
    std::vector<Accepted> turn(Deadline now);

  private:
    struct Caller {
        TcpLink link;
        HelloBytes bytes{};
        std::size_t held = 0;
        // hello: set once the Hello is there and a proof is due.
        std::optional<LinkHello> hello = std::nullopt;
        Nonce challenge{};
        MeshProof proof{};
        Deadline may_go;  // from then on the caller makes room for others, while it has no Hello
        Deadline deadline;
        bool is_over = false;
    };

    // Hears the callers that have sent something, and closes those that are out of time.
    void hear_all(Deadline now, std::vector<Accepted>& accepted);
    // Reads what there is, without blocking, and judges what is complete; a welcomed connection goes to
    // `accepted`. Returns false if the connection is done here.
    bool hear(Caller& caller, Deadline now, std::vector<Accepted>& accepted);
    // Reads and judges a Hello, as hear() does; throws LinkLost, as hear_proof() does.
    bool hear_hello(Caller& caller, Deadline now, std::vector<Accepted>& accepted);
    bool hear_proof(Caller& caller, std::vector<Accepted>& accepted);
    // Asks for the proof. Returns false if the question could not be sent, or too many callers owe a proof of
    // this Hello.
    bool ask_for_proof(Caller& caller, const LinkHello& hello, Deadline now);
    // Returns true if another connection may come; the oldest silent one may have to make room for it.
    bool has_room(Deadline now);
    void take(ProcessDescriptor fd, Deadline now, std::vector<Accepted>& accepted);
    // Returns the oldest caller without a whole Hello.
    std::vector<Caller>::iterator oldest_silent();

    TcpListener listener_;
    Judge judge_;
    std::optional<SecretKey> key_;
    uid_t own_;
    std::vector<Caller> callers_;  // in order of arrival
    std::size_t silent_ = 0;       // the callers without a Hello, as of the last look
    std::vector<pollfd> polled_;   // kept so that nothing is allocated
    bool had_room_ = true;         // at the end of the last turn
};

}  // namespace detail
}  // namespace ddprun
