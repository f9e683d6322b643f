// OpenSSL as this program carries it: a shared library among its own bytes, which is loaded when it is wanted.
//
// Its functions are declared by its own headers, and defined for those that rendezvous/CMakeLists.txt lists. None may be
// called before load_tls_library() has returned.
#pragma once

namespace ddprun::inline job {

// Loads it, once in a process; callable from any thread. Throws Error where the system does not allow that.
void load_tls_library();

}  // namespace ddprun::inline job
