#include "rendezvous/coordinator/aftermath.hpp"

#include <fmt/core.h>

#include "rendezvous/control/control_text.hpp"
#include "rendezvous/coordinator/admission.hpp"
#include "rendezvous/coordinator/job_options.hpp"
#include "rendezvous/job/failure_signature.hpp"

namespace ddprun {
inline namespace job {
namespace {

constexpr std::uint64_t kJitterRange = 2'147'483'646;  // of Lehmer's generator

bool is_workers(const Failure& cause) {
    return cause.kind == Failure::Kind::worker_failed || cause.kind == Failure::Kind::overdue ||
           cause.kind == Failure::Kind::hang;
}

}  // namespace

Aftermath::Aftermath(SharedOptions options)
    : options_(std::move(options)),
      exclusion_(options_->elasticity.exclude_after),
      policy_(options_->restarts),
      random_(options_->jitter_seed % kJitterRange + 1) {}

const JobNode* Aftermath::queued(const Hello& hello) const {
    const auto before = std::find_if(queue_.begin(), queue_.end(), [&hello](const auto& entry) {
        return is_same_agent(entry.second.hello, hello);
    });
    return before == queue_.end() ? nullptr : &before->second;
}

JobNode& Aftermath::enqueue(ConnectionId from, const Hello& hello) {
    JobNode& node = queue_[from] = {.hello = hello, .connection = from};
    if (hello.node_rank != kUnnumbered) node.claim = hello.node_rank;
    return node;
}

std::vector<JobNode> Aftermath::take_from_queue(std::size_t count) {
    std::vector<JobNode> taken;
    while (taken.size() < count && !queue_.empty())
        taken.push_back(std::move(queue_.extract(queue_.begin()).mapped()));
    return taken;
}

std::size_t Aftermath::present(const JobNodes& nodes) const {
    const auto staying =
        std::count_if(nodes.begin(), nodes.end(), [](const auto& entry) { return entry.second.stays(); });
    const auto waiting = std::count_if(queue_.begin(), queue_.end(), [&](const auto& entry) {
        return why_left_out(entry.second.hello, nodes) == nullptr;
    });
    return static_cast<std::size_t>(staying + waiting);
}

bool Aftermath::has_enough(const JobNodes& nodes) const {
    const auto works = [&](const auto& entry) {
        const JobNode& node = entry.second;
        return node.stays() && node.hello.local_world_size > 0 && why_left_out(node.hello, nodes) == nullptr;
    };
    return present(nodes) >= static_cast<std::size_t>(options_->least()) &&
           (std::any_of(nodes.begin(), nodes.end(), works) ||
            std::any_of(queue_.begin(), queue_.end(), works));
}

bool Aftermath::can_grow(const JobNodes& nodes) const {
    return options_->elasticity.resize == Resize::now &&
           nodes.size() < static_cast<std::size_t>(options_->seats()) &&
           std::none_of(nodes.begin(), nodes.end(), [](const auto& entry) { return entry.second.run.ended; });
}

const std::string* Aftermath::why_left_out(const Hello& hello, const JobNodes& nodes) const {
    const std::string* why = exclusion_.why(hello.host);
    if (why == nullptr) return nullptr;
    const bool is_shared = std::any_of(nodes.begin(), nodes.end(), [&hello](const auto& entry) {
        return entry.second.stays() && entry.second.hello.host == hello.host;
    });
    return is_shared ? nullptr : why;
}

// False, and nothing has changed, where the job cannot do without it.
bool Aftermath::leave_out(const JobNode& node, std::string why, Roster& roster) {
    if (node.hosts || !node.stays()) return false;
    exclusion_.exclude(node.hello.host, why);
    roster.leave_out(node, std::move(why));
    if (has_enough(roster.nodes())) return true;
    take_back(node, roster);
    return false;
}

void Aftermath::take_back(const JobNode& node, Roster& roster) {
    roster.leave_out(node, {});
    exclusion_.take_back(node.hello.host);
}

std::vector<std::string> Aftermath::take_back_left_out(Roster& roster) {
    std::vector<std::string> remarks;
    for (const auto& [rank, node] : roster.nodes()) {
        if (node.left_out.empty() || !node.connected) continue;
        take_back(node, roster);
        remarks.push_back(fmt::format("{} is not left out after all: too few others are there",
                                      node_text(rank, node.hello.host)));
    }
    return remarks;
}

bool somebody_leaves(const JobNodes& nodes) {
    return std::any_of(nodes.begin(), nodes.end(),
                       [](const auto& entry) { return entry.second.leaving.has_value(); });
}

// A round that ended because of its nodes is no failure, and then its workers' failures are none, either.
void Aftermath::classify(const Failure& cause, const JobNodes& nodes) {
    const bool is_by_nodes =
        !is_workers(cause) || std::any_of(nodes.begin(), nodes.end(), [](const auto& entry) {
            return !entry.second.connected && !entry.second.run.is_gone;
        });
    resizing_ = is_by_nodes && !is_cancelled_ && options_->elasticity.is_elastic() &&
                (has_enough(nodes) || !somebody_leaves(nodes));
}

// A resize is no failure, and a user who wants the job to end has answered already.
bool Aftermath::wants_judgement(const Failure& cause) const {
    return options_->asks_about_failures && !resizing_ && !is_cancelled_ &&
           cause.kind != Failure::Kind::signalled;
}

JudgeFailure Aftermath::ask_judge(const Failure& cause, int round, TimePoint now) {
    judgement_deadline_ = now + kJudgementTimeout;
    return {round, cause};
}

// Empty: that node is left out of further rounds.
std::string Aftermath::why_not_without(int node_rank, Roster& roster) {
    const auto entry = roster.nodes().find(node_rank);
    if (entry == roster.nodes().end()) return "the job has no such node";
    const JobNode& node = entry->second;
    if (node.hosts) return "it hosts the rendezvous";
    if (!node.stays()) return "it is not there any more";
    return leave_out(node, "--on-failure says so", roster) ? std::string() : "the job needs it";
}

// The node whose worker is the first failure, if that is due to be left out; nullptr where none is.
const JobNode* Aftermath::blame_culprit(const Failure& cause, Roster& roster) {
    const auto entry = roster.nodes().find(cause.node_rank);
    if (resizing_ || !is_workers(cause) || entry == roster.nodes().end()) return nullptr;
    const JobNode& node = entry->second;
    exclusion_.blame(node.place, node.hello.host);
    return exclusion_.is_due(node.place, node.hello.host) ? &node : nullptr;
}

Aftermath::Verdict Aftermath::settle(const std::optional<Judgement>& judgement, Roster& roster,
                                     const Round& round) {
    Verdict verdict;
    const Failure& cause = *round.cause();
    // It is good enough to spread delays.
    random_ = random_ * 48'271 % (kJitterRange + 1);
    const double jitter = static_cast<double>(random_ - 1) / kJitterRange;
    RestartPolicy::RoundResult result{cause,
                                      round.uptime(),
                                      round.progressed(),
                                      is_cancelled_,
                                      failure_signature(cause, hosts_of(roster.nodes())),
                                      judgement ? judgement->answer : Judgement::Answer::none};
    const JobNode* out = nullptr;
    if (result.answer == Judgement::Answer::exclude) {
        const std::string obstacle = why_not_without(judgement->node, roster);
        if (obstacle.empty()) {
            out = &roster.nodes().at(judgement->node);
        } else {
            verdict.remarks.push_back(fmt::format("--on-failure: exclude {}: {}; ddprun decides by itself",
                                                  judgement->node, obstacle));
            result.answer = Judgement::Answer::none;
        }
    }
    const JobNode* due = blame_culprit(cause, roster);
    if (out == nullptr && due != nullptr &&
        leave_out(*due, exclusion_.reason(due->place, due->hello.host), roster))
        out = due;
    result.is_left_out = out != nullptr;
    decision_ = resizing_ ? RestartPolicy::Decision{.restart = true} : policy_.decide(result, jitter);
    verdict.goes_on = decision_.restart;
    if (out != nullptr && decision_.restart)
        verdict.remarks.push_back(fmt::format(
            "{} is left out: {}", node_text(out->hello.node_rank, out->hello.host), out->left_out));
    return verdict;
}

Restarting Aftermath::pause(const Failure& cause, int round, const JobNodes& nodes, TimePoint now) {
    std::vector<Restart>& list = resizing_ ? resizes_ : restarts_;
    list.push_back({round, to_text(cause).substr(0, kMaxReasonText), cause.unix_time_ms});
    if (list.size() > kMaxRestartsListed) list.erase(list.begin());
    if (resizing_) ++resize_count_;
    pause_end_ = std::max(now + decision_.delay, workers_gone_.value_or(now));
    const auto delay = std::chrono::ceil<std::chrono::milliseconds>(pause_end_ - now);
    return {.cause = cause,
            .restart = policy_.restarts(),
            .max_restarts = policy_.max_restarts(),
            .delay_ms = delay.count(),
            .resize = resizing_ ? resize_count_ : 0,
            .nodes = static_cast<int>(present(nodes))};
}

void Aftermath::postpone(std::chrono::steady_clock::duration jump) {
    if (workers_gone_) *workers_gone_ += jump;
}

void Aftermath::take_over(RoundHistory history) {
    policy_.go_on_from(history.restarts);
    resize_count_ = history.resizes;
    restarts_ = std::move(history.restart_list);
    resizes_ = std::move(history.resize_list);
}

void Aftermath::go_on(bool is_resize, TimePoint now) {
    resizing_ = is_resize;
    decision_.restart = true;
    pause_end_ = workers_gone_.value_or(now);
}

RoundHistory Aftermath::history() const { return {policy_.restarts(), resize_count_, restarts_, resizes_}; }

std::string Aftermath::reason_of_round() const {
    const std::vector<Restart>& list = resizing_ ? resizes_ : restarts_;
    return list.empty() ? std::string() : list.back().reason;
}

void Aftermath::add_history(Finish& finish) const {
    finish.restarts = restarts_;
    finish.resizes = resizes_;
}

Messages Aftermath::farewells(const JobNodes& nodes, const std::optional<Failure>& cause) const {
    Messages out;
    for (const auto& [rank, node] : nodes) {
        if (!node.connected || node.stays()) continue;
        std::optional<Failure> why = cause;
        std::string message = "the job goes on without this node";
        if (node.leaving) {
            why = Failure{.kind = Failure::Kind::signalled,
                          .node_rank = rank,
                          .host = node.hello.host,
                          .signal = *node.leaving};
        } else {
            message += ": " + node.left_out;
        }
        Finish finish = summary_of({{rank, node}}, why, false);
        finish.message = std::move(message);
        add_history(finish);
        out.push_back({node.connection, std::move(finish)});
    }
    return out;
}

}  // namespace job
}  // namespace ddprun
