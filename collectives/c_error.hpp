// Errors of the C interface: codes, and what the calling thread can ask about its last one.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "collectives/error.hpp"

namespace ddprun {

struct LastError {
    std::string text;
    std::vector<int> culprits;
};

// The calling thread's.
LastError& last_error();

// As ddprun_collectives.h numbers them: 0 is success.
int code_of(CollectiveErrorCode code) noexcept;

// Returns `code`.
int remember(int code, const char* text, const std::vector<int>& culprits) noexcept;

// Runs body(); what it throws becomes a code and the thread's last error.
template <class Body>
int guarded(Body body) noexcept {
    try {
        body();
        return 0;
    } catch (const CollectiveError& error) {
        return remember(code_of(error.code()), error.what(), error.culprits());
    } catch (const std::exception& error) {
        return remember(code_of(CollectiveErrorCode::system), error.what(), {});
    } catch (...) {
        return remember(code_of(CollectiveErrorCode::system), "an unknown error", {});
    }
}

}  // namespace ddprun
