// Lifeline: how a rank hears at once of what happens to the others, whatever it is doing. One per
// communicator.
//
// The ranks form a ring of connections that carry only short notices (lifeline_frame.hpp), apart from the
// data, so a notice never waits behind a full buffer. A thread of its own reads them and hands them on;
// therefore a rank that computes, or is stuck in a call, still tells its neighbours who died. The same thread
// keeps the gate, so that data connections are welcomed while this rank is busy.
//
// The order on every path is: hand the notice on first, then let this rank's own call fail. A rank that gives
// up and exits has told the culprit's name before its own connections close, and is never taken for the
// culprit.
//
// It also hears by the agent's word of ranks whose process died (agent_word.hpp), which is sooner than by
// their connections; what had arrived on these counts first. Once the communicator has ended, this rank
// withdraws from the agent's word, since that would overtake the notice of why it gave up.
//
// All public members may be called from any thread; wait() and take_data() from the one that runs the
// operations. Blocks all signals in its thread.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "collectives/liveness/agent_word.hpp"
#include "collectives/liveness/gate.hpp"
#include "collectives/liveness/kin.hpp"
#include "collectives/liveness/lifeline_frame.hpp"
#include "collectives/liveness/lifeline_state.hpp"
#include "collectives/wire/event.hpp"
#include "collectives/wire/membership.hpp"
#include "collectives/wire/tcp_link.hpp"

namespace ddprun {

// Another way by which ranks learn of an end, beside the ring (ShmLifeline). Both functions are called under
// the lifeline's lock: they must not block, nor call back.
class Witness {
  public:
    Witness() = default;
    Witness(const Witness&) = delete;
    Witness& operator=(const Witness&) = delete;

    // The communicator has ended; called once, before this rank's own call can fail.
    virtual void ended(const Verdict& verdict) = 0;
    // The connection to `peer` is over: what that means, if the witness knows better than that it died.
    virtual std::optional<Verdict> cause_of_loss(int peer) const = 0;

  protected:
    ~Witness() = default;
};

class Lifeline : private AgentWord::Listener {
  public:
    // Starts the thread. `membership` is borrowed.
    Lifeline(const Membership& membership, TcpListener listener, const Descent& descent = {});
    // Closes all connections; without leave() the others take this rank for dead.
    ~Lifeline();
    Lifeline(const Lifeline&) = delete;
    Lifeline& operator=(const Lifeline&) = delete;

    // The connection that this rank dialled to its right neighbour.
    void add_neighbour(TcpLink link);
    const std::shared_ptr<AgentWord>& word() const noexcept { return word_; }
    // True once the left neighbour has dialled this rank.
    bool has_left_neighbour() const;

    // The communicator is made: from now on its kin hear of deaths in it. (Before, who leaves looks dead.)
    void settle();
    // Until then: the communicator it is split from, else null, and why that has ended, if it has.
    Lifeline* elder() const noexcept { return elder_; }
    std::optional<Verdict> verdict_of_elder() const;

    // The data connection that `peer` has dialled to this rank as its `lane`, given away once; none while it
    // has not.
    std::optional<TcpLink> take_data(int peer, int lane);

    // Becomes readable when anything below may have changed; take_news() makes it unreadable again.
    int news_descriptor() const noexcept { return news_.descriptor(); }
    void take_news();
    // Called besides, under this object's lock: must not block, nor call back; at once if somebody has left
    // or the communicator ended before. Empty: nothing more is called.
    void on_news(std::function<void()> hook);
    // Borrowed; nullptr: there is none any more.
    void set_witness(Witness* witness);
    // The agent shall not tell of this process's death any more. Does not wait for anybody.
    void withdraw_word();

    // See LifelineState.
    void enter(const Call& call);
    // Does the same, but only while there is no verdict and nobody has left; else returns false.
    bool enter_if_quiet(const Call& call);
    std::optional<Verdict> verdict() const;
    std::optional<std::uint64_t> left_after(int rank) const;
    int left_before(std::uint64_t sequence) const;
    void inquire();
    void ask(std::uint32_t round);
    void suspect(std::uint64_t sequence);
    // Returns the verdict that holds then.
    Verdict conclude(std::uint64_t sequence, const Verdict& otherwise);
    // False once no other rank can be heard on the ring any more.
    bool hears_others() const;
    std::vector<std::optional<Call>> progress() const;
    bool all_answered() const;

    // Ends the communicator, telling everybody. Returns the verdict that holds: an earlier one, or this.
    Verdict declare(const Verdict& verdict);
    void leave();

  private:
    struct Neighbour {
        TcpLink link;
        NoticeReader reader;
    };
    struct Arrived {
        TcpLink link;
        int lane = 0;
    };

    void life_lost(std::uint64_t life) override;
    bool has_life(int rank, std::uint64_t life) const;

    void run();
    std::vector<pollfd> descriptors() const;
    void serve_gate();
    void serve_neighbours();
    void serve_lost_lives();
    // Of a call that was entered just now.
    void answer_if_owed();
    // Ends the communicator unless the rank had left.
    void judge_loss(int rank, std::string_view how);
    // False when the connection is over.
    bool read_from(Neighbour& neighbour);
    void admit(Gate::Visitor visitor);
    void greet(TcpLink link);
    HelloAnswer judge(const LinkHello& hello);
    // Where data_came_ counts the connection that says this.
    std::size_t data_index(const LinkHello& hello) const;
    void tell_news() const;
    void tell_witness();
    // Lets the kin know of deaths.
    void tell_kin();
    // One of them, or the family from before, knows that this process is dead.
    void mourn(int process);
    // Lets the witness know of a verdict that is new, and the agent, then sends.
    void carry_out(const LifelineState::Sendings& sendings);
    static void send(Neighbour& neighbour, const Notice& notice);

    const Membership& membership_;
    const std::shared_ptr<AgentWord> word_;  // null: no agent tells of deaths
    const int lanes_;
    const std::shared_ptr<Kin> kin_;
    const std::vector<int> ranks_in_elder_;
    std::vector<int> processes_;  // by rank; see Kin
    Lifeline* elder_;             // the operations' thread's alone
    Event news_;
    Event wake_thread_;
    std::mutex& mutex_;  // the kin's; guards everything below but the thread itself
    Gate gate_;          // the thread's alone
    LifelineState state_;
    std::vector<Neighbour> neighbours_;
    bool left_neighbour_came_ = false;
    std::vector<bool> data_came_;
    std::vector<Arrived> arrived_data_;
    std::vector<std::uint64_t> lost_lives_;  // heard of, not yet judged
    std::function<void()> hook_;
    Witness* witness_ = nullptr;
    bool witness_knows_ = false;
    bool settled_ = false;
    bool kin_know_ = false;
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace ddprun
