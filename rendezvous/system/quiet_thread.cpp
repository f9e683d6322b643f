#include "rendezvous/system/quiet_thread.hpp"

#include <pthread.h>

#include <utility>

namespace ddprun {

SignalsBlocked::SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
}

SignalsBlocked::~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

std::thread start_without_signals(std::function<void()> body) {
    const SignalsBlocked blocked;
    return std::thread(std::move(body));
}

}  // namespace ddprun
