#include "collectives/wire/nonce.hpp"

#include <sys/random.h>

#include <cerrno>

#include "rendezvous/system/error.hpp"

namespace ddprun::inline detail {

Nonce random_nonce() {
    Nonce nonce;
    if (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
        fail_errno(errno, "cannot get random bytes");
    }
    return nonce;
}

}  // namespace ddprun::inline detail
