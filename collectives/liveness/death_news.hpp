// DeathNews: how a process hears from its node's agent that processes it relies on have died, and makes the
// agent announce its own death.
//
// A DeathNews holds a slot of the agent's LifeTable as long as it lives, under a life of its own (a random
// number). The DeathNews listens for the lives that are lost. When this process is killed, its agent knows at
// once, before the kernel frees the memory and closes the connections, and tells the agents of all nodes.
// There is one DeathNews for each communicator that met in a store; communicators that are split off share
// it.
//
// No rank depends on DeathNews. Where there is no table, or the slot is taken (by another communicator or
// process of the worker), the other ranks hear of this process's death by its connections. In a forked child
// the object does nothing, and may end there.
//
// Members may be called from any thread. A DeathNews has a thread, which blocks all signals and sleeps until
// the agent wakes it.
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
        // Takes in every lost life of the job, also of processes that do not concern the listener. Must
        // neither wait nor call back, except for withdraw().
        virtual void life_lost(std::uint64_t life) = 0;

      protected:
        ~Listener() = default;
    };

    // Returns null where the table cannot be opened, or no thread can be started.
    static std::shared_ptr<DeathNews> open(const LifeSlot& slot);
    // Returns the news of a communicator that takes the place of one with `news`: the same, or another if
    // `news` has been withdrawn. Null for null.
    static std::shared_ptr<DeathNews> of_successor(const std::shared_ptr<DeathNews>& news);
    // Leaves in order: from now on the agent does not take this process's end for a death.
    ~DeathNews();

    // Returns the number by which the agent announces this process's death; 0: the agent will say nothing.
    std::uint64_t life() const noexcept { return life_; }

    // Adds a listener, borrowed until remove(). The listener hears of all lives that were lost since this
    // object was made.
    void add(Listener& listener);
    // Removes a listener, which is not called any more when remove() returns.
    void remove(Listener& listener);

    // Withdraws: the agent will not announce this process's death; listening goes on. Does not wait.
    void withdraw();

  private:
    DeathNews(LifeTable table, const LifeSlot& slot);

    void run(std::uint64_t life);
    void listen();
    void tell_new_losses();

    LifeTable table_;
    const LifeSlot own_slot_;
    const int slot_ = own_slot_.slot;
    const std::uint32_t first_;  // the first loss that concerns this object
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
