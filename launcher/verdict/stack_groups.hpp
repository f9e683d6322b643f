// StackGroup is a stack with the ranks that have it: what `ddpctl stacks` shows, as text and as JSON (schema
// 1). Pure.
#pragma once

#include <boost/json/fwd.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/verdict/observation.hpp"
#include "launcher/verdict/verdict.hpp"

namespace ddprun {
inline namespace launch {

struct StackGroup {
    std::vector<int> ranks;  // ascending
    WaitKind kind = WaitKind::running;
    std::optional<std::string> object;  // where all wait for the same one
    std::optional<Frame> where;         // of the user
    std::vector<Frame> frames;          // the innermost first
    StackSource source = StackSource::proc;

    bool operator==(const StackGroup&) const = default;
};
BOOST_DESCRIBE_STRUCT(StackGroup, (), (ranks, kind, object, where, frames, source))

// Returns equal stacks once, the smallest group first. A rank of which nothing is known is in none.
std::vector<StackGroup> stack_groups(const std::vector<Observation>& observations);

// StacksTaking: how the stacks were asked for, and when.
struct StacksTaking {
    std::string id;  // of the job
    std::int64_t taken_unix_ms = 0;
    std::int64_t took_ms = 0;
    int ranks_asked = 0;
    bool threads = false;  // all threads of each rank, too
    bool native = false;   // all native frames, too; else only the innermost one
    // quiet_since_unix_ms: when the job had got on last; nothing: not known.
    std::optional<std::int64_t> quiet_since_unix_ms;
};

// Returns what GET /stacks answers. `nccl` is null, for what NCCL answers.
boost::json::object stacks_json(const StacksTaking& taking, const std::vector<Observation>& observations,
                                const HangVerdict& verdict);
// Returns null for a verdict of kind none.
boost::json::value verdict_json(const HangVerdict& verdict, const StacksTaking& taking);

// Returns the same for people, with a newline behind each line.
std::string stacks_text(const StacksTaking& taking, const std::vector<Observation>& observations,
                        const HangVerdict& verdict);

}  // namespace launch
}  // namespace ddprun
