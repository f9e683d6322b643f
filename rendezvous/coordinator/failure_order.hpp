// FailureOrder: which of several workers' failures was first. Pure; one rule for a node and for the job.
//
// First is the one that was told first, unless
//   - others had been seen to end before that, whose ends are known only later (see WorkerDying): then the
//     first of these whose end is a failure;
//   - it is an exit code, while another was ending by itself already, by a signal such as SIGKILL: an exit
//     code may be the answer to such an end, but not the other way round. What a process does to itself where
//     another has failed (SIGABRT, SIGPIPE) is no such signal.
#pragma once

#include <cstddef>
#include <map>
#include <set>

#include "rendezvous/coordinator/control_message.hpp"

namespace ddprun {

class FailureOrder {
  public:
    // The worker of this rank ends by itself. To be called in the order in which that was seen, as long as no
    // failure was told and nobody was told to end.
    void suspect(int rank);

    // The worker ends by itself, which was seen after the first failure and before the worker was told to
    // end: nobody knows which was first.
    void contend(int rank);

    bool is_suspect(int rank) const { return suspects_.count(rank) != 0; }
    bool is_contender(int rank) const { return contenders_.count(rank) != 0; }

    // Whether `failure` was before the one that counts as the first until now.
    bool is_before(const Failure& failure, const Failure& first) const;

  private:
    std::size_t place_among_suspects(int rank) const;
    bool is_killed_contender(const Failure& failure) const;

    std::map<int, std::size_t> suspects_;  // by rank: the place in that order
    std::set<int> contenders_;
};

}  // namespace ddprun
