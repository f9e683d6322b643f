// Worker groups under test: with workers that live only on paper, and with real ones. For the launcher's
// tests.
#pragma once

#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/round/worker_group.hpp"
#include "tests/launcher/worker_fixture.hpp"

namespace ddprun {

using Lines = std::vector<std::string>;

// Far away: a test that waits for it runs into the hang guard.
inline constexpr std::chrono::hours kNever{1};
inline const std::string kSweep = "sweep 15000";

// A runner whose workers live only on paper; the test plays their ends.
class FakeRunner final : public ProcessRunner {
  public:
    static constexpr pid_t kFirstPid = 1000;

    std::variant<Started, StartFailure> start(const WorkerSpec& spec, WorkerObserver& observer) override {
        if (spec.argv.front() == "refused")
            return StartFailure{ENOENT, "cannot start 'refused'", kExitNotFound};
        started_specs.push_back(spec);
        workers_.push_back(&observer);
        return Started{pid_of(workers_.size() - 1)};
    }
    // "0 SIGTERM leader", without the scope for signals that go to all in any case.
    void signal_worker(pid_t worker, int signal, SignalScope scope) override {
        constexpr const char* kScopes[] = {" auto", " leader", " group", " leftovers", " again"};
        const bool to_all = signal == SIGKILL || signal == SIGSTOP || signal == SIGCONT;
        log.push_back(name_of(worker) + " " + signal_text(signal) +
                      (to_all ? "" : kScopes[static_cast<std::size_t>(scope)]));
    }
    void sweep(std::chrono::milliseconds patience, std::function<void(const SweepResult&)> done) override {
        log.push_back("sweep " + std::to_string(patience.count()));
        swept_ = std::move(done);
    }
    void forget(pid_t worker) override {
        log.push_back(name_of(worker) + " forgotten");
        workers_.at(std::stoul(name_of(worker))) = nullptr;
    }
    std::filesystem::path worker_cgroup(int) const override { return {}; }

    void exit(std::size_t worker, ExitStatus status) {
        if (WorkerObserver* observer = workers_.at(worker)) observer->worker_exited(pid_of(worker), status);
    }
    void gone(std::size_t worker) {
        if (WorkerObserver* observer = workers_.at(worker)) observer->worker_group_gone(pid_of(worker));
    }
    void swept(const SweepResult& result = {}) { std::exchange(swept_, {})(result); }
    std::size_t started() const { return workers_.size(); }

    Lines take_log() { return std::exchange(log, {}); }

    Lines log;
    std::vector<WorkerSpec> started_specs;
    std::vector<pid_t> pids;  // living processes, where somebody looks whether the workers are

  private:
    pid_t pid_of(std::size_t worker) const {
        return worker < pids.size() ? pids[worker] : kFirstPid + static_cast<pid_t>(worker);
    }
    std::string name_of(pid_t pid) const {
        std::size_t worker = 0;
        while (worker + 1 < workers_.size() && pid_of(worker) != pid) ++worker;
        return std::to_string(worker);
    }

    std::vector<WorkerObserver*> workers_;  // nullptr: forgotten
    std::function<void(const SweepResult&)> swept_;
};

inline std::vector<WorkerSpec> specs(std::size_t count) {
    std::vector<WorkerSpec> result(count);
    for (std::size_t i = 0; i < count; ++i) {
        result[i].argv = {"program"};
        result[i].local_rank = static_cast<int>(i);
        result[i].rank = 10 + static_cast<int>(i);
    }
    return result;
}

// A group, what it reported, and a runner of either kind.
template <typename Runner>
class GroupRun : public GroupObserver {
  public:
    template <typename... Arguments>
    explicit GroupRun(SignalScope scope, WorkerGroup::Duration kill_timeout, Arguments&&... arguments)
        : runner(std::forward<Arguments>(arguments)...),
          group(std::in_place, context.get_executor(), runner, *this, scope, kill_timeout) {}

    void ended(const WorkerEnd& end) override {
        ends.push_back(end);
        if (on_end) on_end(end);
    }
    void group_gone(const std::vector<UnkillableWorker>& left) override {
        unkillable = left;
        ++all_gone;
    }
    void grace_passed(const GraceNotice& notice) override {
        notices.push_back(to_text(notice));
        if (!notice.is_over) group->ask_again();
    }

    // Runs until nothing of the group is left.
    void finish() {
        run_until(context, [this] { return all_gone > 0; });
    }

    boost::asio::io_context context{1};
    Runner runner;
    std::vector<WorkerEnd> ends;
    std::vector<UnkillableWorker> unkillable;
    Lines notices;
    int all_gone = 0;
    std::function<void(const WorkerEnd&)> on_end;
    std::optional<WorkerGroup> group;
};

struct FakeRun : GroupRun<FakeRunner> {
    explicit FakeRun(WorkerGroup::Duration kill_timeout = WorkerGroup::kKillTimeout,
                     SignalScope scope = SignalScope::automatic)
        : GroupRun(scope, kill_timeout) {}
};

// LocalRunner needs the executor, which is a member of the same object.
struct OwnRunner : ProcessRunner {
    std::optional<LocalRunner> local;
    std::variant<Started, StartFailure> start(const WorkerSpec& spec, WorkerObserver& observer) override {
        return local->start(spec, observer);
    }
    void signal_worker(pid_t worker, int signal, SignalScope scope) override {
        local->signal_worker(worker, signal, scope);
    }
    void sweep(std::chrono::milliseconds patience, std::function<void(const SweepResult&)> done) override {
        local->sweep(patience, std::move(done));
    }
    void forget(pid_t worker) override { local->forget(worker); }
    std::filesystem::path worker_cgroup(int local_rank) const override {
        return local->worker_cgroup(local_rank);
    }
};

struct RealRun : GroupRun<OwnRunner> {
    explicit RealRun(SignalScope scope = SignalScope::automatic)
        : GroupRun(scope, WorkerGroup::kKillTimeout) {
        runner.local.emplace(context.get_executor());
    }

    // One worker for each list of the stub's modes; their output goes to one pipe.
    std::optional<WorkerStartFailure> start(const std::vector<Lines>& modes) {
        std::vector<WorkerSpec> blueprints = specs(modes.size());
        for (std::size_t i = 0; i < modes.size(); ++i) {
            WorkerSpec spec = stub_spec(modes[i]);
            blueprints[i].argv = spec.argv;
            blueprints[i].environment = spec.environment;
        }
        return start(blueprints);
    }
    std::optional<WorkerStartFailure> start(const std::vector<WorkerSpec>& blueprints) {
        StdoutToPipe pipe;
        auto failure = group->start_all(blueprints);
        out.emplace(pipe.take_reader());
        return failure;
    }

    std::optional<LineReader> out;
};

}  // namespace ddprun
