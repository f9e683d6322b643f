#include "launcher/watch/rank_looks.hpp"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "launcher/watch/process_look.hpp"
#include "launcher/watch/published_calls.hpp"
#include "launcher/watch/rank_processes.hpp"
#include "rendezvous/base/deadline.hpp"
#include "rendezvous/system/quiet_thread.hpp"

namespace ddprun {
inline namespace launch {
namespace {

constexpr std::size_t kLeastLookers = 4;

const ThreadLook* main_of(const ProcessLook& look) {
    return look.threads.empty() ? nullptr : &look.threads.front();
}

class NodeLook {
  public:
    NodeLook(const LookScope& scope, const std::atomic<bool>& is_cancelled, const TellSeen& tell)
        : scope_(scope), is_cancelled_(is_cancelled), tell_(tell) {
        find_processes();
        WaitScope wait_scope;
        wait_scope.launcher = ::getpid();
        wait_scope.deadline = deadline_;
        for (const auto& [process, rank] : rank_of_) wait_scope.processes.push_back(process);
        waits_.emplace(std::move(wait_scope));
        observations_.resize(ranks_.size());
    }

    std::vector<Observation> run() {
        std::vector<std::thread> others;
        // More than there are CPUs would all come to their end at once, and late. Some may be held up.
        const std::size_t fit = std::max(kLeastLookers, std::size_t{std::thread::hardware_concurrency()});
        for (std::size_t i = 1; i < std::min({ranks_.size(), kMostLookers, fit}); ++i)
            others.push_back(start_without_signals([this] { work(); }));
        work();
        for (std::thread& other : others) other.join();
        return std::move(observations_);
    }

  private:
    void find_processes();
    void work();
    Observation observe(const RankProcesses& rank);
    void add_wait(const ThreadLook& main, Observation& seen) const;

    const LookScope& scope_;
    const std::atomic<bool>& is_cancelled_;
    const TellSeen& tell_;
    const Deadline deadline_ = std::chrono::steady_clock::now() + scope_.limit;
    std::vector<RankProcesses> ranks_;
    std::map<pid_t, int> rank_of_;  // of each process of the node's ranks
    std::optional<WaitReader> waits_;
    std::vector<Observation> observations_;
    std::atomic<std::size_t> next_{0};
};

void NodeLook::find_processes() {
    for (RankProcesses& found : rank_processes(scope_.node)) {
        const int rank = found.worker.rank;
        for (const pid_t process : found.processes) rank_of_.emplace(process, rank);
        const auto& asked = scope_.ranks;
        if (asked.empty() || std::find(asked.begin(), asked.end(), rank) != asked.end())
            ranks_.push_back(std::move(found));
    }
}

void NodeLook::work() {
    for (;;) {
        const std::size_t i = next_++;
        if (i >= ranks_.size()) return;
        observations_[i] = observe(ranks_[i]);
        if (tell_) tell_(observations_[i]);
    }
}

void NodeLook::add_wait(const ThreadLook& main, Observation& seen) const {
    seen.wait = main.wait;
    const auto peer = rank_of_.find(main.wait.process);
    if (main.wait.kind == WaitKind::socket && peer != rank_of_.end() && peer->second != seen.rank)
        seen.peers.push_back(peer->second);
}

Observation NodeLook::observe(const RankProcesses& rank) {
    Observation seen;
    seen.rank = rank.worker.rank;
    seen.node = scope_.node.node;
    seen.host = scope_.node.host;
    seen.pid = rank.worker.pid;
    seen.exit_code = rank.worker.exit_code;
    if (seen.exit_code) return seen;
    if (is_cancelled_) {
        seen.why_unreadable = "the job ended while it was looked at";
        return seen;
    }
    seen.pid = working_process(rank);
    LookTerms terms{.all_threads = scope_.threads, .native = scope_.native};
    terms.deadline = deadline_;
    const auto own = scope_.own.find(seen.rank);
    if (own != scope_.own.end()) seen.own = own->second;
    ProcessLook look = look_at_process(seen.pid, *waits_, terms);
    seen.is_collecting = look.is_collecting;
    seen.why_unreadable = std::move(look.why_unreadable);
    if (const ThreadLook* main = main_of(look)) {
        add_wait(*main, seen);
        seen.frames = main->frames;
        if (look.call) seen.call = observed_call(*look.call, main->wait, std::chrono::steady_clock::now());
        if (!seen.frames.empty())
            seen.source = seen.frames.front().native ? StackSource::native : StackSource::python;
    }
    for (std::size_t i = 1; i < std::min(look.threads.size(), kMaxTold + 1); ++i) {
        ThreadLook& thread = look.threads[i];
        seen.threads.push_back({thread.id, thread.name, thread.wait, std::move(thread.frames)});
    }
    return seen;
}

}  // namespace

std::vector<Observation> look_at_ranks(const LookScope& scope, const std::atomic<bool>& is_cancelled,
                                       const TellSeen& tell) {
    return NodeLook(scope, is_cancelled, tell).run();
}

}  // namespace launch
}  // namespace ddprun
