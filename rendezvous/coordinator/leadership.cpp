// How a coordinator takes a lost one's job over, in the order in which it happens:
//   1. Agents that have lost the coordinator come (add_follower) and say which round they know; the newest
//      counts.
//   2. Once those who came could be a quorum, each is asked to follow this one under an epoch that none of
//      them has followed before (ask_to_follow). Who follows answers to nobody else.
//   3. When all living members follow, or the time is over and a quorum does, the job is taken over
//      (take_over): every follower keeps the rank of the last round, the missing are lost.
//   4. Their workers may run until they have noticed and had their grace; no round begins before.
//   5. From then on each loss is counted against the quorum of the last round (lose_member), and until enough
//      members have heard of a new round also against that of the one before (previous_).
#include "rendezvous/coordinator/leadership.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "rendezvous/control/control_text.hpp"

namespace ddprun {
inline namespace job {
namespace {

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

// One that shares the host's machine may have reached it by a way that nobody else has.
std::string meeting_address(const JobNode& node, const JobNodes& nodes) {
    const std::string& own = node.hello.meeting_address;
    if (!is_loopback(own)) return own;
    for (const auto& [rank, other] : nodes) {
        const std::string& host = other.hello.reached_at;
        if (!host.empty() && !is_loopback(host)) return host;
    }
    return own;
}

const Member* listed(const Hello& agent, const MemberList& list) {
    for (const Member& member : list.members) {
        const bool is_it =
            member.host == agent.host && member.pid == agent.pid && member.nonce == agent.nonce;
        if (is_it) return &member;
    }
    return nullptr;
}

}  // namespace

Leadership::Leadership(SharedOptions options, TimePoint now)
    : options_(std::move(options)), members_(options_->predecessor) {
    if (!members_) return;
    epoch_ = members_->epoch;
    const HeartbeatTerms terms{std::chrono::milliseconds(members_->heartbeat_ms)};
    election_end_ = now + terms.patience() + kElectionTime;
    lost_to_all_ = now + terms.all_have_noticed();
}

void Leadership::postpone(std::chrono::steady_clock::duration jump) {
    if (lost_to_all_) *lost_to_all_ += jump;
}

std::optional<Leadership::TimePoint> Leadership::lease_end(const HeartbeatWatch& heartbeats,
                                                           bool stops) const {
    if (own_suspended_ || !options_->may_fail_over()) return std::nullopt;
    const auto end = heartbeats.lease_end();
    // Those who are lost may count on the end of its workers, whoever is here and could give this node up.
    return stops && own_end_ ? std::min(*own_end_, end.value_or(*own_end_)) : end;
}

bool Leadership::limit_own_end(const Roster& roster, TimePoint now) {
    if (own_end_ || !(minority_cause_ || may_be_outdone())) return false;
    const auto host = roster.host_rank();
    own_end_ = now + Aftermath::lost_grace(host ? roster.nodes().at(*host).hello.grace_ms : 0) -
               Aftermath::kGuardianTime;
    return true;
}

Messages Leadership::add_follower(const JobNode& node, const JobNodes& nodes) {
    votes_[node.connection] = {};
    const Following& following = *node.hello.following;
    // A round may have begun of which not all have heard.
    if (following.last.version() > members_->version()) {
        members_ = following.last;
        dead_.clear();
    }
    if (following.last.version() == members_->version())
        dead_.insert(following.dead.begin(), following.dead.end());
    epoch_ = std::max({epoch_, following.followed, members_->epoch});
    return ask_to_follow(nodes);
}

// An agent's own word of the same round counts, else what is said of it.
std::optional<int> Leadership::rank_among_members(const JobNode& node) const {
    const Following& following = *node.hello.following;
    if (following.last.version() == members_->version()) return following.group_rank;
    if (const Member* member = listed(node.hello, *members_)) return member->group_rank;
    return std::nullopt;
}

template <typename Counts>
Attendance Leadership::attendance(const JobNodes& nodes, Counts counts) const {
    std::set<int> present;
    for (const auto& [key, node] : nodes) {
        const auto rank = rank_among_members(node);
        if (rank && counts(node) && !dead_.contains(*rank)) present.insert(*rank);
    }
    int first = members_->host_rank;
    for (int rank = 0; dead_.contains(first); ++rank) first = rank;
    return {static_cast<std::size_t>(members_->size) - dead_.size(), present.size(), present.contains(first)};
}

// An answer shows that the agent is there now, and that it answers to nobody else.
Messages Leadership::ask_to_follow(const JobNodes& nodes) {
    const bool asks = std::any_of(votes_.begin(), votes_.end(),
                                  [](const auto& vote) { return vote.second.asked_epoch != 0; });
    const bool is_enough = asks || options_->records() ||
                           (2 * nodes.size() >= static_cast<std::size_t>(members_->size) - dead_.size() &&
                            is_quorum(attendance(nodes, [](const JobNode&) { return true; })));
    if (!is_enough) return {};
    const bool is_outdone = std::any_of(nodes.begin(), nodes.end(), [this](const auto& entry) {
        const JobNode& node = entry.second;
        return votes_.at(node.connection).asked_epoch == 0 && node.hello.following->followed >= epoch_;
    });
    if (is_outdone || !asks) ++epoch_;
    Messages out;
    for (const auto& [key, node] : nodes) {
        Vote& vote = votes_.at(node.connection);
        if (vote.asked_epoch == epoch_) continue;
        vote = {.asked_epoch = epoch_};
        out.push_back({node.connection, Lead{epoch_}});
    }
    return out;
}

bool Leadership::note_follower(const JobNode& node, const Follow& follow, const JobNodes& nodes) {
    if (follow.epoch != epoch_) return false;
    votes_.at(node.connection).follows = true;
    const bool all_follow =
        std::all_of(votes_.begin(), votes_.end(), [](const auto& vote) { return vote.second.follows; });
    if (!all_follow) return false;
    const Attendance all = attendance(nodes, [](const JobNode&) { return true; });
    return all.present == all.living;
}

std::optional<std::string> Leadership::why_not_elected(const JobNodes& nodes) const {
    const bool is_here = std::any_of(nodes.begin(), nodes.end(), [this](const auto& entry) {
        return entry.second.hosts && follows(entry.second);
    });
    const Attendance followers = attendance(nodes, [this](const JobNode& node) { return follows(node); });
    if (options_->records() ? is_here : is_quorum(followers)) return std::nullopt;
    const Attendance all = attendance(nodes, [](const JobNode&) { return true; });
    return fmt::format(
        "{} of {} nodes found each other, which is no majority: the others may go on without them (--failover)",
        all.present, all.living);
}

Takeover Leadership::take_over(const JobNodes& nodes, TimePoint now) {
    Takeover takeover{
        .history = {members_->restart_count, members_->resizes, members_->restarts, members_->resize_list},
        .cause = {.kind = Failure::Kind::node_lost,
                  .node_rank = members_->host_rank,
                  .exit_code = kExitUnavailable,
                  .message = "the coordinator was lost"}};
    for (const Member& member : members_->members) {
        if (member.group_rank == members_->host_rank) takeover.cause.host = member.host;
    }
    std::map<int, const JobNode*> seated;  // by rank
    bool is_told = false;
    for (const auto& [key, node] : nodes) {
        if (!follows(node)) continue;
        const Following& following = *node.hello.following;
        if (following.cause && !std::exchange(is_told, true)) takeover.cause = *following.cause;
        was_decided_ = was_decided_ || following.is_decided;
        takeover.history.restarts = std::max(takeover.history.restarts, following.restart_count);
        takeover.history.resizes = std::max(takeover.history.resizes, following.resizes);
        if (const auto rank = rank_among_members(node)) seated.emplace(*rank, &node);
    }
    std::set<Quorum::Id> present;
    std::optional<Quorum::Id> first;
    for (const auto& [rank, node] : seated) {
        // It may have had another place in the round before, and have heard of that only.
        const Member* member = listed(node->hello, *members_);
        takeover.seats.push_back({rank, node->key, member == nullptr ? node->place : member->place});
        present.insert(node->connection);
        if (rank == members_->host_rank || !first) first = node->connection;
    }
    // The member that decided an even split before does so now.
    const Attendance all = attendance(nodes, [this, &seated](const JobNode& node) {
        const auto seat = seated.find(rank_among_members(node).value_or(-1));
        return seat != seated.end() && seat->second == &node;
    });
    quorum_ = Quorum(all.living, std::move(present), all.has_first ? first : std::nullopt);
    votes_.clear();
    // The workers of the dead are being killed; the other missing agents notice within their patience that
    // they have no coordinator, and then have their grace.
    const auto size = static_cast<std::size_t>(members_->size);
    const bool all_dead = seated.size() + dead_.size() >= size;
    const TimePoint killed = now + Aftermath::kKillTime;
    const TimePoint latest =
        all_dead ? killed : lost_to_all_.value_or(now) + Aftermath::lost_grace(members_->grace_ms);
    lost_to_all_.reset();
    if (seated.size() < size) takeover.workers_gone = std::max(killed, latest);
    return takeover;
}

void Leadership::note_missing(const JobNodes& nodes) {
    for (int rank = 0; rank < members_->size; ++rank) {
        const auto node = nodes.find(rank);
        const bool is_there = node != nodes.end() && node->second.connected;
        lost_silently_ = lost_silently_ || (!is_there && !dead_.contains(rank));
    }
    if (!options_->records()) return;
    wish_ = RecordWish{record_of(members_->round), std::nullopt};
    wish_->record.epoch = members_->epoch;
}

SteppedDown Leadership::stepping_down(const JobNodes& nodes, bool has_run, const std::string& reason) const {
    SteppedDown word{.reason = reason, .epoch = members_->epoch, .round = members_->round};
    if (!has_run) return word;
    word.reason = "the node that hosted the coordinator leaves the job";
    for (const auto& [rank, node] : nodes) {
        const bool goes = node.is_dead || (node.connected && !node.stays());
        if (goes && word.gone.size() < kMaxMembersListed) word.gone.push_back(rank);
    }
    return word;
}

void Leadership::hear_of_round(ConnectionId from, const ControlMessage& message, int round) {
    if (!previous_) return;
    const auto* heartbeat = std::get_if<Heartbeat>(&message);
    const bool has_begun = heartbeat != nullptr ? heartbeat->number == 0 : round_of(message) == round;
    if (has_begun) previous_->hear(from);
    if (previous_->has_heard()) previous_.reset();
}

void Leadership::release(ConnectionId connection) {
    quorum_.lose(connection, true);
    if (previous_) previous_->lose(connection, true);
}

Leadership::MemberLoss Leadership::lose_member(const JobNode& node, bool is_dead) {
    lost_silently_ = lost_silently_ || !is_dead;
    quorum_.lose(node.connection, is_dead);
    if (previous_) previous_->lose(node.connection, is_dead);
    if (!members_ || !options_->may_fail_over()) return {};
    MemberLoss loss;
    // The host's own process lives as long as it says anything; and agents keep no more in mind.
    const int gone = members_->size - static_cast<int>(quorum_.living());
    if (is_dead && !options_->is_own(node.hello) && gone <= static_cast<int>(kMaxMembersListed))
        loss.news = MemberGone{members_->epoch, members_->round, node.hello.node_rank};
    const bool holds = quorum_.holds() && (!previous_ || previous_->holds());
    if (options_->records() || minority_cause_ || holds) return loss;
    minority_cause_ = loss_of(node);
    loss.obstacle = fmt::format(
        "only {} of {} nodes are left here: the others may go on without them, so these do not (--failover)",
        quorum_.present(), quorum_.living());
    return loss;
}

Failure Leadership::loss_of(const JobNode& node) const {
    return {.kind = Failure::Kind::node_lost,
            .node_rank = node.hello.node_rank,
            .host = node.hello.host,
            .exit_code = kExitUnavailable,
            .message = node.silent ? silence_text(options_->heartbeat) : "its connection was lost"};
}

MemberList Leadership::member_list(const Roster& roster, const RoundHistory& history, int round) const {
    const JobNodes& nodes = roster.nodes();
    const std::optional<int> host = roster.host_rank();
    MemberList list{.epoch = epoch_,
                    .round = round,
                    .job_id = options_->job_id,
                    .start_unix_s = options_->start_unix_s,
                    .size = static_cast<int>(nodes.size()),
                    .host_rank = host.value_or(0),
                    .heartbeat_ms = options_->heartbeat.count(),
                    .grace_ms = 0,
                    .members = {},
                    .restart_count = history.restarts,
                    .resizes = history.resizes,
                    .restarts = carried(history.restart_list),
                    .resize_list = carried(history.resize_list)};
    const auto add = [&](const JobNode& node) {
        if (list.members.size() == kMaxMembersListed) return;
        list.members.push_back({node.hello.node_rank, node.place, node.hello.host, node.hello.pid,
                                node.hello.nonce, node.hello.local_world_size, meeting_address(node, nodes),
                                node.hello.meeting_port});
    };
    if (host) add(nodes.at(*host));
    for (const auto& [rank, node] : nodes) {
        list.grace_ms = std::max(list.grace_ms, node.hello.grace_ms);
        if (rank != host) add(node);
    }
    return list;
}

bool Leadership::holds_without_leavers(const JobNodes& nodes) const {
    if (!members_ || !options_->may_fail_over() || options_->records()) return true;
    Quorum left = quorum_;
    for (const auto& [rank, node] : nodes) {
        if (node.connected && !node.stays()) left.lose(node.connection, true);
    }
    return left.holds();
}

// All of the last round's members are in this one or dead, so nobody can have gone on with less. Until one of
// them could have done so since, the record may be begun anew where it was lost.
void Leadership::begin_round(const Roster& roster, const RoundHistory& history, int round, TimePoint now) {
    lost_silently_ = false;
    own_end_.reset();
    if (!options_->may_fail_over()) return;
    std::set<Quorum::Id> present;
    for (const auto& [rank, node] : roster.nodes()) present.insert(node.connection);
    const auto host = roster.host_rank();
    const auto first = host ? std::optional(roster.nodes().at(*host).connection) : std::nullopt;
    if (members_) previous_ = std::move(quorum_);
    if (previous_ && first) previous_->hear(*first);
    quorum_ = Quorum(roster.nodes().size(), std::move(present), first);
    members_ = member_list(roster, history, round);
    if (options_->records() && recorded_ != record_of(round))
        wish_ = RecordWish{record_of(round), now + options_->heartbeat};
}

// This process may have stood still until now, with the last words of agents that follow another one unread.
// So a round begins only with a quorum of those who are there for certain.
bool Leadership::is_sure(const Roster& roster, const HeartbeatWatch& heartbeats, TimePoint now) const {
    if (!members_ || !options_->may_fail_over()) return true;
    const auto host = roster.host_rank();
    const auto own = host ? std::optional(roster.nodes().at(*host).connection) : std::nullopt;
    const auto is_there = [&](Quorum::Id member) {
        return member == own || heartbeats.is_bound(member, now);
    };
    // Nobody may take a member for gone that is not, where each of them could lead the job by itself.
    if (options_->records())
        return std::all_of(roster.nodes().begin(), roster.nodes().end(), [&](const auto& entry) {
            const JobNode& node = entry.second;
            return !node.stays() || options_->is_own(node.hello) || is_there(node.connection);
        });
    return quorum_.holds_with(is_there) && (!previous_ || previous_->holds_with(is_there));
}

RoundRecord Leadership::record_of(int round) const {
    RoundRecord record{.job_id = options_->job_id, .epoch = epoch_, .round = round, .host = {}, .pid = 0};
    if (!options_->own_agent) return record;
    record.host = options_->own_agent->host;
    record.pid = options_->own_agent->pid;
    return record;
}

// A node that has said that it leaves ends by itself; one that is left out may not have heard of it.
bool Leadership::lacks_record(const JobNodes& nodes, int next_round) const {
    if (!options_->records() || recorded_ == record_of(next_round)) return false;
    return lost_silently_ || std::any_of(nodes.begin(), nodes.end(), [](const auto& entry) {
               const JobNode& node = entry.second;
               return node.connected && !node.leaving && !node.left_out.empty();
           });
}

// Whatever became of workers meanwhile.
std::optional<Failure> Leadership::record(const JobNodes& nodes, int next_round) {
    wish_ = RecordWish{record_of(next_round), std::nullopt};
    std::optional<Failure> cause;
    for (const auto& [rank, node] : nodes) {
        if (!node.connected && !node.is_dead) cause = loss_of(node);
    }
    return cause;
}

bool Leadership::learn(const RecordNews& news) {
    if (news.kind == RecordNews::Kind::recorded) recorded_ = news.record;
    return wish_ && wish_->record == news.record;
}

}  // namespace job
}  // namespace ddprun
