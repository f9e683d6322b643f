// How a round comes about: nodes come, are let in or refused, hear who is missing, and get their ranks.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "rendezvous/control/control_text.hpp"
#include "rendezvous/coordinator/coordinator.hpp"
#include "rendezvous/membership/absent_hosts.hpp"
#include "rendezvous/membership/rank_mapping.hpp"

namespace ddprun::inline job {

void Coordinator::admit(ConnectionId from, const Hello& hello, TimePoint now) {
    if (const auto refused = reason_against(hello)) return refuse(from, hello, *refused);
    if (leave_out_unfit(from, hello)) return look_whether_complete(now);
    if (has_workers_left(from, hello)) return;
    make_room(hello, now);
    if (!is_host(hello) && seats_left() == 0) return enqueue(from, hello, now);
    const int place = hello.node_rank != kUnnumbered ? hello.node_rank : options_.nnodes + unnumbered_++;
    JobNode& node = nodes_[place] = {.hello = hello, .connection = from, .hosts = is_host(hello)};
    if (hello.node_rank != kUnnumbered) node.claim = hello.node_rank;
    nodes_by_connection_[from] = place;
    newcomers_[newcomer_of(hello)] = place;
    if (node.hosts) host_ = place;
    watch(from, hello, now);
    if (is_host(hello)) {
        for (PeerRefused& told : refusals_untold_) send(from, std::move(told));
        refusals_untold_.clear();
    }
    look_whether_complete(now);
    if (state_ != CoordinatorState::gathering) return;
    // The newcomer hears of the others after a while; those who wait already hear of the newcomer.
    status_deadline_ = std::min(status_deadline_.value_or(TimePoint::max()), next_status(now));
}

// False for one that may take part; also for the host, which has to tell the others.
bool Coordinator::leave_out_unfit(ConnectionId from, const Hello& hello) {
    unfit_.learn(hello, is_host(hello));
    if (hello.unfit.empty() || is_host(hello)) return false;
    refuse(from, hello, UnfitNodes::refusal(hello));
    return true;
}

// Begins if all are there who can come, or sees to it that some are waited for only so long.
void Coordinator::look_whether_complete(TimePoint now) {
    const bool host_is_there = !options_.own_agent || host_;
    if (nodes_.size() >= awaited_nodes() && host_is_there) return begin_first_round(now);
    if (unfit_fault()) {
        last_call_end_ = std::min(last_call_end_.value_or(TimePoint::max()), now + kUnfitTime);
        return;
    }
    const auto least = static_cast<std::size_t>(options_.elasticity.least(options_.nnodes));
    if (nodes_.size() >= least && host_is_there && !last_call_end_)
        last_call_end_ = now + options_.elasticity.last_call;
}

// At least one, which hosts: where all others are unfit, it is to hear of that.
std::size_t Coordinator::awaited_nodes() const {
    const int able = std::max(1, options_.nnodes - unfit_.left_out());
    return static_cast<std::size_t>(std::min(options_.elasticity.seats(options_.nnodes), able));
}

// An agent that comes again has given its other connection up.
void Coordinator::make_room(const Hello& hello, TimePoint now) {
    const auto before = newcomers_.find(newcomer_of(hello));
    if (before == newcomers_.end()) return;
    JobNode& node = nodes_.at(before->second);
    out_.push_back({node.connection, GivenUp{"this agent came again"}, true});
    lose(node, now, true);
}

// One is kept for the host's own agent.
std::size_t Coordinator::seats_left() const {
    const auto seats = static_cast<std::size_t>(options_.elasticity.seats(options_.nnodes));
    const std::size_t taken = nodes_.size() + (options_.own_agent && !host_ ? 1 : 0);
    return seats - std::min(seats, taken);
}

void Coordinator::begin_first_round(TimePoint now) {
    last_call_end_.reset();
    newcomers_.clear();
    seat_first_round();
    if (fault_of_nodes()) return handle(CoordinatorEvent::nodes_unfit, {now});
    refuse_unwanted();
    handle(CoordinatorEvent::all_joined, {now});
}

std::optional<Refused> Coordinator::fault_of_nodes() const {
    if (auto unfit = unfit_fault()) return unfit;
    if (options_.strict_env && !differences_.empty()) return refused_for(differences_);
    const bool idle = std::all_of(nodes_.begin(), nodes_.end(),
                                  [](const auto& entry) { return entry.second.hello.local_world_size == 0; });
    if (idle) return Refused{"no node has workers: --nproc-per-node is 0 on each", kExitUsage};
    return std::nullopt;
}

void Coordinator::seat_first_round() {
    std::vector<NodeClaim> claims;
    for (const auto& [key, node] : nodes_) {
        const int listed = node.hello.list_position;
        claims.push_back({node.claim, node.hello.host, node.hosts,
                          listed == kUnlisted ? std::nullopt : std::optional(listed)});
    }
    const std::vector<int> places = seating_.seat_all(claims);
    auto place = places.begin();
    for (auto& [key, node] : nodes_) node.place = *place++;
    seat_next_round();
}

// While nodes gather they stand in `nodes_` by their numbers, and there may be very many.
const JobNode* Coordinator::holder_of(int number) const {
    if (number == kUnnumbered) return nullptr;
    const auto is_holder = [number](const auto& entry) {
        return entry.second.connected && entry.second.claim == number;
    };
    const auto holder = state_ == CoordinatorState::gathering
                            ? nodes_.find(number)
                            : std::find_if(nodes_.begin(), nodes_.end(), is_holder);
    return holder == nodes_.end() ? nullptr : &holder->second;
}

JobNode* Coordinator::host() {
    const auto host = host_ ? nodes_.find(*host_) : nodes_.end();
    return host == nodes_.end() || !host->second.connected ? nullptr : &host->second;
}

// Node 0's own agent is a thread of the process that asks.
void Coordinator::watch(ConnectionId from, const Hello& hello, TimePoint now) {
    if (options_.heartbeat.count() == 0 || is_own(hello)) return;
    send(from, Welcome{.heartbeat_ms = options_.heartbeat.count()});  // the rest the service knows
    heartbeats_.add(from, now);
}

std::optional<Refused> Coordinator::reason_against(const Hello& hello) const {
    return reason_to_refuse(hello, terms(),
                            company_of(hello, options_.own_agent, holder_of(hello.node_rank), nodes_));
}

void Coordinator::refuse(ConnectionId from, const Hello& hello, const Refused& refused) {
    Refused answer = refused;
    if (hello.run_id != options_.run_id) answer.other_job = kPortOfAnotherJob;
    out_.push_back({from, std::move(answer), true});
    if (hello.seeks_port && hello.run_id != options_.run_id) return;
    // Once each, or an agent that tries again and again would fill node 0's screen.
    const bool strange = is_stranger(hello, terms());
    PeerRefused told{hello.host, hello.pid, strange ? what_is_strange(hello, terms()) : refused.reason};
    const bool is_news = refusals_told_.size() < kMaxRefusalsTold &&
                         refusals_told_.insert(told.host + '\n' + told.reason).second;
    if (!is_news) return;
    if (const JobNode* own = host()) {
        send(own->connection, std::move(told));
    } else {
        refusals_untold_.push_back(std::move(told));
    }
}

void Coordinator::forget(const JobNode& node, TimePoint now) {
    if (node.hosts) host_.reset();
    nodes_.erase(newcomers_.extract(newcomer_of(node.hello)).mapped());
    if (nodes_.size() < static_cast<std::size_t>(options_.elasticity.least(options_.nnodes)) &&
        !unfit_fault())
        last_call_end_.reset();
    status_deadline_ = next_status(now);
    if (queue_.empty()) return;
    const JobNode next = std::move(queue_.extract(queue_.begin()).mapped());
    admit(next.connection, next.hello, now);
}

Coordinator::TimePoint Coordinator::next_status(TimePoint now) const {
    return last_status_ ? std::max(now, *last_status_ + kStatusPeriod) : now + kFirstStatusDelay;
}

void Coordinator::give_up() {
    const auto timeout = std::chrono::duration_cast<std::chrono::seconds>(options_.join_timeout);
    const Waiting status = waiting();
    refuse_all({fmt::format("{} after {} s{}; --join-timeout SECONDS sets how long to wait", to_text(status),
                            timeout.count(), present_text(status)),
                kExitUnavailable});
}

void Coordinator::refuse_all(const Refused& refused) {
    for (const auto& [rank, node] : nodes_) {
        if (node.connected) out_.push_back({node.connection, refused, true});
    }
    for (const auto& [connection, node] : queue_) out_.push_back({connection, refused, true});
}

void Coordinator::compare_nodes() {
    differences_ = comparison_.learn(nodes_);
    const JobNode* own = host();
    const bool is_refused = options_.strict_env && !has_run_;
    if (!differences_.empty() && !is_refused && own != nullptr)
        send(own->connection, NodesDiffer{differences_});
}

void Coordinator::tell_waiting(TimePoint now) {
    status_deadline_.reset();
    last_status_ = now;
    send_all(waiting());
}

Waiting Coordinator::waiting() const {
    const Elasticity& elasticity = options_.elasticity;
    Waiting status{.joined = static_cast<int>(present()),
                   .expected = elasticity.least(options_.nnodes),
                   .missing = {},
                   .present = {},
                   .at_most = elasticity.seats(options_.nnodes)};
    if (last_call_end_) status.last_call_ms = elasticity.last_call.count();
    bool numbered = !elasticity.is_elastic() && queue_.empty();
    for (const auto& [key, node] : nodes_) {
        numbered = numbered && key < options_.nnodes;
        if (!node.connected || status.joined > static_cast<int>(kMaxPresentListed)) continue;
        status.present.push_back(key < options_.nnodes ? node_text(key, node.hello.host) : node.hello.host);
    }
    for (int rank = 0; numbered && rank < options_.nnodes && status.missing.size() < kMaxMissingListed;
         ++rank) {
        const auto node = nodes_.find(rank);
        if (node != nodes_.end() && node->second.connected) continue;
        status.missing.push_back(rank);
        const bool is_listed = options_.hosts.size() == static_cast<std::size_t>(options_.nnodes);
        if (is_listed && status.missing_hosts.size() < kMaxHostsNamed)
            status.missing_hosts.push_back(options_.hosts[static_cast<std::size_t>(rank)]);
    }
    if (status.missing.empty() && status.joined < status.expected) name_missing(status);
    return status;
}

void Coordinator::name_missing(Waiting& status) const {
    std::vector<ListPosition> there;
    const auto note = [&there](const JobNode& node) {
        if (node.stays()) there.push_back({node.hello.list_position, node.hello.list_size});
    };
    for (const auto& [key, node] : nodes_) note(node);
    for (const auto& [connection, node] : queue_) note(node);
    status.missing_hosts = absent_hosts(options_.hosts, there, options_.nnodes - status.joined);
    status.hosts_missing = static_cast<int>(status.missing_hosts.size());
    if (status.missing_hosts.size() > kMaxHostsNamed) status.missing_hosts.resize(kMaxHostsNamed);
}

void Coordinator::start_round(TimePoint now) {
    settle_doubt(now);
    if (std::exchange(has_run_, true)) ++round_;
    workers_gone_.reset();
    status_deadline_.reset();
    awaited_ = nodes_.size();
    round_start_ = now;
    progressed_ = requeue_ = false;
    failures_ = {};
    cause_.reset();
    deaths_told_ = 0;
    exit_wait_.round_begins();
    signals_.round_begins();
    if (may_fail_over()) begin_quorum();
    wish_record(now);
    std::vector<NodeShare> shares;
    for (const auto& [rank, node] : nodes_) shares.push_back({node.hello.local_world_size, node.hello.role});
    const std::vector<NodeRanks> ranks = map_ranks(shares);
    for (auto& [node_rank, node] : nodes_) {
        const NodeRanks& own = ranks.at(static_cast<std::size_t>(node_rank));
        node.ended = node.all_zero = node.is_gone = node.gave_up = false;
        node.ends.clear();
        node.hello.following.reset();
        node.base_rank = own.base_rank;
        heartbeats_.excuse(node.connection, now + kStartTimeout);
        if (members_) send(node.connection, *members_);
        send(node.connection, RoundReady{.round = round_,
                                         .job_id = options_.job_id,
                                         .start_unix_s = options_.start_unix_s,
                                         .group_rank = node_rank,
                                         .group_world_size = static_cast<int>(nodes_.size()),
                                         .place = node.place,
                                         .base_rank = own.base_rank,
                                         .world_size = own.world_size,
                                         .role_base_rank = own.role_base_rank,
                                         .role_world_size = own.role_world_size,
                                         .restart_count = policy_.restarts(),
                                         .max_restarts = policy_.max_restarts(),
                                         .resizes = resize_count_,
                                         .restart_reason = reason_of_round(),
                                         .coordinator_rank = host_.value_or(0),
                                         .reached_at = node_rank == host_ ? reached_at(node_rank) : "",
                                         .through_doors = options_.through_doors});
    }
    for (const auto& [connection, node] : queue_) {
        if (members_) send(connection, *members_);
    }
}

// Of the last restart, or resize, whichever was later.
std::string Coordinator::reason_of_round() const {
    const std::vector<Restart>& list = resizing_ ? resizes_ : restarts_;
    return list.empty() ? std::string() : list.back().reason;
}

// As the node with the lowest number says, since one that shares node 0's machine may have taken another way.
std::string Coordinator::reached_at(int host) const {
    const auto other =
        std::find_if(nodes_.begin(), nodes_.end(), [host](const auto& entry) { return entry.first != host; });
    return other == nodes_.end() ? std::string() : other->second.hello.reached_at;
}

}  // namespace ddprun::inline job
