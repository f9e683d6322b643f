// ShmLifeline: how the ranks of one host learn at once of a death among them, and of the communicator's end.
//
// The ranks form a ring. Each has a word in shared memory, a robust futex, which a thread of its ShmLifeline
// holds while the rank is in the communicator. Meanwhile the thread sleeps on the word of its right
// neighbour. When a process ends in any way (a signal, exit, _exit, exec), the kernel marks the word and
// wakes that sleeper. Only then does it free the process's memory, which takes 60 ms a GiB, and close its
// connections, by which TCP sees the death. A neighbour that leaves in order releases its word, and the
// sleeper goes on to the next word of the ring. A new death behind that neighbour is seen as well.
//
// Verdicts, also those that came by other ways, go through shared memory, too. A rank writes its last_record,
// names itself in the segment's end if no rank has yet, and wakes all these threads. A rank that gives up
// because of another has done so before its call can fail, so a rank that sees it end knows already why. The
// store of `last_record_size` releases the record. Whatever takes the bit of waiters away releases `first` to
// the sleeper, which sets the bit before it looks.
//
// The word holds a thread's number in its own PID namespace, at which no other process looks. The kernel
// wakes one waiter for a death, and each word has one: the nearest rank to the left that has not left, or its
// own rank. Of two waiters, one could set the bit again that a wake has just taken away, and the other sleep
// through the wake.
//
// The lifeline has a thread of its own, since a thread can wait on one futex only (futex_waitv needs Linux
// 5.16) and has one list of robust ones. The thread sleeps until a rank leaves or dies. A communicator that
// comes from another has no such thread: deaths are told by the one it comes from (Family), or, where that
// has ended, by the connections.
//
// Robust futexes: docs.kernel.org/locking/robust-futex-ABI.html. Where the system refuses them, the word is
// released from the start, TCP finds a death of this rank, and its thread sleeps on no word but its own.
#pragma once

#include <atomic>
#include <functional>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "collectives/liveness/end_observer.hpp"
#include "collectives/liveness/lifeline.hpp"
#include "collectives/shm/shm_segment.hpp"

namespace ddprun {
inline namespace detail {

// ExitMark: does something when this process calls exit() or returns from main(), as leaving a mark in shared
// memory.
//
// By the mark, others tell a process that ended without destroying its communicator from one that was killed.
// _exit(), exec and signals leave no mark, nor does a forked child's exit().
class ExitMark {
  public:
    // Calls mark() at exit, until this object's end; mark() must not wait.
    explicit ExitMark(std::function<void()> mark);
    ~ExitMark();
    ExitMark(const ExitMark&) = delete;
    ExitMark& operator=(const ExitMark&) = delete;

  private:
    struct All;
    std::function<void()> mark_;
    All& all_;
};

class ShmLifeline final : private EndObserver {
  public:
    // ShmLifeline is made for the rank at `place` in the segment. `ranks` are the ranks of all places; empty
    // where they are the same. Borrows all, and is the lifeline's observer until its end. `waiting` may be
    // null; else it is the thread that waits in a call (0: none), which is helped to a CPU when the
    // communicator has ended.
    ShmLifeline(const ShmSegment& segment, int place, std::vector<int> ranks, Lifeline& lifeline,
                const std::atomic<int>* waiting = nullptr);
    // Leaves the ring in order.
    ~ShmLifeline();

    // Returns false where the system has no robust futexes for this rank.
    bool holds() const { return holds_.load(); }

  private:
    void ended(const Verdict& verdict) override;
    std::optional<Verdict> cause_of_loss(int peer) const override;

    void mark_exit();
    void run();
    // Sleeps round the ring until this rank leaves.
    void watch();
    void sleep_on(int place);
    // Ends the sleep of the thread on that place's word.
    void wake_sleeper(int place);
    void release();
    // Makes the waiting thread of this rank hear of the end at once. Without help the thread may be queued,
    // until the next tick of the clock (4 ms), on the CPU where the kernel frees the dead process's memory,
    // while other CPUs idle.
    void help_waiting_thread() const;
    // Returns why the communicator ended, if any rank of the host has said so.
    std::optional<Verdict> cause_of_end() const;
    std::optional<Verdict> last_record_of(int place) const;
    int rank_of(int place) const;
    int next(int place) const { return (place + 1) % segment_.world_size(); }

    const ShmSegment& segment_;
    int place_;
    std::vector<int> ranks_;
    Lifeline& lifeline_;
    const std::atomic<int>* waiting_;
    ShmLife& life_;
    ExitMark exit_mark_;
    std::latch started_{1};
    std::atomic<bool> holds_{false};
    std::atomic<bool> stopping_{false};
    std::atomic<int> watched_;
    std::thread thread_;
};

}  // namespace detail
}  // namespace ddprun
