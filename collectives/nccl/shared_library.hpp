// SharedLibrary: a library that is opened at run time, and its functions by name.
//
// Never closed again: NCCL and the CUDA driver leave threads behind.
#pragma once

#include <string>
#include <vector>

namespace ddprun {

class SharedLibrary {
  public:
    // The first of `names` (paths, or names for the system's search) that can be opened. Throws
    // CollectiveError with code `system`: what was tried, what the system said, and `help`.
    SharedLibrary(const std::string& what, const std::vector<std::string>& names, std::string help);

    // As it was named, and where it was found.
    const std::string& name() const noexcept { return name_; }
    const std::string& path() const noexcept { return path_; }

    // The address of a function; throws as above if the library has none of that name.
    void* require(const char* symbol) const;
    // The same, null if there is none.
    void* find(const char* symbol) const noexcept;

    // Ends the opening: throws CollectiveError with code `system`.
    [[noreturn]] void refuse(const std::string& why) const;

  private:
    std::string what_;
    std::string name_;
    std::string path_;
    std::string help_;
    void* handle_ = nullptr;
};

// Sets a pointer to a function of `library`.
template <class Function>
void bind(const SharedLibrary& library, const char* symbol, Function*& function) {
    function = reinterpret_cast<Function*>(library.require(symbol));
}

template <class Function>
void bind_if_there(const SharedLibrary& library, const char* symbol, Function*& function) {
    function = reinterpret_cast<Function*>(library.find(symbol));
}

}  // namespace ddprun
