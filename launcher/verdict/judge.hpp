// judge() finds from one look at all ranks which of them hold a job that does not get on. Pure.
//
// The rules, of which the first one that fits counts:
//   ranks that wait for each other in a ring     deadlock: these
//   some wait for others, and others do not      hang: the others, less those that wait for another of them
//     some ended with 0, nothing else computes   hang: those that ended, at most half
//     all others get on by themselves            waiting
//   all wait for others, in different calls      mismatch: the smaller camp, where one is larger than half
//     some are in an earlier call                hang: these, likewise
//     in the same call                           hang, without a suspect
//   none waits for others, most compute          hang: those that do nothing
//     none computes, some cannot go on           hang: these
//   anything else                                none
// A rank waits for others in a collective operation, in a connection to another rank, while ranks find each
// other; and in the store or for a device, unless only those are left to be the others.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "launcher/verdict/observation.hpp"
#include "launcher/verdict/verdict.hpp"

namespace ddprun {
inline namespace launch {

// JobMoment: how long the job has not got on when it was looked at.
struct JobMoment {
    std::chrono::milliseconds quiet{0};  // since its last sign of progress
    // limit: how long it may be quiet; nothing: it is looked at because of a question.
    std::optional<std::chrono::milliseconds> limit;
};

// Returns what the look tells. Before the limit the kind is `none`; suspects, waiting and the sentence say
// even then which ranks wait for which others at this moment.
HangVerdict judge(const std::vector<Observation>& observations, const JobMoment& moment);

}  // namespace launch
}  // namespace ddprun
