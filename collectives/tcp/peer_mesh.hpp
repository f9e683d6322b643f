// PeerMesh: the connections of one rank to the others, and the verdict when one of them fails.
//
// At the start only the lifeline ring is connected (two connections a rank). A data connection carries one
// direction; the rank that sends dials it when it first sends, so ranks that never talk are never connected.
// The receiver's lifeline welcomes the connection even while that rank is busy.
//
// A PeerMesh is used by the thread that runs the operations; any thread may call abort(), declare() and
// verdict(). Every wait ends by the operation's deadline, with a verdict, or with a peer's goodbye, and then
// throws CollectiveError.
#pragma once

#include <poll.h>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collectives/call/call.hpp"
#include "collectives/liveness/call_slot.hpp"
#include "collectives/liveness/judgement.hpp"
#include "collectives/liveness/lifeline.hpp"
#include "collectives/liveness/origin.hpp"
#include "collectives/wire/frame.hpp"
#include "collectives/wire/membership.hpp"
#include "collectives/wire/redial.hpp"
#include "collectives/wire/tcp_link.hpp"

namespace ddprun {
inline namespace detail {

// kVerdictTimeout: how long a rank waits to hear why a peer's connection broke, before it calls the peer dead
// itself.
inline constexpr std::chrono::milliseconds kVerdictTimeout{2000};
// kRingTimeout: how long a rank that fails while ranks join waits for its left neighbour to come and hear
// why.
inline constexpr std::chrono::milliseconds kRingTimeout{2000};
// kJudgementTimeout: how long a rank that found the ranks disagree waits until it is known what most of them
// do.
inline constexpr std::chrono::milliseconds kJudgementTimeout{5000};

// Awaited: what a rank waits for: that `in` can be read or `out` be written; each may be null. With `peer`
// and no link: that this rank dials.
struct Awaited {
    const TcpLink* in = nullptr;
    const TcpLink* out = nullptr;
    int peer = -1;
};

// kStandstill: a rank that wakes up so much later than planned stood still itself.
inline constexpr std::chrono::seconds kStandstill{1};
// Returns the end of an operation when its rank wakes up now, having planned to wake up at `planned`. After a
// standstill the rank gives its peers the operation's whole time again. Pure.
inline Deadline end_after_sleep(Deadline end, Deadline planned, Deadline now,
                                std::chrono::milliseconds whole) {
    const bool has_end = end != Deadline::max();
    return has_end && now > planned && now - planned > kStandstill ? now + whole : end;
}

class PeerMesh {
  public:
    using Clock = Deadline::clock;

    // Operation: one call in progress.
    struct Operation {
        Call call;
        Deadline deadline;
        NamedTimeout timeout;  // from which the deadline was made; for the message
    };

    // Closes the lifeline ring: returns when both neighbours are connected. `joining` limits the time, but a
    // failure may take kRingTimeout more, so that the left neighbour hears why.
    PeerMesh(Membership membership, std::optional<TcpListener> listener, const Operation& joining,
             const Origin& origin = {});

    const Membership& membership() const noexcept { return membership_; }
    int rank() const noexcept { return membership_.rank; }
    int world_size() const noexcept { return membership_.world_size(); }

    // Enters an operation; to be called first in each. Throws if the communicator has ended.
    void enter(const Operation& operation);
    // Returns where the calls are told to the agent.
    CallSlot& call_slot() noexcept { return call_slot_; }

    // Returns how many connections carry each direction between two ranks.
    int lanes() const noexcept { return lanes_; }
    // Returns whether a rank may look for data again and again before it sleeps: not when the ranks of this
    // machine share its CPUs.
    bool spins() const noexcept { return spins_; }

    // Returns a connection for data to a peer, dialled when used first.
    TcpLink& outgoing(int peer, int lane, const Operation& operation);
    // Returns a connection from a peer; null while the peer has not dialled. Throws if it never will.
    TcpLink* incoming(int peer, int lane, const Operation& operation);

    // Waits until one of `awaited` can move, or until there are news that do not end the operation, such as
    // an awaited connection; or until `until`.
    void wait(std::span<const Awaited> awaited, const Operation& operation, Deadline until = Deadline::max());

    // Throws if the communicator has ended, or a rank left that the operation needs; to be called after news.
    // For backends that move data by other means than connections.
    void throw_if_ended(const Operation& operation);
    // Throws if `peer` has left, since its part in the operation cannot come any more.
    void throw_if_left(int peer, const Operation& operation) {
        if (lifeline_.left_after(peer)) fail_left(peer, operation);
    }
    // Asks the other ranks which call they are in; throws if one is in another call with the same number.
    // Takes kAnswerTimeout at most.
    void throw_if_mismatched(const Operation& operation);
    void on_news(std::function<void()> hook) { lifeline_.on_news(std::move(hook)); }
    // Tells the agent of the wait, does what is due (see WaitSchedule), and returns when it wants to be
    // called again. Called by a thread that waits for `awaited` in the operation, after the operation's
    // deadline has been set.
    Deadline run_wait_schedule(const std::vector<int>& awaited, const Operation& operation);
    // Writes a line to the standard error for each operation that has waited that long; 0: never.
    void give_notice_after(std::chrono::milliseconds length) { notice_after_ = length; }
    // Fails since the operation's deadline has passed while this rank waited for `awaited`, or for no rank in
    // particular.
    [[noreturn]] void fail_late(const std::vector<int>& awaited, const Operation& operation);
    // Throws what fail_late() would, but ends nothing.
    [[noreturn]] void throw_late(const std::vector<int>& awaited, const Operation& operation);

    // Ends the communicator for all ranks. Returns the verdict that holds. Any thread.
    Verdict declare(const Verdict& verdict) { return lifeline_.declare(verdict); }
    // Ends the communicator, and the call with the verdict that holds.
    [[noreturn]] void fail(const Verdict& verdict, const Operation& operation);
    // Fails where `peer` has made another call than `call`, which is this rank's operation, a part of it, or
    // the call before. Takes kJudgementTimeout at most.
    [[noreturn]] void fail_mismatch(const Call& call, int peer, const Call& theirs,
                                    const Operation& operation);
    // Fails when a connection broke: finds out whether its peer died, left, or only gave up because of
    // another rank.
    [[noreturn]] void fail_lost(const LinkLost& lost, const Operation& operation);

    void abort(const std::string& reason) { declare(abort_verdict(rank(), reason)); }
    // Returns why the communicator has ended, once it has. Any thread.
    std::optional<Verdict> verdict() const { return lifeline_.verdict(); }
    Lifeline& lifeline() noexcept { return lifeline_; }
    // Leaves in order. No other function may be called afterwards.
    void leave() { lifeline_.leave(); }
    // Leaves in order, and waits until all others have, or `deadline`. Returns the ranks that have not,
    // ascending. Throws if the communicator has ended, or ends meanwhile.
    std::vector<int> leave_together(Deadline deadline);

  private:
    void connect_ring(const Operation& joining);
    // Waits for the left neighbour to come; called before this rank gives up.
    void await_left_neighbour();
    // Returns when this rank has been let in. Throws LinkLost where no listener will answer.
    void call(Dial& dial, int peer, const Operation& operation);
    // Waits for news of why the peer does not answer, which end the operation. Returns at `deadline`.
    void await_reason(int peer, Deadline deadline, const Operation& operation);
    // Returns the verdict that fail_late() would end the communicator with.
    Verdict verdict_on_late(const std::vector<int>& awaited, const Operation& operation);
    // Asks all ranks where they are; returns when all have answered, or kAnswerTimeout is over.
    void inquire(const Operation& operation);
    // Returns the operation's deadline, or a later one that was granted.
    Deadline end_of(const Operation& operation) const {
        return operation.deadline == granted_for_ ? granted_ : operation.deadline;
    }
    // Waits for news. Returns false when the deadline has passed.
    bool wait_for_news(Deadline deadline);
    [[noreturn]] void fail_left(int peer, const Operation& operation);
    // Fails since not all ranks make the same collective of that number: blames those that do something else
    // than most, or says `otherwise` where that cannot be found out.
    [[noreturn]] void fail_disagreement(std::uint64_t sequence, const Verdict& otherwise,
                                        const Operation& operation);

    Membership membership_;
    Lifeline lifeline_;
    CallSlot call_slot_;
    Deadline granted_for_{};
    Deadline granted_{};
    std::chrono::milliseconds notice_after_{0};
    std::optional<WaitSchedule> schedule_;  // the operation's; none before it has to wait
    const int lanes_;
    const bool spins_;
    using LaneOfPeer = std::pair<int, int>;
    std::map<LaneOfPeer, TcpLink> outgoing_;
    std::map<LaneOfPeer, TcpLink> incoming_;
    // polled_, awaited_ranks_: used by wait() alone; kept so that nothing is allocated.
    std::vector<pollfd> polled_;
    std::vector<int> awaited_ranks_;
};

}  // namespace detail
}  // namespace ddprun
