// FirstFailure: which of several failures was first. Pure; one rule for a node, where workers fail, and for
// the job, where each node tells of the first failure that it had.
//
// First is the one that was told first, unless
//   - other workers had been seen to end before that, whose ends are known only later (see WorkerDying): then
//     the first of these whose end is a failure;
//   - it is an exit code, while another worker was ending by itself already, by a signal such as SIGKILL: an
//     exit code may be the answer to such an end, but not the other way round. What a process does to itself
//     where another has failed (SIGABRT, SIGPIPE) is no such signal;
//   - the words of those that failed say whose fault it is, see culprit_of().
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

// These say whose fault a first failure is, as far as the words of those that failed tell. Pure.

// FailureReason finds the reason of a failure where it stands above its frames, a memory map or a legend, as
// with Java, Go, Rust, PyTorch's watchdog or a sanitizer: the first lines of the last block that looks like a
// failure.
class FailureReason {
  public:
    static constexpr std::size_t kMaxLines = 4;

    void note(const std::string& line);

    // Returns the block's first lines and the last one that looks like a failure; nothing where no block was
    // seen.
    const std::vector<std::string>& lines() const { return lines_; }
    // How many of the lines since the block began are not among them.
    std::size_t left_out() const { return left_out_; }
    // How many blocks have begun.
    std::size_t blocks() const { return blocks_; }

  private:
    void begin(const std::string& line);

    std::vector<std::string> lines_;
    std::size_t left_out_ = 0;
    std::size_t blocks_ = 0;
    std::size_t strangers_ = 0;  // lines since the last that looked like a failure which are no frames either
    std::size_t followers_ = 0;  // so many lines right behind it may still belong to what it says
    std::string stranger_;       // the last one
    std::size_t tabs_ = 0;       // so many lines in a row begin with one
};

// Returns at most `room` (at least 8) of a program's last lines: where the reason stands above those that
// fit, it comes first, and in the next line how many are left out. `before` is of the lines in front of
// these.
std::vector<std::string> last_words(FailureReason before, const std::vector<std::string>& lines,
                                    std::size_t room);

// How many of a worker's last lines count as its last words, besides the reason.
inline constexpr std::size_t kLastWords = 3;

// The rank that the failed worker blames: by its error file if it wrote one, else by its last words. Nobody
// where it did not end by itself: then its words do not tell why.
std::optional<Accusation> accusation_of(const Failure& failure);

// It returns what is known of a rank's end; nothing for a rank that is not there.
using EndOfRank = std::function<std::optional<RankEnd>(int rank)>;

// `first`, unless its words blame another rank. Then it is that one's own failure, if it is among `known` (or
// its end a failure) and is what it is blamed for, or is itself laid on a third rank, and so on. A rank that
// did not fail by itself becomes the first failure by the words of its accuser, see Failure::witness. Nobody
// is believed where they blame each other in a circle.
Failure culprit_of(const Failure& first, const std::vector<const Failure*>& known, const EndOfRank& end_of);

// The rank whose exit code and words a worker's failure has: its own, or that of the one which reports it.
inline int reporter_of(const Failure& failure) {
    return failure.witness < 0 ? failure.rank : failure.witness;
}

class FirstFailure {
  public:
    // The worker of this rank ends by itself. To be called in the order in which that was seen, as long as no
    // failure was told and nobody was told to end.
    void suspect(int rank) { suspects_.try_emplace(rank, suspects_.size()); }

    // The worker ends by itself, which was seen after the first failure and before the worker was told to
    // end: nobody knows which was first.
    void contend(int rank);

    bool is_suspect(int rank) const { return suspects_.contains(rank); }
    bool is_contender(int rank) const { return contenders_.contains(rank); }

    // True if a failure of this worker, told now, may be the first.
    bool may_be_first(int rank) const { return told_.empty() || is_suspect(rank) || is_contender(rank); }

    // `teller` (a worker on a node, a node in the job) says what failed first there; of a worker's failure it
    // may say more later, which then counts instead. The failure stays where it is, to be filled in further.
    Failure& tell(int teller, Failure failure);

    // As far as is known; nothing if no failure was told.
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

// The signature of a failure: a text that two failures share if they are the same failure again, whichever
// rank, node or process it was this time. Pure; the RestartPolicy compares them.
//
// It is made of the kind, the end (signal or exit code), what the failure's message and error file say, and
// the last lines. Numbers in these texts are masked (ranks, pids, addresses, times, identifiers, steps and
// losses), and so are the nodes' names; a line whose like stands right before it is left out, so that it does
// not matter how often a program has told its progress. What differs in words is another failure.

// So much of a line is compared, so that it does not matter where a long one was cut; and so much of all of
// them, within a line.
inline constexpr std::size_t kMaxComparedLine = 200;
inline constexpr std::size_t kMaxComparedText = 6'000;

// `hosts` are the names of the job's nodes; the failure's own need not be among them.
//
// Empty where the program has not failed: a lost node and a signal from outside are no fault that it repeats.
std::string failure_signature(const Failure& failure, std::vector<std::string> hosts);

// `text` with # for each number and @ for each of `hosts`. A number is a word of digits, or of hexadecimal
// ones that has the look of an address or identifier, with all that is joined to it by marks like those in
// 10.0.0.1:29500, 2026-11-23 or 1.5e-05; within another word (cuda0, 16MiB) only the digits are.
std::string masked(std::string_view text, const std::vector<std::string>& hosts);

}  // namespace job
}  // namespace ddprun
