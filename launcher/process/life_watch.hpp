// LifeWatch is the agent's side of a LifeTable, for the workers of one round.
//
// For each slot that a worker holds, a thread sleeps on the slot's memory word, so that the agent hears of a
// death while the kernel still frees the memory of the dead process. As long as no worker dies, none of the
// threads runs. A further thread waits for workers that take their slot: most programs never do. RoundWorkers
// owns the watch, makes one for each round, and calls everything on the agent's thread.
#pragma once

#include <boost/asio/any_io_executor.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/base/alive.hpp"
#include "rendezvous/worker/life_table.hpp"

namespace ddprun {
inline namespace launch {

class LifeWatch {
  public:
    struct Death {
        int local_rank = 0;
        std::uint64_t life = 0;  // 0: its peers do not know it yet
    };

    // Returns nullptr where the system refuses. `on_death` is called from the executor when there is
    // something to take; not after the end of the watch.
    static std::unique_ptr<LifeWatch> make(const boost::asio::any_io_executor& executor, int workers,
                                           std::function<void()> on_death);
    LifeWatch(const LifeWatch&) = delete;
    LifeWatch& operator=(const LifeWatch&) = delete;
    ~LifeWatch();

    // Returns DDPRUN_LIFE for the worker's environment; empty if there is no slot for it.
    std::string slot(int local_rank) const;

    // Waits for workers that take their slot, from here on; some may have taken it before. Where the system
    // has no thread for a slot, a death is only seen by take().
    void start();

    // Returns the deaths that were not taken before, in the order in which they were seen. Looks at all
    // slots, so that what happened before the call is among them even if no thread has run yet. At most
    // kMaxLostLives in the life of the watch.
    std::vector<Death> take();

    // Tells the workers of this node that a life was lost, here or elsewhere; 0 and what the table has no
    // room for is not told.
    void announce(std::uint64_t life);

  private:
    LifeWatch(const boost::asio::any_io_executor& executor, LifeTable&& table, int workers,
              std::function<void()> on_death);

    void watch_all();
    void watch(int slot);
    bool look_at(int slot);

    const boost::asio::any_io_executor executor_;
    LifeTable table_;
    const int slots_;
    const std::function<void()> on_death_;
    std::atomic<bool> stop_{false};
    std::mutex mutex_;
    std::vector<Death> deaths_;  // guarded by the mutex, like the next
    std::size_t seen_ = 0;       // all, taken or not
    std::thread claims_;         // starts the others and ends them
    Alive alive_;
};

}  // namespace launch
}  // namespace ddprun
