// Messenger: sends and receives by tag of one communicator, from and to any rank, beside the order of its
// collectives.
//
// Small messages go at once, and their receiver keeps them until a receive is for them; each rank bounds what
// others may send it in this way. Large messages, and all beyond that bound, are offered, and their bytes
// move when a receive has come. Between ranks of a host the receiver copies them out of the sender's memory
// (process_vm_readv), where the system lets it. Else the sender puts them on their way piece by piece. No
// buffer therefore grows without bound, and no order of sends and receives makes ranks wait for each other
// without need.
//
// A thread that waits does the work for all: under the lock it reads what has come and puts what has room.
// Where there are CPUs enough, it first looks again and again for a moment. Then it sleeps on its rank's
// bell: a word that peers, other threads and the lifeline count up. Without shared memory, one of the waiting
// threads sleeps on the connections, for all. While no thread waits, a helper does the work, as long as
// started operations are open, or bytes have not got out; it is made when first needed. With connections
// beside shared memory, another thread sleeps on those.
//
// A Messenger is its lock around three things: the exchange, which has the matching and the flow of messages,
// and the sleepers. Any thread may call any of it; in a forked child none may.
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

    // Returns when the operation has ended. Throws what it ended with, and invalid_argument for a wrong
    // request.
    void run(const MessageRequest& request, int* source = nullptr);

    // Operations: the sends and receives of one operation in turn. The thread of that operation carries them
    // out by begin_all() to give_up(), not after close().
    using Operations = std::span<MessageOperation* const>;
    void begin_all(Operations operations);
    // Looks for a moment whether the operation ends.
    bool ends_soon(MessageOperation& operation) { return operation.has_ended() || look(operation); }
    // Sleeps until the operation has ended, or `deadline`; false: it has not.
    bool await_until(MessageOperation& operation, Deadline deadline);
    // Ends the operations that have not ended, unless a byte of any has moved: false then.
    bool give_up(Operations operations);

    // Ends all operations: receives at once, sends when they are through, or at the deadline. Every later
    // call is refused.
    void close(Deadline deadline);
    // Sets the timeout of operations that begin from now on.
    void set_timeout(std::chrono::milliseconds timeout) { exchange_.open().set_timeout(timeout); }
    // Closes the connections. Called once the rank has said goodbye, else the others take it for dead.
    void disconnect();

    // start(), test(), await() and then() are for operations that are started; see MessageWork. `self` keeps
    // one while it is open.
    void start(MessageOperation& operation, std::shared_ptr<void> self);
    // Looks once at what has come, without waiting.
    void test();
    // Looks, then sleeps, until the operation has ended, or `deadline`.
    void await(MessageOperation& operation, Deadline deadline);
    // Calls done() at once where the operation has ended, else by run_beside() when it does.
    void then(MessageOperation& operation, std::function<void()> done);

  private:
    using Lock = std::unique_lock<std::mutex>;

    // Inside: a thread is in the messenger, so that nothing is taken away under it.
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

    // Waiting: a thread is in the messenger, and waits for something.
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
    // Carries out a small message by tag to or from another rank of this host; false if something is in its
    // way.
    bool passes_soon(const MessageRequest& request);
    bool look(MessageOperation& operation, Deadline deadline = Deadline::max());
    bool doze_for(MessageOperation& operation, Deadline deadline);
    void leave_alone();
    // Sleeps until there is something to do, or until what look(lock) returns. Returns false, without
    // sleeping, where that is nothing.
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
