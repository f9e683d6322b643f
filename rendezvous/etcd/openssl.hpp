// open_openssl() opens the system's OpenSSL, which is neither linked nor carried, when the first TlsContext
// is made; no other program pays for it.
//
// OpenSSL's headers declare the functions; openssl.cpp defines those that are called, each as a jump into the
// opened library. No function of OpenSSL may be called before open_openssl() has returned.
#pragma once

namespace ddprun {
inline namespace job {

inline constexpr const char* kOpensslFile = "libssl.so.3";

// Opens the system's OpenSSL, once in a process; callable from any thread. Throws Error, which names the
// package that has it, where there is none or it lacks a function. `file`: another one, for tests.
void open_openssl(const char* file = kOpensslFile);

}  // namespace job
}  // namespace ddprun
