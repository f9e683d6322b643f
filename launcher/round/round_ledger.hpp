// The RoundLedger has what is known of this node's workers in one round: which end, how each of them ended,
// which failed first, and what came of it all. Pure; RoundWorkers writes it and asks.
//
// Which failure was the node's first is decided by FirstFailure, as far as it concerns workers of this node;
// the Coordinator decides by the same rule among all nodes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/output/raised_ranks.hpp"
#include "launcher/round/worker_group.hpp"
#include "rendezvous/control/control_message.hpp"
#include "rendezvous/coordinator/first_failure.hpp"

namespace ddprun {
inline namespace launch {

class RoundLedger {
  public:
    // A Death is a life that ended, see LifeWatch, and what the system says of its worker.
    struct Death {
        int local_rank = 0;
        std::uint64_t life = 0;
        bool is_running = true;  // its end has not been reported
        bool is_ending = false;
    };

    // An Entry says what the end of a worker means.
    struct Entry {
        RankEnd end;
        bool is_first = false;  // no worker has failed or was told to end before
        bool is_first_success = false;
        Failure* failure = nullptr;  // to be filled in further, if it may be the node's first
    };

    // RoundLedger: `progress` is the state of the progress file now.
    RoundLedger(int node_rank, std::string host, RoundReady place, std::string progress);

    // Returns true once a failure was reported or the workers were told to end: a worker that ends now is no
    // suspect.
    bool is_settled() const { return settled_; }

    // Returns each death as a message for the other nodes. Workers without a known exit status come first, as
    // suspects. The others are no suspects: perhaps they ended because of those.
    std::vector<WorkerDying> see(std::vector<Death> deaths);

    // Settles which workers end by themselves, at the last look before the first signal of ours. Returns
    // those that only this look has shown.
    std::vector<int> settle(const std::vector<int>& ending);

    // Takes note of what workers have raised so far, first the one that raised something first. Not called
    // any more once the workers were sent a signal: what ends one of these is its own.
    void note_raised(std::vector<RaisedRank> raised);

    // Returns the workers that run and have raised something themselves, before the one of `failure` did.
    std::vector<int> awaited_for(const Failure& failure) const;

    // Returns whether this worker says no more than that a connection broke.
    bool has_lost_connection(int rank) const;
    // Returns whether a worker has ended that raised something itself.
    bool is_explained() const;

    // Takes note that the workers are told to end by this signal.
    void stop(int signal);

    // Returns the failure of a worker that could not be started, because of which the others were killed.
    Failure refused(const WorkerStartFailure& refused, std::int64_t unix_time_ms);

    // Returns the failure of a worker that runs and counts as failed, to be filled in further.
    Failure& hangs(const WorkerStatus& worker, const std::string& why, std::int64_t unix_time_ms);

    Entry ended(const WorkerEnd& end, std::int64_t unix_time_ms);

    // Returns one end for each worker that has ended.
    const std::vector<RankEnd>& ends() const { return ends_; }
    // Returns the workers that have ended, and `running`, by local rank.
    std::vector<WorkerStatus> status(std::vector<WorkerStatus> running) const;
    // Returns true if every worker ended with 0 so far.
    bool all_zero() const;
    // Returns the node's first failure, as far as is known.
    std::optional<Failure> failure() const;
    // Returns what the coordinator is told when all workers are gone; `progress` is the state of the progress
    // file then.
    WorkersGone gone(const std::string& progress) const;

  private:
    bool has_raised(int rank) const;
    const RankEnd* end_of(int rank) const;
    Failure failure_of(int rank, int local_rank, pid_t pid, std::int64_t unix_time_ms) const;

    const int node_rank_;
    const std::string host_;
    const RoundReady place_;
    const std::string progress_before_;
    FirstFailure failures_;
    std::vector<RaisedRank> raised_;
    std::vector<RankEnd> ends_;
    bool settled_ = false;
    bool refused_ = false;
    int stop_signal_ = 0;  // the first one; 0: not told to stop
};

}  // namespace launch
}  // namespace ddprun
