// How a job goes on when the coordinator is lost: one that would take over gathers those who follow it, and goes on
// where the other one has left off. And the other side: what a coordinator that has lost the others may not do.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "rendezvous/control/control_text.hpp"
#include "rendezvous/coordinator/coordinator.hpp"

namespace ddprun::inline job {
namespace {

Refused of_another_job() {
    return {"this agent has lost the coordinator of another job than the one here", kExitNotAdmitted};
}

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

}  // namespace

// With one node, or where every loss ends the job, nobody could go on.
bool Coordinator::may_fail_over() const {
    return options_.failover && options_.heartbeat.count() > 0 && options_.nnodes > 1 &&
           (options_.elasticity.is_elastic() || policy_.max_restarts() > 0);
}

std::optional<Coordinator::TimePoint> Coordinator::lease_end() const {
    const bool runs = state_ == CoordinatorState::running || state_ == CoordinatorState::stopping;
    if (!runs || own_suspended_ || !may_fail_over()) return std::nullopt;
    if (const auto end = heartbeats_.lease_end()) return end;
    // Nobody is here who could give this node up, but those who are lost may count on the end of its workers.
    return state_ == CoordinatorState::stopping ? own_end_ : std::nullopt;
}

void Coordinator::limit_own_end(TimePoint now) {
    if (!host_) return;
    // Its agent kills them before, if it can.
    own_end_ = now + std::chrono::milliseconds(nodes_.at(*host_).hello.grace_ms) +
               std::chrono::milliseconds(kKillTime) / 2;
}

void Coordinator::admit_follower(ConnectionId from, const Hello& hello, TimePoint now) {
    if (!hello.following) return enqueue(from, hello, now);
    const auto refused = reason_to_refuse(hello, terms(), {});
    if (refused) return refuse(from, hello, *refused);
    if (hello.following->last.job_id != options_.job_id) return refuse(from, hello, of_another_job());
    const auto before = std::find_if(nodes_.begin(), nodes_.end(), [&hello](const auto& entry) {
        return is_same_agent(entry.second.hello, hello);
    });
    if (before != nodes_.end()) {
        out_.push_back({before->second.connection, Abdicated{.reason = "this agent came again"}, true});
        forget_follower(before->second);
    }
    // Two that say that they are the same member cannot both be.
    const int key = options_.nnodes + unnumbered_++;
    JobNode& node = nodes_[key] = {.hello = hello, .connection = from, .hosts = is_own(hello)};
    node.claim = hello.following->claim;
    node.place = hello.following->place;
    node.base_rank = hello.following->base_rank;
    nodes_by_connection_[from] = key;
    watch(from, hello, now);
    learn_from(*hello.following);
    canvass();
}

void Coordinator::forget_follower(JobNode& node) {
    nodes_by_connection_.erase(node.connection);
    heartbeats_.remove(node.connection);
    std::erase_if(nodes_, [&node](const auto& entry) { return &entry.second == &node; });
}

// A round may have begun of which not all have heard.
void Coordinator::learn_from(const Following& following) {
    if (following.last.version() > members_->version()) {
        members_ = following.last;
        dead_.clear();
        round_ = members_->round;
    }
    if (following.last.version() == members_->version())
        dead_.insert(following.dead.begin(), following.dead.end());
    epoch_ = std::max({epoch_, following.followed, members_->epoch});
}

// By what it says of the same round, or by what is said of its agent.
std::optional<int> Coordinator::rank_among_members(const JobNode& node) const {
    const Following& following = *node.hello.following;
    if (following.last.version() == members_->version()) return following.group_rank;
    if (const Member* member = listed(node.hello)) return member->group_rank;
    return std::nullopt;
}

const Member* Coordinator::listed(const Hello& agent) const {
    for (const Member& member : members_->members) {
        if (member.host == agent.host && member.pid == agent.pid) return &member;
    }
    return nullptr;
}

template <typename Counts>
Attendance Coordinator::attendance(Counts counts) const {
    std::set<int> present;
    for (const auto& [key, node] : nodes_) {
        const auto rank = rank_among_members(node);
        if (rank && counts(node) && !dead_.contains(*rank)) present.insert(*rank);
    }
    int first = members_->host_rank;
    for (int rank = 0; dead_.contains(first); ++rank) first = rank;
    return {static_cast<std::size_t>(members_->size) - dead_.size(), present.size(), present.contains(first)};
}

// Asks those who came to follow, once they are enough, by a number that none of them has followed before. An answer
// shows that the agent is there now, and that it answers to nobody else.
void Coordinator::canvass() {
    const bool asks = std::any_of(nodes_.begin(), nodes_.end(),
                                  [](const auto& entry) { return entry.second.asked_epoch != 0; });
    const bool is_enough = asks || records() ||
                           (2 * nodes_.size() >= static_cast<std::size_t>(members_->size) - dead_.size() &&
                            is_quorum(attendance([](const JobNode&) { return true; })));
    if (!is_enough) return;
    const bool is_outdone = std::any_of(nodes_.begin(), nodes_.end(), [this](const auto& entry) {
        const JobNode& node = entry.second;
        return node.asked_epoch == 0 && node.hello.following->followed >= epoch_;
    });
    if (is_outdone || !asks) ++epoch_;
    for (auto& [key, node] : nodes_) {
        if (node.asked_epoch == epoch_) continue;
        node.asked_epoch = epoch_;
        node.follows = false;
        send(node.connection, Lead{epoch_});
    }
}

void Coordinator::note_follower(JobNode& node, const Follow& follow, TimePoint now) {
    if (follow.epoch != epoch_) return;
    node.follows = true;
    const auto missing =
        std::count_if(nodes_.begin(), nodes_.end(), [](const auto& entry) { return !entry.second.follows; });
    if (missing > 0) return;
    const Attendance all = attendance([](const JobNode& one) { return one.follows; });
    if (all.present == all.living) handle(CoordinatorEvent::elected, {now});
}

void Coordinator::end_election(TimePoint now) {
    const bool is_here = std::any_of(nodes_.begin(), nodes_.end(), [](const auto& entry) {
        return entry.second.hosts && entry.second.follows;
    });
    if (records() ? is_here : is_quorum(attendance([](const JobNode& one) { return one.follows; })))
        return handle(CoordinatorEvent::elected, {now});
    const Attendance all = attendance([](const JobNode&) { return true; });
    decision_.message = fmt::format(
        "{} of {} nodes found each other, which is no majority: the others may go on without them "
        "(--failover)",
        all.present, all.living);
    handle(CoordinatorEvent::election_over, {now});
}

// The followers under their ranks of the round that has ended.
void Coordinator::seat_followers() {
    JobNodes followers;
    std::set<Quorum::Id> present;
    for (auto& [key, node] : nodes_) {
        const auto rank = rank_among_members(node);
        const bool takes_part = node.follows && rank && !followers.contains(*rank);
        if (!takes_part) {
            // One that has not answered, or was no member of that round: as if it came now.
            out_.push_back({node.connection, Abdicated{.reason = "the others have gone on"}, true});
            nodes_by_connection_.erase(node.connection);
            heartbeats_.remove(node.connection);
            continue;
        }
        // It may have had another one in the round before, and have heard of that only.
        if (const Member* member = listed(node.hello)) node.place = member->place;
        node.hello.node_rank = *rank;
        nodes_by_connection_[node.connection] = *rank;
        present.insert(node.connection);
        followers.emplace(*rank, std::move(node));
    }
    nodes_ = std::move(followers);
    host_.reset();
    std::optional<Quorum::Id> first;
    for (const auto& [rank, node] : nodes_) {
        seating_.keep(node.place);
        if (node.hosts) host_ = rank;
        if (rank == members_->host_rank || !first) first = node.connection;
    }
    // Who decided an even split before does so now.
    const Attendance all = attendance([](const JobNode&) { return true; });
    quorum_ = Quorum(all.living, std::move(present), all.has_first ? first : std::nullopt);
}

// The others are lost. Of the dead the workers are being killed; the rest notice within their patience that they have
// no coordinator, and then have their grace.
void Coordinator::seat_missing(TimePoint now) {
    const bool all_dead = nodes_.size() + dead_.size() >= static_cast<std::size_t>(members_->size);
    const TimePoint latest =
        all_dead ? now : lost_to_all_.value_or(now) + std::chrono::milliseconds(members_->grace_ms);
    lost_to_all_.reset();
    if (static_cast<int>(nodes_.size()) < members_->size) workers_gone_ = std::max(now, latest) + kKillTime;
    for (const Member& member : members_->members) {
        if (nodes_.contains(member.group_rank)) continue;
        JobNode& node = nodes_[member.group_rank];
        node.hello.node_rank = member.group_rank;
        node.hello.host = member.host;
        node.hello.pid = member.pid;
        node.hello.local_world_size = member.local_world_size;
        node.place = member.place;
        node.connected = false;
        node.ended = true;
        seating_.keep(member.place);
    }
}

void Coordinator::take_over(TimePoint now) {
    has_run_ = true;
    const JobNodes& followers = nodes_;
    std::optional<Failure> cause;
    int restarts = members_->restart_count;
    resize_count_ = members_->resizes;
    for (const auto& [key, node] : followers) {
        if (!node.follows) continue;
        const Following& following = *node.hello.following;
        if (following.cause && !cause) cause = following.cause;
        was_decided_ = was_decided_ || following.is_decided;
        restarts = std::max(restarts, following.restart_count);
        resize_count_ = std::max(resize_count_, following.resizes);
    }
    policy_.go_on_from(restarts);
    restarts_ = members_->restarts;
    resizes_ = members_->resize_list;
    seat_followers();
    // The coordinator before this one has told of them.
    comparison_.learn(nodes_);
    refuse_unwanted();
    seat_missing(now);
    limit_own_end(now);
    note_missing();
    const auto host =
        std::find_if(members_->members.begin(), members_->members.end(),
                     [this](const Member& one) { return one.group_rank == members_->host_rank; });
    const Failure loss{.kind = Failure::Kind::node_lost,
                       .node_rank = members_->host_rank,
                       .host = host == members_->members.end() ? std::string() : host->host,
                       .exit_code = kExitUnavailable,
                       .message = "the coordinator was lost"};
    cause_ = cause.value_or(loss);
    // How long it ran nobody knows; it shall not count against it.
    uptime_ = options_.restarts.min_uptime;
    failures_.tell(cause_->node_rank, *cause_);
    awaited_ = static_cast<std::size_t>(
        std::count_if(nodes_.begin(), nodes_.end(), [](const auto& entry) { return !entry.second.ended; }));
    if (awaited_ == 0) handle(CoordinatorEvent::all_ended, {now});
}

void Coordinator::go_on_pausing(TimePoint now) {
    resizing_ = resize_count_ > members_->resizes;
    decision_.restart = true;
    pause_end_ = workers_gone_.value_or(now);
    if (pause_end_ <= now) handle(CoordinatorEvent::pause_over, {now});
}

// The host's own agent leaves, or nobody follows. Whoever is left looks for another one.
void Coordinator::abdicate() {
    Abdicated word{.reason = decision_.message, .epoch = members_->epoch, .round = members_->round};
    if (has_run_) {
        word.reason = "the node that hosted the coordinator leaves the job";
        for (const auto& [rank, node] : nodes_) {
            const bool goes = node.is_dead || (node.connected && !node.stays());
            if (goes && word.gone.size() < kMaxMembersListed) word.gone.push_back(rank);
        }
        release_leavers();
    }
    for (const auto& [rank, node] : nodes_) {
        if (node.connected) out_.push_back({node.connection, word, true});
    }
    for (const auto& [connection, node] : queue_) out_.push_back({connection, word, true});
}

// The one before is one as long as not enough of it know of the last.
void Coordinator::hear_of_round(ConnectionId from, const ControlMessage& message) {
    if (!previous_ || state_ != CoordinatorState::running) return;
    const auto* heartbeat = std::get_if<Heartbeat>(&message);
    const bool has_begun =
        heartbeat != nullptr ? heartbeat->number == 0 : ddprun::round_of(message) == round_;
    if (has_begun) previous_->hear(from);
    if (previous_->has_heard()) previous_.reset();
}

void Coordinator::lose_member(const JobNode& node, bool is_dead) {
    quorum_.lose(node.connection, is_dead);
    if (previous_) previous_->lose(node.connection, is_dead);
    if (!members_ || !may_fail_over()) return;
    // The host's own process lives as long as it says anything; and agents keep no more in mind.
    const int gone = members_->size - static_cast<int>(quorum_.living());
    if (is_dead && !is_own(node.hello) && gone <= static_cast<int>(kMaxMembersListed))
        send_all(MemberGone{members_->epoch, members_->round, node.hello.node_rank});
    if (records() || minority_cause_ || (quorum_.holds() && (!previous_ || previous_->holds()))) return;
    minority_cause_ =
        Failure{.kind = Failure::Kind::node_lost,
                .node_rank = node.hello.node_rank,
                .host = node.hello.host,
                .exit_code = kExitUnavailable,
                .message = node.silent ? silence_text(options_.heartbeat) : "its connection was lost"};
    if (state_ != CoordinatorState::running && state_ != CoordinatorState::stopping) cause_ = minority_cause_;
    decision_.message = fmt::format(
        "only {} of {} nodes are left here: the others may go on without them, so these do not (--failover)",
        quorum_.present(), quorum_.living());
}

// One that shares the host's machine may have reached it by a way that nobody else has.
std::string Coordinator::meeting_address(const JobNode& node) const {
    const std::string& own = node.hello.meeting_address;
    if (!is_loopback(own)) return own;
    for (const auto& [rank, other] : nodes_) {
        const std::string& host = other.hello.reached_at;
        if (!host.empty() && !is_loopback(host)) return host;
    }
    return own;
}

MemberList Coordinator::member_list() const {
    MemberList list{.epoch = epoch_,
                    .round = round_,
                    .job_id = options_.job_id,
                    .start_unix_s = options_.start_unix_s,
                    .size = static_cast<int>(nodes_.size()),
                    .host_rank = host_.value_or(0),
                    .heartbeat_ms = options_.heartbeat.count(),
                    .grace_ms = 0,
                    .members = {},
                    .restart_count = policy_.restarts(),
                    .resizes = resize_count_,
                    .restarts = carried(restarts_),
                    .resize_list = carried(resizes_)};
    const auto add = [this, &list](const JobNode& node) {
        if (list.members.size() == kMaxMembersListed) return;
        list.members.push_back({node.hello.node_rank, node.place, node.hello.host, node.hello.pid,
                                node.hello.local_world_size, meeting_address(node), node.hello.meeting_port});
    };
    if (host_) add(nodes_.at(*host_));
    for (const auto& [rank, node] : nodes_) {
        list.grace_ms = std::max(list.grace_ms, node.hello.grace_ms);
        if (rank != host_) add(node);
    }
    return list;
}

// Who leaves is no member any more, but was perhaps needed against those who cannot be seen.
bool Coordinator::holds_without_leavers() const {
    if (!members_ || !may_fail_over() || records()) return true;
    Quorum left = quorum_;
    for (const auto& [rank, node] : nodes_) {
        if (node.connected && !node.stays()) left.lose(node.connection, true);
    }
    return left.holds();
}

void Coordinator::begin_quorum() {
    std::set<Quorum::Id> present;
    for (const auto& [rank, node] : nodes_) present.insert(node.connection);
    const auto first = host_ ? std::optional(nodes_.at(*host_).connection) : std::nullopt;
    if (members_) previous_ = std::move(quorum_);
    if (previous_ && first) previous_->hear(*first);
    quorum_ = Quorum(nodes_.size(), std::move(present), first);
    members_ = member_list();
}

}  // namespace ddprun::inline job
