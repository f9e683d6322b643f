// FirstFailure: which of several failures was first. Pure; one rule for a node, where workers fail, and for
// the job, where each node tells of the first failure that it had.
//
// First is the failure that was told first, unless
//   - other workers had been seen to end before that, but how they ended was known only later (see
//     WorkerDying): then the first of these ends that is a failure;
//   - it is an exit code, while another worker was ending by itself already, by a signal such as SIGKILL: an
//     exit code may be the answer to such an end, but not the other way round. What a process does to itself
//     where another has failed (SIGABRT, SIGPIPE) is no such signal;
//   - the last words of the failed workers blame a rank, see culprit_of();
//   - it says no more than that a connection broke, or was raised later than another one, see first_raised().
// A signal to an agent, or the loss of a node, that was told first stays first.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/job/failure.hpp"
#include "rendezvous/worker/accusation.hpp"

namespace ddprun {
inline namespace job {

// Returns the rank that the failed worker blames: by its error file if it wrote one, else by its last words.
// Nothing where it did not end by itself: its words do not tell why then.
std::optional<Accusation> accusation_of(const Failure& failure);

// EndOfRank returns what is known of a rank's end; nothing for a rank that is not there.
using EndOfRank = std::function<std::optional<RankEnd>(int rank)>;

// Returns `first`, unless its words blame another rank. Then it returns that rank's own failure, if it is
// among `known` (or the rank's end is a failure) and is what the rank is blamed for. A failure that is itself
// laid on a third rank is followed, and so on. A rank that did not fail by itself becomes the first failure
// by the words of its accuser, see Failure::witness. Ranks that blame each other in a circle are not
// believed.
Failure culprit_of(const Failure& first, const std::vector<const Failure*>& known, const EndOfRank& end_of);

// Returns what the worker has raised by its own words: by its error file if it wrote one, else by its last
// lines; empty where none of these look like a failure.
std::string raised_by(const Failure& failure);

// Returns true if the worker ended by itself, and says no more than that a connection broke.
bool is_victim(const Failure& failure);

// Returns the failure among `known` of the worker that raised something first, if `first` is a victim or
// raised something later; else `first`. `raised` has the ranks of this node that printed what they raised, in
// that order; of others, the one told first counts. The failure's message then names the victims.
// A worker that a signal killed, or that said nothing, is never passed over.
Failure first_raised(const Failure& first, const std::vector<const Failure*>& known,
                     const std::vector<int>& raised);

// Returns the failure of a rank that raised something and was then told to end, before it had: `victim` has
// the exit code and the words, see Failure::witness.
Failure raised_before(const RankEnd& end, const std::string& words, const Failure& victim);

// Returns the rank that has the exit code and words of a worker's failure: its own, or that of the rank that
// reports it.
inline int reporter_of(const Failure& failure) {
    return failure.witness < 0 ? failure.rank : failure.witness;
}

class FirstFailure {
  public:
    // Notes that the worker of this rank ends by itself. Called in the order in which that was seen, as long
    // as no failure was told and no worker was told to end.
    void suspect(int rank) { suspects_.try_emplace(rank, suspects_.size()); }

    // Notes that the worker ends by itself, which was seen after the first failure and before the worker was
    // told to end: it is not known which was first.
    void contend(int rank);

    // Notes which ranks have printed what they raised, in that order; what was noted before is forgotten.
    void note_raised(std::vector<int> ranks) { raised_ = std::move(ranks); }

    bool is_suspect(int rank) const { return suspects_.contains(rank); }
    bool is_contender(int rank) const { return contenders_.contains(rank); }

    // Returns true if a failure of this worker, told now, may be the first.
    bool may_be_first(int rank) const { return told_.empty() || is_suspect(rank) || is_contender(rank); }

    // Notes what `teller` (a worker on a node, a node in the job) says failed first there. What `teller` says
    // later of a worker's failure counts instead. The failure that is returned stays in place, to be filled
    // in further.
    Failure& tell(int teller, Failure failure);

    // Returns the first failure, as far as is known; nothing if no failure was told.
    std::optional<Failure> first(const EndOfRank& end_of) const;

  private:
    struct Told {
        int teller = 0;
        Failure failure;
    };

    bool is_before(const Failure& failure, const Failure& first) const;
    std::size_t place_among_suspects(int rank) const;

    std::map<int, std::size_t> suspects_;  // by rank: the place in that order
    std::set<int> contenders_;
    std::vector<int> raised_;
    std::list<Told> told_;
};

}  // namespace job
}  // namespace ddprun
