// DeathNews: how a process hears from its node's agent that processes it relies on have died, and makes the
// agent tell the others of its own death.
//
// It holds a slot of the agent's LifeTable for as long as it lives, under a life of its own, and listens for
// the lives that are lost. When this process is killed, its agent knows at once, before the kernel frees the
// memory and closes the connections, and tells the agents of all nodes. One for each communicator that met in
// a store; those that are split off share it.
//
// It is an addition: where there is no table, or the slot is taken (by another communicator of the
// process, or another process of the worker), the others hear of this process's death as they would without,
// by its connections. In a forked child the object does nothing, and may end there.
//
// Members may be called from any thread. Has a thread, which blocks all signals and sleeps until the agent
// rings.
#pragma once

#include <atomic>
#include <cstdint>
#include <latch>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "rendezvous/worker/life_table.hpp"

namespace ddprun {
inline namespace detail {

class DeathNews {
  public:
    class Listener {
      public:
        // This process may be any of the job. Must neither wait nor call back, but for withdraw().
        virtual void life_lost(std::uint64_t life) = 0;

      protected:
        ~Listener() = default;
    };

    // Null where the table cannot be opened, or there can be no thread.
    static std::shared_ptr<DeathNews> open(const LifeSlot& slot);
    // Returns the news of a communicator that takes the place of one with `news`: the same, or another if
    // that has been withdrawn. Null for null.
    static std::shared_ptr<DeathNews> of_successor(const std::shared_ptr<DeathNews>& news);
    // Leaves in order: the agent does not take this process's end for a death any more.
    ~DeathNews();

    // The agent calls this process so when it dies; 0: it will say nothing.
    std::uint64_t life() const noexcept { return life_; }

    // Borrows the listener until remove(). It hears of all lives that were lost since this object was made.
    void add(Listener& listener);
    // When it returns, the listener is not called any more.
    void remove(Listener& listener);

    // The agent shall say nothing any more; listening goes on. Does not wait for anybody.
    void withdraw();

  private:
    DeathNews(LifeTable table, const LifeSlot& slot);

    void run(std::uint64_t life);
    void listen();
    void tell_new_losses();

    LifeTable table_;
    const LifeSlot own_slot_;
    const int slot_ = own_slot_.slot;
    const std::uint32_t first_;  // losses before are not this object's business
    std::uint64_t life_ = 0;
    std::atomic<bool> holds_{false};
    std::atomic<bool> stopping_{false};
    std::mutex mutex_;  // guards the next two
    std::uint32_t told_;
    std::vector<Listener*> listeners_;
    std::latch started_{1};
    std::thread thread_;
};

}  // namespace detail
}  // namespace ddprun
