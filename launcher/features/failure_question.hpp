// The question that a program of the user's is asked about a failure, and the answers that it may give. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/codec/description.hpp"
#include "rendezvous/control/control_message.hpp"
#include "rendezvous/job/failure.hpp"

namespace ddprun::inline launch {

// The job and the round that failed.
struct FailureQuestion {
    std::string run_id;
    std::string job_id;
    int round = 0;
    int restarts = 0;
    int max_restarts = 0;
    int nodes = 1;  // of the round
};
BOOST_DESCRIBE_STRUCT(FailureQuestion, (), (run_id, job_id, round, restarts, max_restarts, nodes))

// One object in one line: the members above, then those of the failure.
std::string to_json(const FailureQuestion& question, const Failure& failure);

// `restart`, `stop` or `exclude NODE` as the first line of what the program has said, with any blanks between;
// nothing for another one. The round is the caller's to fill in.
std::optional<Judgement> parse_answer(std::string_view said);

}  // namespace ddprun::inline launch
