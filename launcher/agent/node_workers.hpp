// NodeWorkers: this node's workers and what they print, from round to round, and the launcher's own lines
// between theirs. Before the first round there are no workers, and what is asked of them is done to nobody.
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
#include "launcher/output/output_pump.hpp"
#include "launcher/process/process_runner.hpp"

namespace ddprun {

class NodeWorkers {
  public:
    NodeWorkers(const boost::asio::any_io_executor& executor, ProcessRunner& runner,
                const LaunchOptions& options);

    // They wait their turn behind the workers' lines and never stop supervision. An empty one is none.
    void say(const std::string& text);
    void inform(const std::string& text);   // not with --quiet
    void explain(const std::string& text);  // with --verbose only

    void warn_of(const std::vector<UnkillableWorker>& unkillable);
    // Another round follows, because of this.
    void announce(const Restarting& restarting);

    // The workers of the last round, nullptr before the first.
    const RoundWorkers* last_round() const { return round_ ? &*round_ : nullptr; }
    std::vector<WorkerStatus> status() const;

    // What RoundWorkers tells in words needs no event of the caller's.
    void start(const RoundReady& place, RoundEvents events);
    void stop(int signal);
    void kill_now();
    void signal_all(int signal);
    void freeze();
    void thaw();
    void peer_died(const PeerDying& dying);
    void window_changed();

    OutputPump& output() { return pump_; }

  private:
    boost::asio::any_io_executor executor_;
    ProcessRunner& runner_;
    const LaunchOptions& options_;
    OutputPump pump_;
    std::optional<RoundWorkers> round_;
    int number_ = 0;  // of the round
};

}  // namespace ddprun
