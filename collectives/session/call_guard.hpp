// CallGuard: one call of a communicator. Keeps a second thread out meanwhile, and all calls after finalize()
// or in a forked child.
#pragma once

#include "collectives/call/checked_task.hpp"
#include "collectives/session/session.hpp"
#include "rendezvous/system/own_process.hpp"

namespace ddprun {

inline constexpr const char* kFinalized = "this communicator has been finalized";
inline constexpr const char* kOfParent =
    "this communicator belongs to another process, which this one was forked from";

// In a forked child nothing of the session may be touched: who was at it in the parent is not here.
inline bool is_of_parent(const Session& session) noexcept { return session.process != this_process(); }

class CallGuard {
  public:
    // Throws invalid_argument about the operation, or about a call that is none.
    CallGuard(Session& session, Operation operation) : session_(session) {
        if (const char* problem = enter()) refuse(operation, problem);
    }
    CallGuard(Session& session, const char* name) : session_(session) {
        if (const char* problem = enter()) refuse(name, problem);
    }
    CallGuard(const CallGuard&) = delete;
    CallGuard& operator=(const CallGuard&) = delete;
    ~CallGuard() { leave(); }

  private:
    // What is wrong, or null.
    const char* enter() {
        if (is_of_parent(session_)) return kOfParent;
        if (session_.in_use.exchange(true, std::memory_order_acquire))
            return "another thread is in a call of this communicator";
        if (session_.executor) return nullptr;
        leave();
        return kFinalized;
    }
    void leave() { session_.in_use.store(false, std::memory_order_release); }

    Session& session_;
};

}  // namespace ddprun
