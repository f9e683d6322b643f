#include "rendezvous/etcd/tls_library.hpp"

#include <dlfcn.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "rendezvous/system/check.hpp"
#include "rendezvous/system/error.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

// By scripts/cmake/carried_library.cmake.
extern "C" {
extern const char tls_library_begin[], tls_library_end[];
extern const char tls_library_names[];  // one behind the other, each with a zero; an empty one ends them
extern void* tls_library_calls[];       // where each of them leads to
}

namespace ddprun::inline job {
namespace {

[[noreturn]] void refuse_tls(const std::string& why) {
    fail(Errc::refused,
         fmt::format("--rdzv-conf protocol https: TLS cannot be loaded: {}; protocol=http asks a listener "
                     "without it",
                     why));
}

// A file without a name.
OwnedDescriptor library_file() {
    OwnedDescriptor file(::memfd_create("tls_library", MFD_CLOEXEC));
    if (!file) refuse_tls(std::string("memfd_create: ") + std::strerror(errno));
    for (const char* at = tls_library_begin; at < tls_library_end;) {
        const ssize_t count = ::write(file.get(), at, static_cast<std::size_t>(tls_library_end - at));
        if (count < 0 && errno != EINTR) refuse_tls(std::string("write: ") + std::strerror(errno));
        if (count > 0) at += count;
    }
    return file;
}

void* loaded() {
    const OwnedDescriptor file = library_file();
    void* const library =
        ::dlopen(fmt::format("/proc/self/fd/{}", file.get()).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) refuse_tls(::dlerror());
    void** call = tls_library_calls;
    for (const char* name = tls_library_names; *name != '\0'; name += std::strlen(name) + 1) {
        *call = ::dlsym(library, name);
        check(*call++ != nullptr, name);
    }
    return library;
}

}  // namespace

void load_tls_library() {
    static const void* const library = loaded();
    check(library != nullptr, "TLS is loaded");
}

}  // namespace ddprun::inline job
