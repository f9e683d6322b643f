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
#include <memory>
#include <span>
#include <thread>

#include "collectives/messages/message_exchange.hpp"
#include "collectives/tcp/tcp_backend.hpp"

namespace ddprun::inline detail {

class Messenger final : private MessageExchange, public std::enable_shared_from_this<Messenger> {
  public:
    Messenger(const MessengerPlace& place, std::chrono::milliseconds operation_timeout);
    ~Messenger() override;

    // Returns when it has ended. Throws what it ended with, and invalid_argument for a wrong request.
    void run(const MessageRequest& request, int* source = nullptr);
    // Throws invalid_argument, and system if there is no thread; all else goes to the work.
    std::shared_ptr<MessageWork> start(const MessageRequest& request);

    // These carry out one operation of sends and receives in turn; its thread calls them, not after close().
    using Works = std::span<MessageWork* const>;
    void begin_all(Works works);
    // Looks whether it ends in a moment.
    bool ends_soon(MessageWork& work) { return work.has_ended() || look(work); }
    // Sleeps until it has ended, or `deadline`.
    bool await_until(MessageWork& work, Deadline deadline);
    // Ends those that have not, unless a byte of any has moved: false then.
    bool give_up(Works works);

    // Ends all: receives at once, sends when they are through, or at the deadline. Every later call is refused.
    void close(Deadline deadline);
    // Of those that begin from now on.
    void set_timeout(std::chrono::milliseconds operation_timeout) { operation_timeout_ = operation_timeout; }
    // Closes its connections; when the rank has said goodbye, or the others take it for dead.
    void disconnect();

  private:
    friend class MessageWork;

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
    void await(MessageWork& work, Deadline deadline);
    bool look(MessageWork& work, Deadline deadline = Deadline::max());
    bool doze_for(MessageWork& work, Deadline deadline);
    void stop_waiting();
    void doze(std::uint32_t count, Deadline deadline);
    void test();
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

// Transfers: carries out sends, receives and groups of them as operations of a communicator, which take their turn and
// know no tags. Used by the thread whose turn it is.
class Transfers {
  public:
    // Both are borrowed.
    Transfers(TcpBackend& tcp, Messenger& messenger) : tcp_(tcp), messenger_(messenger) {}

    // As Backend::run().
    void run(const Task& task);

  private:
    void carry_out(std::span<const Task> members, Messenger::Works works, PeerMesh::Operation& operation);
    static std::vector<int> open_peers(Messenger::Works works);
    void await(MessageWork& work, Messenger::Works works, PeerMesh::Operation& operation);
    [[noreturn]] void fail(const Call& call, const MessageWork& work, const PeerMesh::Operation& operation);

    TcpBackend& tcp_;
    Messenger& messenger_;
    Deadline next_notice_{};
};

}  // namespace ddprun::inline detail
