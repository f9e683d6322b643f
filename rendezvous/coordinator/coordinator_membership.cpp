// How the nodes of a job change between its rounds: who comes, who leaves, who is waited for.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "rendezvous/control/control_text.hpp"
#include "rendezvous/coordinator/coordinator.hpp"
#include "rendezvous/net/endpoint.hpp"

namespace ddprun::inline job {

// A time limit is meant for the job. The host can leave as long as another one may become the coordinator.
bool Coordinator::may_leave(const JobNode& node, const AgentSignalled& signalled) const {
    const bool is_stuck = node.hosts && (!may_fail_over() || state_ == CoordinatorState::awaiting_return);
    return options_.elasticity.is_elastic() && !is_stuck && signalled.reason.empty();
}

CoordinatorEvent Coordinator::meaning_of(CoordinatorEvent event, const JobNode* node,
                                         const ControlMessage& message) {
    const auto* signalled = std::get_if<AgentSignalled>(&message);
    if (signalled == nullptr) return event;
    if (may_leave(*node, *signalled)) return CoordinatorEvent::node_leaves;
    restart_cancelled_ = true;
    return event;
}

void Coordinator::receive_queued(JobNode& node, const ControlMessage& message) {
    if (const auto* answer = std::get_if<Heartbeat>(&message)) {
        if (const auto question = heartbeats_.answered(node.connection, *answer))
            send(node.connection, *question);
    } else if (std::holds_alternative<Suspended>(message)) {
        excuse(node);
    } else if (std::holds_alternative<Goodbye>(message)) {
        leave_queue(node.connection);
    }
}

// An agent that comes again has given its other connection up. One of the same machine, by the number of a node whose
// loss nobody has noticed yet, waits until somebody does.
void Coordinator::enqueue(ConnectionId from, const Hello& hello, TimePoint now) {
    const JobNode* holder = holder_of(hello.node_rank);
    const bool places_change = options_.elasticity.is_elastic() || policy_.max_restarts() > 0;
    const bool is_heir = places_change && holder != nullptr && holder->hello.host == hello.host;
    const auto refused = reason_to_refuse(
        hello, terms(), company_of(hello, options_.own_agent, is_heir ? nullptr : holder, nodes_));
    if (refused) return refuse(from, hello, *refused);
    if (!hello.unfit.empty()) return refuse(from, hello, UnfitNodes::refusal(hello));
    if (!places_change) return refuse(from, hello, came_too_late());
    if (has_workers_left(from, hello)) return;
    if (const auto unwanted = why_unwanted(hello)) return refuse(from, hello, *unwanted);
    if (queue_.size() == kMaxQueued) return refuse(from, hello, too_many_wait());
    for (const auto& [connection, node] : queue_) {
        if (!is_same_agent(node.hello, hello)) continue;
        out_.push_back({connection, GivenUp{"this agent came again"}, true});
        leave_queue(connection);
        break;
    }
    JobNode& node = queue_[from] = {.hello = hello, .connection = from};
    if (hello.node_rank != kUnnumbered) node.claim = hello.node_rank;
    watch(from, hello, now);
    if (has_run_ && members_) send(from, *members_);
    if (state_ == CoordinatorState::awaiting_return) return look_for_enough(now);
    if (state_ == CoordinatorState::electing)
        return send(from, Parked{"the nodes choose another coordinator; this one waits for a place"});
    const std::string others = fmt::format("{} node{}", nodes_.size(), nodes_.size() == 1 ? "" : "s");
    send(from, Parked{can_grow() ? fmt::format("the job runs on {}, which stop to let this one in", others)
                                 : fmt::format("the job has its {}; this one waits for a place", others)});
    if (state_ == CoordinatorState::running && can_grow()) handle(CoordinatorEvent::resize_due, {now});
}

// Of a round of another coordinator's. It comes again when they are gone.
bool Coordinator::has_workers_left(ConnectionId from, const Hello& hello) {
    if (!hello.following || !hello.following->has_workers) return false;
    out_.push_back({from, Abdicated{.reason = "the others have gone on"}, true});
    return true;
}

void Coordinator::leave_queue(ConnectionId from) {
    if (queue_.erase(from) > 0) heartbeats_.remove(from);
}

// A round that some nodes are done with is not begun again for another one.
bool Coordinator::can_grow() const {
    const auto seats = static_cast<std::size_t>(options_.elasticity.seats(options_.nnodes));
    return options_.elasticity.resize == Resize::now && nodes_.size() < seats &&
           std::none_of(nodes_.begin(), nodes_.end(), [](const auto& entry) { return entry.second.ended; });
}

void Coordinator::note_leaving(JobNode& node, const ControlMessage& message, TimePoint now) {
    const auto& signalled = std::get<AgentSignalled>(message);
    if (!may_leave(node, signalled)) return;
    node.leaving = signalled.signal;
    workers_gone_ = std::max(workers_gone_.value_or(now), now + kSignalsTogether);
    if (state_ == CoordinatorState::awaiting_return) release_leavers();
}

// Nodes that another round could begin with.
std::size_t Coordinator::present() const {
    const auto staying =
        std::count_if(nodes_.begin(), nodes_.end(), [](const auto& entry) { return entry.second.stays(); });
    const auto waiting = std::count_if(queue_.begin(), queue_.end(), [this](const auto& entry) {
        return why_left_out(entry.second.hello) == nullptr;
    });
    return static_cast<std::size_t>(staying + waiting);
}

// And somebody who works.
bool Coordinator::has_enough() const {
    const auto works = [this](const auto& entry) {
        const JobNode& node = entry.second;
        return node.stays() && node.hello.local_world_size > 0 && why_left_out(node.hello) == nullptr;
    };
    return present() >= static_cast<std::size_t>(options_.elasticity.least(options_.nnodes)) &&
           (std::any_of(nodes_.begin(), nodes_.end(), works) ||
            std::any_of(queue_.begin(), queue_.end(), works));
}

bool Coordinator::somebody_leaves() const {
    return std::any_of(nodes_.begin(), nodes_.end(),
                       [](const auto& entry) { return entry.second.leaving.has_value(); });
}

// Whether the round ended because of its nodes: then its workers' failures are that, too.
bool Coordinator::is_resize() const {
    if (restart_cancelled_ || !options_.elasticity.is_elastic()) return false;
    if (cause_->kind != Failure::Kind::worker_failed && cause_->kind != Failure::Kind::overdue) return true;
    return std::any_of(nodes_.begin(), nodes_.end(),
                       [](const auto& entry) { return !entry.second.connected && !entry.second.is_gone; });
}

// The round ends for a node that comes, but should the job end now, then by this.
void Coordinator::replace_resize(const Failure& cause) {
    if (cause_ && cause_->kind == Failure::Kind::resized) cause_ = cause;
}

void Coordinator::begin_again(TimePoint now) {
    if (workers_gone_ && now < *workers_gone_) {
        pause_end_ = *workers_gone_;
        return;
    }
    if (!is_sure(now)) return make_sure(now);
    makes_sure_ = false;
    if (!holds_without_leavers()) {
        decision_.message = "without the nodes that leave the others may go on without these (--failover)";
        return handle(CoordinatorEvent::quorum_lost, {now});
    }
    if (!has_enough()) take_back_left_out();
    if (has_enough()) {
        if (host_ && nodes_.at(*host_).leaving) return handle(CoordinatorEvent::host_leaves, {now});
        if (lacks_record()) return handle(CoordinatorEvent::record_wanted, {now});
        release_leavers();
        refuse_unwanted();
        seat_next_round();
        return handle(CoordinatorEvent::all_joined, {now});
    }
    handle(somebody_leaves() || restart_cancelled_ ? CoordinatorEvent::restart_refused
                                                   : CoordinatorEvent::nodes_missing,
           {now});
}

// This process may have stood still until now, with the last words of agents that follow another one unread. So a round
// begins only with a quorum of those who are there for certain.
bool Coordinator::is_sure(TimePoint now) const {
    if (!members_ || !may_fail_over()) return true;
    const auto own = host_ ? std::optional(nodes_.at(*host_).connection) : std::nullopt;
    const auto is_there = [&](Quorum::Id member) {
        return member == own || heartbeats_.is_bound(member, now);
    };
    // Nobody may take for gone whoever is not, where each of them could lead the job by itself.
    if (records())
        return std::all_of(nodes_.begin(), nodes_.end(), [&](const auto& entry) {
            const JobNode& node = entry.second;
            return !node.stays() || is_own(node.hello) || is_there(node.connection);
        });
    return quorum_.holds_with(is_there) && (!previous_ || previous_->holds_with(is_there));
}

void Coordinator::make_sure(TimePoint now) {
    pause_end_ = now + HeartbeatTerms{options_.heartbeat}.patience();
    if (std::exchange(makes_sure_, true)) return;
    for (const auto& [agent, question] : heartbeats_.ask(now)) send(agent, question);
}

void Coordinator::note_answer(TimePoint now) {
    // To ask at each answer how many there are would cost their square.
    if (2 * (heartbeats_.answers() + 1) < nodes_.size()) return;
    look_for_doubt(now);
    if (!makes_sure_ || state_ != CoordinatorState::pausing || !is_sure(now)) return;
    handle(CoordinatorEvent::pause_over, {now});
}

// This process stood still, and has not been left: one that leads nobody yet cannot be. As etcd decides, each member
// that may live can be the one that goes on.
void Coordinator::look_for_doubt(TimePoint now) {
    if (state_ == CoordinatorState::over || !heartbeats_.is_in_doubt()) return;
    if (!has_run_ || (is_sure(now) && !(records() && lost_silently_))) settle_doubt(now);
}

void Coordinator::settle_doubt(TimePoint now) {
    if (!heartbeats_.is_in_doubt()) return;
    for (const auto& [agent, question] : heartbeats_.settle(now)) send(agent, question);
}

void Coordinator::await_return(TimePoint now) {
    join_deadline_ = now + options_.join_timeout;
    last_status_.reset();
    decision_.message =
        fmt::format("no node has come in its place within {} s (--join-timeout)",
                    std::chrono::duration_cast<std::chrono::seconds>(options_.join_timeout).count());
    tell_waiting(now);
}

// While others are awaited.
void Coordinator::look_for_enough(TimePoint now) {
    if (!has_enough()) {
        status_deadline_ = next_status(now);
        return;
    }
    if ((workers_gone_ && now < *workers_gone_) || !is_sure(now) || lacks_record()) {
        pause_end_ = workers_gone_.value_or(now);
        handle(CoordinatorEvent::grace_runs, {now});
        if (pause_end_ <= now) handle(CoordinatorEvent::pause_over, {now});
        return;
    }
    seat_next_round();
    handle(CoordinatorEvent::all_joined, {now});
}

// For them the job is over, though it goes on.
void Coordinator::release_leavers() {
    for (auto& [rank, node] : nodes_) {
        if (!node.connected || node.stays()) continue;
        if (!node.leaving) {
            Finish finish = summary_of({{rank, node}}, cause_, false);
            finish.message = "the job goes on without this node: " + node.left_out;
            release(node, std::move(finish));
            continue;
        }
        const Failure cause{.kind = Failure::Kind::signalled,
                            .node_rank = rank,
                            .host = node.hello.host,
                            .signal = *node.leaving};
        Finish finish = summary_of({{rank, node}}, cause, false);
        finish.message = "the job goes on without this node";
        release(node, std::move(finish));
    }
}

// Those of the last round keep their order, and others come from the queue.
void Coordinator::seat_next_round() {
    const auto all = static_cast<std::size_t>(options_.elasticity.seats(options_.nnodes));
    const std::size_t seats = has_run_ && options_.elasticity.resize == Resize::never ? nodes_.size() : all;
    std::map<int, JobNode> seated;
    for (auto& [rank, node] : nodes_) {
        if (node.connected) {
            seated.emplace(node.place, std::move(node));
        } else {
            seating_.vacate(node.place, node.hello.host);
        }
    }
    while (seated.size() < seats && !queue_.empty()) {
        JobNode node = std::move(queue_.extract(queue_.begin()).mapped());
        node.place = seating_.seat({node.claim, node.hello.host, false});
        seated.emplace(node.place, std::move(node));
    }
    std::vector<JobNode> all_seated;
    for (auto& [place, node] : seated) all_seated.push_back(std::move(node));
    std::vector<std::string_view> orders;
    for (const JobNode& node : all_seated) orders.push_back(node.hello.rank_order);
    nodes_.clear();
    nodes_by_connection_.clear();
    host_.reset();
    int rank = 0;
    for (const std::size_t index : order_ranks(orders)) {
        JobNode& node = all_seated[index];
        node.hello.node_rank = rank;
        nodes_by_connection_[node.connection] = rank;
        if (node.hosts) host_ = rank;
        nodes_.emplace(rank++, std::move(node));
    }
    compare_nodes();
}

bool Coordinator::is_ours(const JobMoved& moved) const {
    return moved.version == options_.version && moved.run_id == options_.run_id &&
           moved.nnodes == options_.nnodes && moved.min_nodes == options_.elasticity.min_nodes.value_or(0) &&
           options_.own_agent && moved.command_digest == options_.own_agent->command.digest;
}

void Coordinator::redirect(ConnectionId from, const Hello& hello) {
    if (is_stranger(hello, terms())) return refuse(from, hello, *reason_against(hello));
    out_.push_back({from, *moved_, true});
}

void Coordinator::move(const JobMoved& moved) {
    moved_ = moved;
    for (const auto& [rank, node] : nodes_) {
        if (node.connected) out_.push_back({node.connection, moved, true});
    }
    for (const auto& [connection, node] : queue_) out_.push_back({connection, moved, true});
}

// It says so again and again. Which of the two is wanted only the user knows.
void Coordinator::tell_other_group(const JobMoved& moved) {
    if (std::exchange(moved_, moved)) return;
    remark(fmt::format(
        "another group of this job's nodes goes on by itself, led from {}: this one began, or lost it, while "
        "it could not be reached; end one of the two",
        to_string(Endpoint{moved.address, static_cast<std::uint16_t>(moved.port)})));
}

}  // namespace ddprun::inline job
