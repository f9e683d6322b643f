// FirstFailure: which of several failures was first. Pure; one rule for a node, where workers fail, and for
// the job, where each node tells of the first failure that it had.
//
// First is the failure that was told first, unless
//   - other workers had been seen to end before that, but how they ended was known only later (see
//     WorkerDying): then the first of these ends that is a failure;
//   - it is an exit code, while another worker was ending by itself already, by a signal such as SIGKILL: an
//     exit code may be the answer to such an end, but not the other way round. What a process does to itself
//     where another has failed (SIGABRT, SIGPIPE) is no such signal;
//   - the last words of the failed workers blame a rank, see culprit_of().
// A signal to an agent, or the loss of a node, that was told first stays first.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/job/failure.hpp"
#include "rendezvous/worker/accusation.hpp"

namespace ddprun {
inline namespace job {

// FailureReason finds the reason of a failure: the first lines of the last block that looks like one. Java,
// Go, Rust, PyTorch's watchdog and sanitizers print the reason above frames, a memory map or a legend. Pure.
class FailureReason {
  public:
    static constexpr std::size_t kMaxLines = 4;

    void note(const std::string& line);

    // Returns the block's first lines and the last one that looks like a failure; nothing where no block was
    // seen.
    const std::vector<std::string>& lines() const { return lines_; }
    // Returns how many of the lines since the block began are not among them.
    std::size_t left_out() const { return left_out_; }
    // Returns how many blocks have begun.
    std::size_t blocks() const { return blocks_; }

  private:
    void begin(const std::string& line);

    std::vector<std::string> lines_;
    std::size_t left_out_ = 0;
    std::size_t blocks_ = 0;
    std::size_t strangers_ = 0;  // lines since the last that looked like a failure which are no frames either
    std::size_t followers_ = 0;  // this many lines right behind it may still belong to what it says
    std::string stranger_;       // the last one
    std::size_t tabs_ = 0;       // how many lines in a row begin with a tab
};

// Returns at most `room` (at least 8) of a program's last lines. Where the reason stands above the lines that
// fit, it comes first, and the next line says how many are left out. `before` has seen the lines in front of
// `lines`.
std::vector<std::string> last_words(FailureReason before, const std::vector<std::string>& lines,
                                    std::size_t room);

// kLastWords: how many of a worker's last lines count as its last words, besides the reason.
inline constexpr std::size_t kLastWords = 3;

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
    std::list<Told> told_;
};

// failure_signature() is a text that two failures share if they are the same failure again, whichever rank,
// node or process it was this time. Pure; the RestartPolicy compares them.
//
// The signature is made of the kind, the end (signal or exit code), what the failure's message and error file
// say, and the last lines. Numbers in these texts are masked (ranks, pids, addresses, times, identifiers,
// steps and losses), and so are the nodes' names. A line is left out where its like stands right before it:
// it does not matter how often a program has told its progress. What differs in words is another failure.

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
