// LifeWatch: the agent's side of a LifeTable, for the workers of one round.
//
// For each slot a thread sleeps on its word, so that the agent hears of a death while the kernel still frees
// the memory of the dead; as long as nobody dies, none of them runs. RoundWorkers owns it, makes one for each
// round, and calls everything on the agent's thread.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

class LifeWatch {
  public:
    struct Death {
        int local_rank = 0;
        std::uint64_t life = 0;  // 0: its peers do not know it yet
    };

    // nullptr where the system refuses. `on_death` is called from the executor when there is something to
    // take; not after the end of the watch.
    static std::unique_ptr<LifeWatch> make(const boost::asio::any_io_executor& executor, int workers,
                                           std::function<void()> on_death);
    LifeWatch(const LifeWatch&) = delete;
    LifeWatch& operator=(const LifeWatch&) = delete;
    // Ends the threads.
    ~LifeWatch();

    // For the worker's environment: DDPRUN_LIFE. Empty if there is no slot for it.
    std::string seat(int local_rank) const;

    // Starts the threads, which may follow the start of the workers. Where there can be none, a death is only
    // seen by take().
    void start();

    // The deaths that were not taken before, in the order in which they were seen. Looks at all slots, so
    // that what happened before the call is among them even if no thread has run yet. At most kMaxLostLives
    // in the life of the watch.
    std::vector<Death> take();

    // Tells the workers of this node that a life was lost, here or elsewhere; 0 and what the table has no
    // room for is not told.
    void announce(std::uint64_t life);

  private:
    struct State;
    struct Watcher;

    explicit LifeWatch(std::shared_ptr<State> state);

    std::shared_ptr<State> state_;
    std::vector<Watcher> watchers_;
};

}  // namespace ddprun
