// RankError and the functions here turn what the library answers into the exceptions that PyTorch's users
// catch.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "collectives/ddprun_collectives.h"

namespace ddprun {
inline namespace app {

// RankError is what torch.distributed.DistBackendError is made of, with `.ranks`: those the error is about,
// by their numbers in the group.
struct RankError : c10::DistBackendError {
    RankError(int error_code, const std::string& text, std::vector<int> about)
        : c10::DistBackendError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, text),
          code(error_code),
          ranks(std::move(about)) {}

    int code;
    std::vector<int> ranks;
};

// Returns the calling thread's latest failure, which had this code.
inline std::exception_ptr last_failure(int code) {
    std::vector<int> ranks(ddprun_last_error_culprits(nullptr, 0));
    ddprun_last_error_culprits(ranks.data(), ranks.size());
    const std::string text = c10::str("ddprun: ", ddprun_last_error());
    if (code != DDPRUN_INVALID_ARGUMENT)
        return std::make_exception_ptr(RankError(code, text, std::move(ranks)));
    try {
        TORCH_CHECK(false, text);
    } catch (...) {
        return std::current_exception();
    }
}

// Throws what a call of the library has failed with.
inline void require(int code) {
    if (code != DDPRUN_OK) std::rethrow_exception(last_failure(code));
}

}  // namespace app
}  // namespace ddprun
