// SharedLibrary: a library that is opened at run time, and its functions by name.
//
// Never closed again: NCCL and the CUDA driver leave threads behind.
#pragma once

#include <string>

namespace ddprun::inline detail {

class SharedLibrary {
  public:
    // Opens `name`, a path or a name for the system's search. Throws CollectiveError with code `system`: what
    // the system said, and `help`.
    SharedLibrary(std::string what, const std::string& name, std::string help);

    // Where it was found.
    const std::string& path() const noexcept { return path_; }

    // A function's address, for a pointer to a function of any type.
    struct Address {
        template <class Function>
        operator Function*() const noexcept {
            return reinterpret_cast<Function*>(pointer);
        }
        void* pointer;
    };
    // Throws as above if the library has no function of that name.
    Address require(const char* symbol) const;
    // The same, null if there is none.
    Address find(const char* symbol) const noexcept;

    // Ends the opening: throws CollectiveError with code `system`.
    [[noreturn]] void refuse(const std::string& why) const;

  private:
    std::string what_;
    std::string path_;
    std::string help_;
    void* handle_ = nullptr;
};

}  // namespace ddprun::inline detail
