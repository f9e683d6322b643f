#include "collectives/c_error.hpp"

#include <new>

namespace ddprun {

LastError& last_error() {
    thread_local LastError error;
    return error;
}

int code_of(CollectiveErrorCode code) noexcept { return static_cast<int>(code) + 1; }

int remember(int code, const char* text, const std::vector<int>& culprits) noexcept {
    LastError& last = last_error();
    try {
        last.culprits = culprits;
        last.text = text;
    } catch (const std::bad_alloc&) {
        // Fits without an allocation.
        last.text = "out of memory";
    }
    return code;
}

}  // namespace ddprun
