// ddprun_communicator, ddprun_work, ddprun_buffer and guarded(): the handles of the C interface, and how
// exceptions become its codes. Shared by its sources.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <vector>

#include "collectives/communicator.hpp"

struct ddprun_communicator {
    ddprun::Communicator communicator;
};

struct ddprun_work {
    ddprun::Work work;
};

struct ddprun_buffer {
    ddprun::SharedBuffer<unsigned char> memory;
};

namespace ddprun {

struct LastError {
    std::string text;
    std::vector<int> culprits;
};

// Returns the calling thread's LastError.
inline LastError& last_error() {
    thread_local LastError error;
    return error;
}

// Remembers what failed with `code`, for the calling thread to ask about. Returns the code's number in C.
inline int remember(CollectiveErrorCode code, const char* text, const std::vector<int>& culprits) noexcept {
    LastError& last = last_error();
    try {
        last.culprits = culprits;
        last.text = text;
    } catch (const std::bad_alloc&) {
        // The text fits without an allocation.
        last.text = "out of memory";
    }
    return static_cast<int>(code) + 1;
}

// Runs body(); what it throws becomes a code and the thread's last error.
template <class Body>
int guarded(Body body) noexcept {
    try {
        body();
        return 0;
    } catch (const CollectiveError& error) {
        return remember(error.code(), error.what(), error.culprits());
    } catch (const std::exception& error) {
        return remember(CollectiveErrorCode::system, error.what(), {});
    } catch (...) {
        return remember(CollectiveErrorCode::system, "an unknown error", {});
    }
}

[[noreturn]] inline void refuse_argument(const std::string& what) {
    throw CollectiveError(CollectiveErrorCode::invalid_argument, what);
}

inline Communicator& checked(ddprun_communicator* comm) {
    if (comm == nullptr) refuse_argument("the communicator is NULL");
    return comm->communicator;
}

// Runs make(), and puts a handle to what it makes where the caller wants it: NULL if it throws.
template <class Handle, class Make>
int make_handle(Handle** place, Make make) {
    return guarded([&] {
        if (place == nullptr) refuse_argument("the place for the result is NULL");
        *place = nullptr;
        *place = new Handle{make()};
    });
}

}  // namespace ddprun
