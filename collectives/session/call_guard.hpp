// CallGuard: one call of a communicator: finalize() waits until it is through. Keeps out calls after that, or
// in a forked child.
#pragma once

#include "collectives/session/executor.hpp"
#include "collectives/session/session.hpp"
#include "rendezvous/system/own_process.hpp"

namespace ddprun {
inline namespace detail {

inline constexpr const char* kOfParent =
    "this communicator belongs to another process, which this one was forked from";

// Returns true in a forked child, where nothing of the session may be touched: the threads that used it do
// not exist there.
inline bool is_of_parent(const Session& session) noexcept { return session.process != this_process(); }

class CallGuard {
  public:
    // Throws invalid_argument that names the operation, or a call that is none.
    template <class Name>
    CallGuard(Session& session, Name name) : session_(session) {
        if (const char* problem = enter()) refuse(name, problem);
    }
    CallGuard(const CallGuard&) = delete;
    CallGuard& operator=(const CallGuard&) = delete;
    ~CallGuard() { leave(); }

  private:
    const char* enter() {
        if (is_of_parent(session_)) return kOfParent;
        ++session_.calls;
        if (!session_.ending) return nullptr;
        leave();
        return kFinalized;
    }
    void leave() {
        --session_.calls;
        if (session_.ending) session_.calls.notify_all();
    }

    Session& session_;
};

}  // namespace detail
}  // namespace ddprun
