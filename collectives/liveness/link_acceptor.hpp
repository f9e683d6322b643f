// LinkAcceptor: accepts connections and reads each one's Hello before anybody else sees it; where there is a key, also the
// proof that the caller has it.
//
// Driven by Lifeline's thread: it polls the descriptors and calls turn(). Never blocks. A connection that does
// not say what it is in time, or says something else than a Hello, or proves nothing, is closed; the number of such connections
// is bounded, and where there are too many the oldest make room, so strangers cost a fixed amount of memory and no rank
// its place: all that a listener's queue holds (4,096) are through in half a second.
#pragma once

#include <poll.h>

#include <functional>
#include <optional>
#include <vector>

#include "collectives/wire/frame.hpp"
#include "collectives/wire/mesh_proof.hpp"
#include "collectives/wire/tcp_link.hpp"
#include "rendezvous/system/deadline.hpp"

namespace ddprun::inline detail {

inline constexpr std::size_t kMaxUnidentified = 256;
inline constexpr std::chrono::milliseconds kHelloTimeout{5000};
// So long a connection may stay silent in any case: the first bytes of a rank are on their way.
inline constexpr std::chrono::milliseconds kLeastSilence{25};

class LinkAcceptor {
  public:
    using Clock = Deadline::clock;
    // Decides about a Hello; called once for each, and, if the answer is `prove`, once more when that is proven. `prove`
    // is no answer where there is no key.
    using Judge = std::function<HelloAnswer(const LinkHello&, bool proven)>;

    struct Accepted {
        LinkHello hello;
        TcpLink link;
    };

    LinkAcceptor(TcpListener listener, Judge judge, std::optional<SecretKey> key = std::nullopt)
        : listener_(std::move(listener)), judge_(std::move(judge)), key_(std::move(key)) {}

    void add_descriptors(std::vector<pollfd>& descriptors) const;
    // When turn() must be called even if no descriptor is ready.
    std::optional<Deadline> next_deadline() const;
    // The deadline of those that were asked for a proof which has not come.
    std::vector<LinkHello> proving() const;
    // Does all that can be done now. Returns those that were welcomed, already answered; of others' bytes behind
    // the Hello, or the proof, nothing is read.
    std::vector<Accepted> turn(Deadline now);

  private:
    struct Unidentified {
        TcpLink link;
        HelloBytes bytes{};
        std::size_t held = 0;
        // Once the Hello is there and a proof is due.
        std::optional<LinkHello> hello = std::nullopt;
        Nonce challenge{};
        MeshProof proof{};
        Deadline may_go;  // from then on it makes room for others
        Deadline deadline;
    };

    // Hears those that are not identified, and closes whose time is over.
    void hear(Deadline now, std::vector<Accepted>& accepted);
    // Another connection may come; perhaps the oldest makes room for it.
    bool has_room(Deadline now) const;
    // Both read what there is, without blocking, and judge what is complete; what was welcomed goes to `accepted`.
    // False if the connection is done here. Throw LinkLost.
    bool hear_hello(Unidentified& connection, std::vector<Accepted>& accepted);
    bool hear_proof(Unidentified& connection, std::vector<Accepted>& accepted);
    // Asks for the proof. False if it could not be sent.
    bool ask_for_proof(Unidentified& connection, const LinkHello& hello);

    TcpListener listener_;
    Judge judge_;
    std::optional<SecretKey> key_;
    std::vector<Unidentified> unidentified_;  // in order of arrival
    bool had_room_ = true;                    // at the end of the last turn
};

}  // namespace ddprun::inline detail
