// NodeWorkers: this node's workers and what they print, from round to round. While it lives the launcher's own
// lines go between theirs, wait their turn there and never stop supervision. Before the first round there are no workers, and what is asked of them is done to nobody.
// Made by the agent once nothing can keep it from starting, and used on its thread; `options` and `runner`
// outlive it.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/launch_options.hpp"
#include "launcher/agent/round_workers.hpp"
#include "launcher/local_cache.hpp"
#include "launcher/output/launcher_log.hpp"
#include "launcher/output/output_pump.hpp"
#include "launcher/process/process_runner.hpp"
#include "launcher/watch/watchers.hpp"

namespace ddprun::inline launch {

class NodeWorkers {
  public:
    // Throws a system_error where a LocalCache is wanted and cannot be made.
    NodeWorkers(const boost::asio::any_io_executor& executor, ProcessRunner& runner,
                const LaunchOptions& options, LauncherLog& log, const Watchers& watchers);
    ~NodeWorkers() { close_output(); }

    void warn_of(const std::vector<UnkillableWorker>& unkillable);
    // Another round follows, because of this.
    void announce(const Restarting& restarting);

    // The workers of the last round, nullptr before the first.
    const RoundWorkers* last_round() const { return round_ ? &*round_ : nullptr; }
    std::vector<WorkerStatus> status() const {
        return round_ ? round_->status() : std::vector<WorkerStatus>();
    }

    // What RoundWorkers tells in words needs no event of the caller's.
    // `station`: the store as workers see it, and the address by which the rendezvous has shown that this node is reached;
    // the rest is filled in here and by RoundWorkers.
    void start(const RoundReady& place, WorkerStation station, RoundEvents events);
    void stop(int signal) { with_round(&RoundWorkers::stop, signal); }
    void kill_now() { with_round(&RoundWorkers::kill_now); }
    void signal_all(int signal) { with_round(&RoundWorkers::signal_all, signal); }
    void freeze() { with_round(&RoundWorkers::freeze); }
    void thaw() { with_round(&RoundWorkers::thaw); }
    void peer_died(const PeerDying& dying) {
        if (dying.round == number_) with_round(&RoundWorkers::peer_died, dying.life);
    }
    void window_changed() {
        pump_.window_changed();
        with_round(&RoundWorkers::window_changed);
    }

    OutputPump& output() { return pump_; }
    // Ends the pump, and with it the log's way through it; returns what was lost.
    std::vector<std::string> close_output();

  private:
    void make_cache();
    template <typename... Arguments>
    void with_round(void (RoundWorkers::*act)(Arguments...), Arguments... arguments) {
        if (round_) (*round_.*act)(arguments...);
    }

    boost::asio::any_io_executor executor_;
    ProcessRunner& runner_;
    const LaunchOptions& options_;
    LauncherLog& log_;
    Watchers watchers_;
    OutputPump pump_;
    std::optional<LocalCache> cache_;
    std::optional<RoundWorkers> round_;
    int number_ = 0;  // of the round
};

}  // namespace ddprun::inline launch
