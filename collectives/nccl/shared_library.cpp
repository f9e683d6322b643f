#include "collectives/nccl/shared_library.hpp"

#include <dlfcn.h>

#include <array>
#include <climits>
#include <utility>

#include "collectives/error.hpp"

namespace ddprun {
namespace {

[[noreturn]] void fail(const std::string& text) {
    throw CollectiveError(CollectiveErrorCode::system, "join: " + text, {}, "join");
}

std::string path_of(void* handle, const std::string& name) {
    if (name.find('/') != std::string::npos) return name;
    std::array<char, PATH_MAX> folder{};
    if (::dlinfo(handle, RTLD_DI_ORIGIN, folder.data()) != 0) return name;
    return std::string(folder.data()) + '/' + name;
}

}  // namespace

SharedLibrary::SharedLibrary(const std::string& what, const std::vector<std::string>& names, std::string help)
    : what_(what), help_(std::move(help)) {
    std::string tried;
    for (const std::string& name : names) {
        handle_ = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (handle_ != nullptr) {
            name_ = name;
            path_ = path_of(handle_, name);
            return;
        }
        const char* said = ::dlerror();
        tried += (tried.empty() ? "" : "; ") + std::string(said != nullptr ? said : name.c_str());
    }
    fail(what_ + " cannot be opened (" + tried + "): " + help_);
}

void* SharedLibrary::find(const char* symbol) const noexcept { return ::dlsym(handle_, symbol); }

void* SharedLibrary::require(const char* symbol) const {
    void* address = find(symbol);
    if (address == nullptr) refuse(std::string("has no function ") + symbol);
    return address;
}

void SharedLibrary::refuse(const std::string& why) const {
    fail(what_ + ", opened as " + path_ + ", " + why + ": " + help_);
}

}  // namespace ddprun
