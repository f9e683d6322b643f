// Checked task: from what a program asks for to what a backend carries out. Pure.
#pragma once

#include <string>

#include "collectives/call/backend.hpp"
#include "collectives/operation_request.hpp"

namespace ddprun::inline detail {

// Throws CollectiveError, invalid_argument, about an operation of this rank.
[[noreturn]] void refuse(Operation operation, const std::string& what);
// The same about a call that is no operation.
[[noreturn]] void refuse(const char* name, const std::string& what);

// Throws invalid_argument unless the enumerators are known and fit each other, the ranks are of this
// communicator, and pointers of buffers that count are aligned, not null where they have elements, and
// overlap not at all or as in-place use does.
Task checked_task(const OperationRequest& request, int rank, int world_size);

// A group of sends and receives, each checked. Throws invalid_argument if one receives into memory of
// another. Without members for null and none.
Task checked_group(std::shared_ptr<const std::vector<Task>> members);

}  // namespace ddprun::inline detail
