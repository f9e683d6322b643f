#include "collectives/nccl/shared_library.hpp"

#include <dlfcn.h>
#include <fmt/core.h>

#include <array>
#include <climits>
#include <utility>

#include "collectives/error.hpp"

namespace ddprun::inline detail {
namespace {

[[noreturn]] void fail(const std::string& text) {
    throw CollectiveError(CollectiveErrorCode::system, "join: " + text, {}, "join");
}

std::string path_of(void* handle, const std::string& name) {
    if (name.find('/') != std::string::npos) return name;
    std::array<char, PATH_MAX> folder{};
    if (::dlinfo(handle, RTLD_DI_ORIGIN, folder.data()) != 0) return name;
    return fmt::format("{}/{}", folder.data(), name);
}

}  // namespace

SharedLibrary::SharedLibrary(std::string what, const std::string& name, std::string help)
    : what_(std::move(what)), help_(std::move(help)), handle_(::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) {
        const char* said = ::dlerror();
        fail(fmt::format("{} cannot be opened ({}): {}", what_, said != nullptr ? said : name, help_));
    }
    path_ = path_of(handle_, name);
}

SharedLibrary::Address SharedLibrary::find(const char* symbol) const noexcept {
    return {::dlsym(handle_, symbol)};
}

SharedLibrary::Address SharedLibrary::require(const char* symbol) const {
    const Address address = find(symbol);
    if (address.pointer == nullptr) refuse(fmt::format("has no function {}", symbol));
    return address;
}

void SharedLibrary::refuse(const std::string& why) const {
    fail(fmt::format("{}, opened as {}, {}: {}", what_, path_, why, help_));
}

}  // namespace ddprun::inline detail
