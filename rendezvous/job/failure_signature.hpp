// The signature of a failure: a text that two failures share if they are the same failure again, whichever rank,
// node or process it was this time. Pure; the RestartPolicy compares them.
//
// It is made of the kind, the end (signal or exit code), what the failure's message and error file say, and the
// last lines. Numbers in these texts are masked (ranks, pids, addresses, times, identifiers, steps and losses), and
// so are the nodes' names; a line whose like stands right before it is left out, so that it does not matter how
// often a program has told its progress. What differs in words is another failure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/job/failure.hpp"

namespace ddprun::inline job {

// So much of a line is compared, so that it does not matter where a long one was cut; and so much of all of them,
// within a line.
inline constexpr std::size_t kMaxComparedLine = 200;
inline constexpr std::size_t kMaxComparedText = 6'000;

// `hosts` are the names of the job's nodes; the failure's own need not be among them.
//
// Empty where the program has not failed: a lost node and a signal from outside are no fault that it repeats.
std::string failure_signature(const Failure& failure, std::vector<std::string> hosts);

// `text` with # for each number and @ for each of `hosts`. A number is a word of digits, or of hexadecimal ones
// that has the look of an address or identifier, with all that is joined to it by marks like those in 10.0.0.1:29500,
// 2026-11-23 or 1.5e-05; within another word (cuda0, 16MiB) only the digits are.
std::string masked(std::string_view text, const std::vector<std::string>& hosts);

}  // namespace ddprun::inline job
