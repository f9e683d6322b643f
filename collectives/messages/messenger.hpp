// Messenger: sends and receives by tag of one communicator, from and to any rank, beside the order of its collectives.
//
// Small messages go at once, and are kept by their receiver until a receive is for them; each rank bounds what others may
// send it so. Large ones, and all beyond that bound, are offered, and their bytes move when a receive has come: between
// ranks of a host the receiver copies them out of the sender's memory (process_vm_readv), where the system lets it; else
// the sender puts them on their way piece by piece. So no buffer grows without bound, and no order of sends and receives
// can make ranks wait for each other that need not.
//
// Whoever waits does the work, for all: under the lock it reads what has come and puts what has room. A rank that waits
// looks again and again for a moment, where there are CPUs enough, then sleeps on its bell: a word that peers, other
// threads and the lifeline count up; without shared memory one of those that wait sleeps on the connections, for all. A thread
// that is made when first needed does so while nobody waits, as long as operations that were started are open, or bytes have
// not got out. With connections beside shared memory another one sleeps on those.
//
// Any thread may call any of it. In a forked child nothing.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <thread>

#include "collectives/messages/message_exchange.hpp"

namespace ddprun::inline detail {

class Messenger final : private MessageExchange, public std::enable_shared_from_this<Messenger> {
  public:
    Messenger(const MessengerPlace& place, std::chrono::milliseconds operation_timeout);
    ~Messenger() override;

    // Returns when it has ended. Throws what it ended with, and invalid_argument for a wrong request.
    void run(const MessageRequest& request, int* source = nullptr);
    // These carry out one operation of sends and receives in turn; its thread calls them, not after close().
    using Works = std::span<MessageOperation* const>;
    void begin_all(Works works);
    // Looks whether it ends in a moment.
    bool ends_soon(MessageOperation& work) { return work.has_ended() || look(work); }
    // Sleeps until it has ended, or `deadline`.
    bool await_until(MessageOperation& work, Deadline deadline);
    // Ends those that have not, unless a byte of any has moved: false then.
    bool give_up(Works works);

    // Ends all: receives at once, sends when they are through, or at the deadline. Every later call is refused.
    void close(Deadline deadline);
    // Of those that begin from now on.
    void set_timeout(std::chrono::milliseconds operation_timeout) { operation_timeout_ = operation_timeout; }
    // Closes its connections; when the rank has said goodbye, or the others take it for dead.
    void disconnect();

    // These are for one that is started; see MessageWork. `self` keeps it while it is open.
    void start(MessageOperation& work, std::shared_ptr<void> self);
    // Looks whether it has ended, without waiting for anybody.
    void test();
    // Looks, then sleeps until it has ended, or `deadline`.
    void await(MessageOperation& work, Deadline deadline);
    // Calls done() at once where it has ended, else by run_beside() when it does.
    void then(MessageOperation& work, std::function<void()> done);

  private:
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
            messenger_.waiters_.fetch_add(1, std::memory_order_seq_cst);
            messenger_.disarm_helper();
        }
        ~Waiting() { messenger_.stop_waiting(); }

      private:
        Messenger& messenger_;
    };

    [[noreturn]] void refuse_closed(const MessageRequest& request) const;
    // Carries out a small message by tag to or from another rank of this host, if nothing is in its way.
    bool passes_soon(const MessageRequest& request);
    bool look(MessageOperation& work, Deadline deadline = Deadline::max());
    bool doze_for(MessageOperation& work, Deadline deadline);
    void stop_waiting();
    void doze(std::uint32_t count, Deadline deadline);
    // Sleeps until there is something to do, or what look(lock) returns: when, or nothing where there is no need to sleep.
    template <class Look>
    bool rest(Look look);
    void poll_connections(Lock& lock, Deadline until);
    void need_thread();
    // Whoever has something for this rank rings for the thread that rests on the bell.
    void arm_helper() {
        if (!armed_.exchange(true)) bell_->sleepers.fetch_add(1, std::memory_order_seq_cst);
    }
    void disarm_helper() {
        if (armed_.load() && armed_.exchange(false)) bell_->sleepers.fetch_sub(1, std::memory_order_seq_cst);
    }
    void need_connections() override;
    void serve_started();
    void serve_connections();
    void stop_threads();

    std::atomic<int> waiters_{0};
    std::atomic<int> inside_{0};
    bool stopping_ = false;
    bool helper_rests_ = false;
    bool has_poller_ = false;  // a thread is in poll_connections(), whose these are
    std::vector<pollfd> polled_;
    std::thread helper_;
    std::thread connections_;
};

}  // namespace ddprun::inline detail
