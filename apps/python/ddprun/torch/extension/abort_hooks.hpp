// AbortHooks are what torch wants to be run when a group has ended by an error.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "apps/python/ddprun/torch/extension/operation.hpp"
#include "collectives/ddprun_collectives.h"

namespace ddprun {
inline namespace app {

// AbortHooks run after the peers have been told: in the thread that calls abort(), or, where a peer has died
// or did not come, on a thread of their own. The latter is one of the group's Calls: Python waits for it when
// it ends, and none begins from then on.
class AbortHooks : public std::enable_shared_from_this<AbortHooks> {
  public:
    void add(int64_t id, std::function<void()> hook) {
        const std::lock_guard lock(mutex_);
        hooks_[id] = std::move(hook);
    }
    void remove(int64_t id) {
        const std::lock_guard lock(mutex_);
        hooks_.erase(id);
    }
    void run() {
        for (const auto& [id, hook] : listed()) hook();
    }
    // Notes that this process ends the group: the thread that does so runs the hooks.
    void aborts() { aborted_ = true; }
    // Runs the hooks when the communicator has ended by an error.
    void watch(ddprun_communicator* comm, const std::shared_ptr<Calls>& calls) {
        struct Watch {
            std::shared_ptr<AbortHooks> hooks;
            std::shared_ptr<Calls> calls;
        };
        aborted_ = false;
        auto context = std::make_unique<Watch>(Watch{shared_from_this(), calls});
        const auto ended = [](void* given, int code) {
            const std::unique_ptr<Watch> mine(static_cast<Watch*>(given));
            if (code == DDPRUN_OK || mine->hooks->aborted_ || mine->hooks->listed().empty()) return;
            if (!mine->calls->begin_unless_closed()) return;
            std::thread([hooks = mine->hooks, calls = mine->calls] {
                calls->run([&] { hooks->run_all(); });
            }).detach();
        };
        if (ddprun_on_end(comm, ended, context.get()) == DDPRUN_OK) context.release();
    }

  private:
    std::map<int64_t, std::function<void()>> listed() {
        const std::lock_guard lock(mutex_);
        return hooks_;
    }
    // Runs all hooks; a hook that fails keeps no other from running.
    void run_all() noexcept {
        for (const auto& [id, hook] : listed()) {
            try {
                hook();
            } catch (const std::exception& error) {
                TORCH_WARN("ddprun: an abort hook has failed: ", error.what());
            }
        }
    }

    std::atomic<bool> aborted_{false};
    std::mutex mutex_;
    std::map<int64_t, std::function<void()>> hooks_;
};

}  // namespace app
}  // namespace ddprun
