// A round under test, whose observer stops it at a failure. For the launcher's tests.
#pragma once

#include <unistd.h>

#include <functional>
#include <optional>
#include <vector>

#include "launcher/agent/round_workers.hpp"
#include "tests/launcher/round/worker_group_fixture.hpp"

namespace ddprun {

// StartedRound: a round of two workers that live on paper; they are played by processes that outlive the
// test.
class StartedRound final : public RoundObserver {
  public:
    explicit StartedRound(std::function<void(LaunchOptions&)> change = [](LaunchOptions&) {}) {
        runner.pids = {::getpid(), ::getppid()};
        options.output.files = false;
        options.workers = {{{"program"}, {}}, {{"program"}, {}}};
        options.grace_period = kNever;
        change(options);
        pump.emplace(context.get_executor(), options.output, OutputPumpSettings{}, [](const std::string&) {});
        RoundReady place{.round = 3, .job_id = "none-1f"};
        place.base_rank = 4;
        place.world_size = 6;
        workers.emplace(context.get_executor(), runner, *pump, options, place, WorkerStation{.host = "gpu1"},
                        OomSources{}, features, *this);
    }

    void workers_fail(const Failure& failure) override {
        failed.push_back(failure.rank);
        if (failure.pid != 0) workers->stop({.signal = SIGTERM});
    }
    void workers_gone(const std::vector<UnkillableWorker>&) override { gone = true; }
    void send(const ControlMessage&) override {}
    void say(LogLevel, const std::string& text) override { words.push_back(text); }

    void finish() {
        run_until(context, [this] { return gone; });
    }
    void end(std::size_t worker, const ExitStatus& status) {
        runner.exit(worker, status);
        runner.gone(worker);
    }

    boost::asio::io_context context{1};
    FakeRunner runner;
    Features features;
    LaunchOptions options;
    std::optional<OutputPump> pump;
    std::vector<int> failed;
    bool gone = false;
    Lines words;
    std::optional<RoundWorkers> workers;
};

}  // namespace ddprun
