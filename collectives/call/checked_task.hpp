// checked_task(): from what a program asks for to what a backend carries out. Pure.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/call/call.hpp"
#include "collectives/call/task.hpp"
#include "collectives/operation_request.hpp"

namespace ddprun {
inline namespace detail {

// kLongestTimeout: longer ones could overflow the clock.
inline constexpr std::chrono::hours kLongestTimeout{24 * 3650};

// checked_task(): from what a program asks for to what a backend carries out. Pure.

// Throws CollectiveError, invalid_argument, about an operation of this rank.
[[noreturn]] void refuse(Operation operation, const std::string& what);
// Throws invalid_argument about a call that is no operation.
[[noreturn]] void refuse(const char* name, const std::string& what);

// Returns the task of a request. Throws invalid_argument unless the enumerators are known and fit each other,
// and the ranks are of this communicator. Pointers of buffers that count must be aligned and not null where
// they have elements; the buffers must overlap not at all or as in-place use does.
Task checked_task(const OperationRequest& request, int rank, int world_size);

// Returns what a rank tells the others of counted parts: the counts of its input's parts, for each rank, then
// of its output's.
std::vector<std::uint64_t> counts_of(const Parts& parts);
// Returns the largest of the counts that all ranks have told, in `all` by rank. Throws invalid_argument, the
// same on all ranks, where one has another count for a rank than that rank expects.
std::uint64_t agreed_count(const Call& call, std::span<const std::uint64_t> all, int world_size);

// kMostJoined: bytes of small parts that are copied together; more take longer to copy than a meeting of the
// ranks.
inline constexpr std::size_t kMostJoined = std::size_t{256} << 10;
// Reduces an all_reduce of several parts by as few calls of reduce() as possible, in order. Large parts stay
// where they lie, small ones are copied into `room`, which has kMostJoined bytes. `room` is null where there
// was no memory for it: the communicator has ended then, and reduce() throws at once.
void reduce_parts(const Task& task, std::byte* room, const std::function<void(const Task&)>& reduce);

// Returns the task of a group of sends and receives, each checked. Throws invalid_argument if one receives
// into memory of another. The task has no members where `members` is null or empty.
Task checked_group(std::shared_ptr<const std::vector<Task>> members);

}  // namespace detail
}  // namespace ddprun
