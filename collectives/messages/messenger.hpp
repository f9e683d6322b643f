// Messenger: sends and receives by tag of one communicator, from and to any rank, beside the order of its
// collectives.
//
// Small messages go at once, and are kept by their receiver until a receive is for them; each rank bounds
// what others may send it so. Large ones, and all beyond that bound, are offered, and their bytes move when a
// receive has come: between ranks of a host the receiver copies them out of the sender's memory
// (process_vm_readv), where the system lets it; else the sender puts them on their way piece by piece. So no
// buffer grows without bound, and no order of sends and receives can make ranks wait for each other that need
// not.
//
// Whoever waits does the work, for all: under the lock it reads what has come and puts what has room. A rank
// that waits looks again and again for a moment, where there are CPUs enough, then sleeps on its bell: a word
// that peers, other threads and the lifeline count up; without shared memory one of those that wait sleeps on
// the connections, for all. A thread that is made when first needed does so while nobody waits, as long as
// operations that were started are open, or bytes have not got out. With connections beside shared memory
// another one sleeps on those.
//
// A messenger is its lock around three things: the exchange, which has the matching and the flow of messages,
// and the sleepers. Any thread may call any of it. In a forked child nothing.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "collectives/messages/message_exchange.hpp"
#include "collectives/messages/message_sleepers.hpp"

namespace ddprun {
inline namespace detail {

class Messenger final : public std::enable_shared_from_this<Messenger> {
  public:
    Messenger(const MessengerPlace& place, std::unique_ptr<MessageSurroundings> surroundings,
              std::chrono::milliseconds operation_timeout);
    ~Messenger();

    // Returns when it has ended. Throws what it ended with, and invalid_argument for a wrong request.
    void run(const MessageRequest& request, int* source = nullptr);

    // These carry out one operation of sends and receives in turn; its thread calls them, not after close().
    using Operations = std::span<MessageOperation* const>;
    void begin_all(Operations operations);
    // Looks whether it ends in a moment.
    bool ends_soon(MessageOperation& operation) { return operation.has_ended() || look(operation); }
    // Sleeps until it has ended, or `deadline`.
    bool await_until(MessageOperation& operation, Deadline deadline);
    // Ends those that have not, unless a byte of any has moved: false then.
    bool give_up(Operations operations);

    // Ends all: receives at once, sends when they are through, or at the deadline. Every later call is
    // refused.
    void close(Deadline deadline);
    // Of those that begin from now on.
    void set_timeout(std::chrono::milliseconds timeout) { exchange_.open().set_timeout(timeout); }
    // Closes its connections; when the rank has said goodbye, or the others take it for dead.
    void disconnect();

    // These are for one that is started; see MessageWork. `self` keeps it while it is open.
    void start(MessageOperation& operation, std::shared_ptr<void> self);
    // Looks whether it has ended, without waiting for anybody.
    void test();
    // Looks, then sleeps until it has ended, or `deadline`.
    void await(MessageOperation& operation, Deadline deadline);
    // Calls done() at once where it has ended, else by run_beside() when it does.
    void then(MessageOperation& operation, std::function<void()> done);

  private:
    using Lock = std::unique_lock<std::mutex>;

    // A thread that is in here, so that nothing is taken away under it.
    class Inside {
      public:
        explicit Inside(Messenger& messenger) : messenger_(messenger) {
            messenger_.inside_.fetch_add(1, std::memory_order_seq_cst);
        }
        ~Inside() { messenger_.inside_.fetch_sub(1, std::memory_order_seq_cst); }
        Inside(const Inside&) = delete;
        Inside& operator=(const Inside&) = delete;
        bool closed() const { return messenger_.closed_.load(std::memory_order_seq_cst); }

      private:
        Messenger& messenger_;
    };

    // The same while it waits for something.
    class Waiting : public Inside {
      public:
        explicit Waiting(Messenger& messenger) : Inside(messenger), messenger_(messenger) {
            messenger_.sleepers_.begin_waiting();
        }
        ~Waiting() {
            if (messenger_.sleepers_.end_waiting()) messenger_.leave_alone();
        }

      private:
        Messenger& messenger_;
    };

    [[noreturn]] void refuse_closed(const MessageRequest& request) const;
    // Carries out a small message by tag to or from another rank of this host, if nothing is in its way.
    bool passes_soon(const MessageRequest& request);
    bool look(MessageOperation& operation, Deadline deadline = Deadline::max());
    bool doze_for(MessageOperation& operation, Deadline deadline);
    void leave_alone();
    // Sleeps until there is something to do, or what look(lock) returns: when, or nothing where there is no
    // need to sleep.
    template <class Look>
    bool rest(Look look);
    void poll_connections(Lock& lock, Deadline until);
    void serve_started();
    std::uint64_t watch_bell(Lock& lock);
    void serve_connections();

    const std::unique_ptr<MessageSurroundings> surroundings_;
    const bool spins_;
    const std::chrono::microseconds looks_;
    std::atomic<int> inside_{0};
    std::atomic<bool> closed_{false};
    std::mutex mutex_;  // guards what follows
    MessageSleepers sleepers_;
    MessageExchange exchange_;
};

}  // namespace detail
}  // namespace ddprun
