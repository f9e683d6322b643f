#include "rendezvous/system/quiet_thread.hpp"

#include <pthread.h>

#include <system_error>
#include <utility>

namespace ddprun::inline base {

SignalsBlocked::SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
}

SignalsBlocked::~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

std::thread start_without_signals(std::function<void()> body) {
    const SignalsBlocked blocked;
    try {
        return std::thread(std::move(body));
    } catch (const std::system_error& error) {
        throw std::system_error(error.code(), "cannot start a thread (see ulimit -u and ulimit -v)");
    }
}

}  // namespace ddprun::inline base
