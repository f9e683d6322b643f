// The RoundLedger has what is known of this node's workers in one round: who ends, how each of them ended,
// which failed first, and what came of it all. Pure; RoundWorkers writes it and asks.
//
// Which failure was the node's first is decided by FirstFailure, as far as it concerns workers of this node;
// the Coordinator decides by the same rule among all nodes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/worker_group.hpp"
#include "rendezvous/control/control_message.hpp"
#include "rendezvous/coordinator/first_failure.hpp"

namespace ddprun {
inline namespace launch {

class RoundLedger {
  public:
    // A life that ended, see LifeWatch, and what the system says of its worker.
    struct Death {
        int local_rank = 0;
        std::uint64_t life = 0;
        bool is_running = true;  // its end has not been reported
        bool is_ending = false;
    };

    // An entry says what the end of a worker means.
    struct Entry {
        RankEnd end;
        bool is_first = false;  // nobody has failed or was told to end before
        bool is_first_success = false;
        Failure* failure = nullptr;  // its own, to be filled in further, if it may be the node's first
    };

    // `progress`: the state of the progress file now.
    RoundLedger(int node_rank, std::string host, RoundReady place, std::string progress);

    // A failure was told, or the workers to end: a worker that ends now is no suspect.
    bool is_settled() const { return settled_; }

    // Each death as the others may be told of it; first those of workers whose end is not known, since how
    // the others ended is, so they are no suspects: perhaps they ended because of these.
    std::vector<WorkerDying> see(std::vector<Death> deaths);

    // The last look before the first signal of ours: these end by themselves. Returns those that only this
    // look has shown.
    std::vector<int> settle(const std::vector<int>& ending);

    // The workers are told to end by this signal.
    void stop(int signal);

    // A worker could not be started, so the others were killed.
    Failure refused(const WorkerStartFailure& refused, std::int64_t unix_time_ms);

    // A worker counts as failed, which runs; to be filled in further.
    Failure& hangs(const WorkerStatus& worker, const std::string& why, std::int64_t unix_time_ms);

    Entry ended(const WorkerEnd& end, std::int64_t unix_time_ms);

    // One for each worker that has ended.
    const std::vector<RankEnd>& ends() const { return ends_; }
    // Returns those, and these that run, by local rank.
    std::vector<WorkerStatus> status(std::vector<WorkerStatus> running) const;
    // True if every worker ended with 0 so far.
    bool all_zero() const;
    // The node's first, as far as is known.
    std::optional<Failure> failure() const;
    // Returns what the coordinator is told when all are gone; `progress` is the state of the progress file
    // then.
    WorkersGone gone(const std::string& progress) const;

  private:
    Failure failure_of(int rank, int local_rank, pid_t pid, std::int64_t unix_time_ms) const;

    const int node_rank_;
    const std::string host_;
    const RoundReady place_;
    const std::string progress_before_;
    FirstFailure failures_;
    std::vector<RankEnd> ends_;
    bool settled_ = false;
    bool refused_ = false;
    int stop_signal_ = 0;  // the first one; 0: not told to stop
};

}  // namespace launch
}  // namespace ddprun
