#include "rendezvous/system/quiet_thread.hpp"

#include <pthread.h>
#include <signal.h>

#include <utility>

namespace ddprun {

std::thread start_without_signals(std::function<void()> body) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread thread;
    try {
        thread = std::thread(std::move(body));
    } catch (...) {
        ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
        throw;
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
}

}  // namespace ddprun
