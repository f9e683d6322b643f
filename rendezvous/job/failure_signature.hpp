// failure_signature() is a text that two failures share if they are the same failure again, whichever rank,
// node or process it was this time. Pure; the RestartPolicy compares them.
//
// The signature is made of the kind, the end (signal or exit code), what the failure's message and error file
// say, and the last lines. Numbers in these texts are masked (ranks, pids, addresses, times, identifiers,
// steps and losses), and so are the nodes' names. A line is left out where its like stands right before it:
// it does not matter how often a program has told its progress. What differs in words is another failure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/job/failure.hpp"

namespace ddprun {
inline namespace job {

// kMaxComparedLine: bytes of a line that are compared, so that it does not matter where a long one was cut.
// kMaxComparedText: bytes of all lines, give or take a line.
inline constexpr std::size_t kMaxComparedLine = 200;
inline constexpr std::size_t kMaxComparedText = 6'000;

// Returns the signature. `hosts` are the names of the job's nodes; the failure's own need not be among them.
//
// Empty where the program has not failed: a lost node and a signal from outside are no fault that it repeats.
std::string failure_signature(const Failure& failure, std::vector<std::string> hosts);

// Returns `text` with # for each number and @ for each of `hosts`. A number is a word of digits, or of
// hexadecimal digits that look like an address or identifier. Parts joined to it by marks, as in
// 10.0.0.1:29500, 2026-11-23 or 1.5e-05, belong to it. Within another word (cuda0, 16MiB) only the digits are
// a number.
std::string masked(std::string_view text, const std::vector<std::string>& hosts);

}  // namespace job
}  // namespace ddprun
