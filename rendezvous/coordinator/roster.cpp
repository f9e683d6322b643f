#include "rendezvous/coordinator/roster.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "rendezvous/control/control_text.hpp"

namespace ddprun {
inline namespace job {
namespace {

std::tuple<std::string, std::int64_t, std::uint64_t, int> newcomer_of(const Hello& hello) {
    return {hello.host, hello.pid, hello.nonce, hello.node_rank};
}

void name_missing(Waiting& status, const CoordinatorOptions& options, const JobNodes& nodes,
                  const NodeQueue& queue) {
    std::vector<ListPosition> there;
    const auto note = [&there](const JobNode& node) {
        if (node.stays()) there.push_back({node.hello.list_position, node.hello.list_size});
    };
    for (const auto& [key, node] : nodes) note(node);
    for (const auto& [connection, node] : queue) note(node);
    status.missing_hosts = absent_hosts(options.hosts, there, options.nnodes - status.joined);
    status.hosts_missing = static_cast<int>(status.missing_hosts.size());
    if (status.missing_hosts.size() > kMaxHostsNamed) status.missing_hosts.resize(kMaxHostsNamed);
}

}  // namespace

Roster::Roster(SharedOptions options, TimePoint now)
    : options_(std::move(options)),
      is_seated_(options_->predecessor.has_value()),
      join_deadline_(now + options_->join_timeout - options_->join_spent) {}

const JobNode* Roster::find(ConnectionId connection) const {
    const auto entry = nodes_by_connection_.find(connection);
    return entry == nodes_by_connection_.end() ? nullptr : &nodes_.at(entry->second);
}

const JobNode* Roster::host() const {
    const auto host = host_ ? nodes_.find(*host_) : nodes_.end();
    return host == nodes_.end() || !host->second.connected ? nullptr : &host->second;
}

Messages Roster::remark(std::string text) const {
    const JobNode* own = host();
    return own == nullptr ? Messages{} : Messages{{own->connection, Remark{std::move(text)}}};
}

// While nodes gather they stand in `nodes_` by their numbers, and there may be very many.
const JobNode* Roster::holder_of(int number) const {
    if (number == kUnnumbered) return nullptr;
    const auto is_holder = [number](const auto& entry) {
        return entry.second.connected && entry.second.claim == number;
    };
    if (is_seated_) {
        const auto holder = std::find_if(nodes_.begin(), nodes_.end(), is_holder);
        return holder == nodes_.end() ? nullptr : &holder->second;
    }
    const auto holder = nodes_.find(number);
    return holder != nodes_.end() && is_holder(*holder) ? &holder->second : nullptr;
}

std::optional<Refused> Roster::reason_against(const Hello& hello, bool may_inherit) const {
    const JobNode* holder = holder_of(hello.node_rank);
    if (may_inherit && holder != nullptr && holder->hello.host == hello.host) holder = nullptr;
    return reason_to_refuse(hello, options_->terms(), company_of(hello, options_->own_agent, holder, nodes_));
}

std::optional<Refused> Roster::learn_fitness(const Hello& hello) {
    const bool is_host = options_->is_host(hello);
    unfit_.learn(hello, is_host);
    return hello.unfit.empty() || is_host ? std::nullopt : std::optional(UnfitNodes::refusal(hello));
}

std::optional<Refused> Roster::strict_reason_against(const Hello& hello) const {
    if (!options_->strict_env) return std::nullopt;
    const std::vector<std::string> differences = comparison_.against(hello);
    return differences.empty() ? std::nullopt : std::optional(newcomer_refused_for(differences));
}

Messages Roster::refuse(ConnectionId from, const Hello& hello, const Refused& refused) {
    const bool is_of_other_job = hello.run_id != options_->run_id;
    Refused answer = refused;
    if (is_of_other_job) answer.other_job = kPortOfAnotherJob;
    Messages out{{from, std::move(answer), true}};
    if (hello.seeks_port && is_of_other_job) return out;
    // Once each, or an agent that tries again and again would fill node 0's screen.
    const JobTerms terms = options_->terms();
    const bool strange = is_stranger(hello, terms);
    PeerRefused told{hello.host, hello.pid, strange ? what_is_strange(hello, terms) : refused.reason};
    const bool is_news = refusals_told_.size() < kMaxRefusalsTold &&
                         refusals_told_.insert(told.host + '\n' + told.reason).second;
    if (!is_news) return out;
    if (const JobNode* own = host()) {
        out.push_back({own->connection, std::move(told)});
    } else {
        refusals_untold_.push_back(std::move(told));
    }
    return out;
}

const JobNode* Roster::newcomer_before(const Hello& hello) const {
    const auto before = newcomers_.find(newcomer_of(hello));
    return before == newcomers_.end() ? nullptr : &nodes_.at(before->second);
}

bool Roster::has_seat_for(const Hello& hello) const {
    const std::size_t taken = nodes_.size() + (options_->own_agent && !host_ ? 1 : 0);
    return options_->is_host(hello) || taken < static_cast<std::size_t>(options_->seats());
}

Messages Roster::admit(ConnectionId from, const Hello& hello) {
    const bool is_numbered = hello.node_rank != kUnnumbered;
    const int key = is_numbered ? hello.node_rank : options_->nnodes + unnumbered_++;
    JobNode& node =
        nodes_[key] = {.hello = hello, .connection = from, .key = key, .hosts = options_->is_host(hello)};
    if (is_numbered) node.claim = hello.node_rank;
    nodes_by_connection_[from] = key;
    newcomers_[newcomer_of(hello)] = key;
    if (!node.hosts) return {};
    host_ = key;
    Messages out;
    for (PeerRefused& told : std::exchange(refusals_untold_, {})) out.push_back({from, std::move(told)});
    return out;
}

bool Roster::gathers_all(TimePoint now) {
    const bool host_is_there = !options_->own_agent || host_;
    // At least one is awaited, which hosts: where all others are unfit, it is to hear of that.
    const int able = std::max(1, options_->nnodes - unfit_.left_out());
    const auto awaited = static_cast<std::size_t>(std::min(options_->seats(), able));
    if (nodes_.size() >= awaited && host_is_there) return true;
    if (unfit_fault()) {
        last_call_end_ = std::min(last_call_end_.value_or(TimePoint::max()), now + kUnfitTime);
        return false;
    }
    const bool are_enough = nodes_.size() >= static_cast<std::size_t>(options_->least());
    if (are_enough && host_is_there && !last_call_end_) last_call_end_ = now + options_->elasticity.last_call;
    return false;
}

void Roster::end_gathering() {
    last_call_end_.reset();
    newcomers_.clear();
    std::vector<NodeClaim> claims;
    for (const auto& [key, node] : nodes_) {
        const int listed = node.hello.list_position;
        claims.push_back({node.claim, node.hello.host, node.hosts,
                          listed == kUnlisted ? std::nullopt : std::optional(listed)});
    }
    const std::vector<int> places = seating_.seat_all(claims);
    auto place = places.begin();
    for (auto& [key, node] : nodes_) node.place = *place++;
}

std::optional<Refused> Roster::fault_of_nodes() const {
    if (auto unfit = unfit_fault()) return unfit;
    if (options_->strict_env && !differences_.empty()) return refused_for(differences_);
    const bool idle = std::all_of(nodes_.begin(), nodes_.end(),
                                  [](const auto& entry) { return entry.second.hello.local_world_size == 0; });
    if (idle) return Refused{"no node has workers: --nproc-per-node is 0 on each", kExitUsage};
    return std::nullopt;
}

void Roster::forget(const JobNode& node, TimePoint now) {
    if (node.hosts) host_.reset();
    nodes_.erase(newcomers_.extract(newcomer_of(node.hello)).mapped());
    if (nodes_.size() < static_cast<std::size_t>(options_->least()) && !unfit_fault()) last_call_end_.reset();
    plan_status(now, true);
}

void Roster::await(TimePoint now) {
    join_deadline_ = now + options_->join_timeout;
    status_deadline_.reset();
    last_status_.reset();
}

void Roster::plan_status(TimePoint now, bool replaces) {
    const TimePoint next =
        last_status_ ? std::max(now, *last_status_ + kStatusPeriod) : now + kFirstStatusDelay;
    status_deadline_ = replaces ? next : std::min(status_deadline_.value_or(next), next);
}

Roster::TimePoint Roster::deadline() const {
    return std::min(
        {join_deadline_, status_deadline_.value_or(join_deadline_), last_call_end_.value_or(join_deadline_)});
}

std::optional<CoordinatorEvent> Roster::due(TimePoint now) const {
    if (now >= join_deadline_) return CoordinatorEvent::join_timed_out;
    if (last_call_end_ && now >= *last_call_end_) return CoordinatorEvent::last_call_over;
    if (status_deadline_ && now >= *status_deadline_) return CoordinatorEvent::status_due;
    return std::nullopt;
}

Waiting Roster::waiting(std::size_t present, const NodeQueue& queue) const {
    const Elasticity& elasticity = options_->elasticity;
    const int nnodes = options_->nnodes;
    Waiting status{.joined = static_cast<int>(present),
                   .expected = options_->least(),
                   .missing = {},
                   .present = {},
                   .at_most = options_->seats()};
    if (last_call_end_) status.last_call_ms = elasticity.last_call.count();
    bool numbered = !elasticity.is_elastic() && queue.empty();
    for (const auto& [key, node] : nodes_) {
        numbered = numbered && key < nnodes;
        if (!node.connected || status.joined > static_cast<int>(kMaxPresentListed)) continue;
        status.present.push_back(key < nnodes ? node_text(key, node.hello.host) : node.hello.host);
    }
    for (int rank = 0; numbered && rank < nnodes && status.missing.size() < kMaxMissingListed; ++rank) {
        const auto node = nodes_.find(rank);
        if (node != nodes_.end() && node->second.connected) continue;
        status.missing.push_back(rank);
        const bool is_listed = options_->hosts.size() == static_cast<std::size_t>(nnodes);
        if (is_listed && status.missing_hosts.size() < kMaxHostsNamed)
            status.missing_hosts.push_back(options_->hosts[static_cast<std::size_t>(rank)]);
    }
    if (status.missing.empty() && status.joined < status.expected)
        name_missing(status, *options_, nodes_, queue);
    return status;
}

Messages Roster::tell_waiting(const Waiting& waiting, TimePoint now) {
    status_deadline_.reset();
    last_status_ = now;
    return to_all(nodes_, waiting);
}

void Roster::round_begins() {
    status_deadline_.reset();
    for (auto& [key, node] : nodes_) node.hello.following.reset();
}

void Roster::lose(const JobNode& node, Loss loss, bool is_dead) {
    nodes_by_connection_.erase(node.connection);
    JobNode& lost = nodes_.at(node.key);
    lost.silent = loss == Loss::silent;
    lost.lied = loss == Loss::lied;
    lost.connected = false;
    lost.is_dead = is_dead;
}

void Roster::release(const JobNode& node, bool awaits_goodbye) {
    if (awaits_goodbye) released_.insert(node.connection);
    nodes_by_connection_.erase(node.connection);
    nodes_.at(node.key).connected = false;
}

std::size_t Roster::free_seats() const {
    const auto all = static_cast<std::size_t>(options_->seats());
    const bool only_replaces = is_seated_ && options_->elasticity.resize == Resize::never;
    const auto taken =
        std::count_if(nodes_.begin(), nodes_.end(), [](const auto& entry) { return entry.second.connected; });
    const std::size_t seats = only_replaces ? nodes_.size() : all;
    return seats - std::min(seats, static_cast<std::size_t>(taken));
}

Messages Roster::seat(std::vector<JobNode> newcomers) {
    std::map<int, JobNode> seated;  // by place
    for (auto& [key, node] : nodes_) {
        if (node.connected) {
            seated.emplace(node.place, std::move(node));
        } else {
            seating_.vacate(node.place, node.hello.host);
        }
    }
    for (JobNode& node : newcomers) {
        node.place = seating_.seat({node.claim, node.hello.host, false});
        seated.emplace(node.place, std::move(node));
    }
    std::vector<JobNode> in_order;
    for (auto& [place, node] : seated) in_order.push_back(std::move(node));
    std::vector<std::string_view> orders;
    for (const JobNode& node : in_order) orders.push_back(node.hello.rank_order);
    nodes_.clear();
    nodes_by_connection_.clear();
    host_.reset();
    int rank = 0;
    for (const std::size_t index : order_ranks(orders)) {
        JobNode& node = in_order[index];
        node.hello.node_rank = node.key = rank;
        nodes_by_connection_[node.connection] = rank;
        if (node.hosts) host_ = rank;
        nodes_.emplace(rank++, std::move(node));
    }
    const bool is_first = !std::exchange(is_seated_, true);
    differences_ = comparison_.learn(nodes_);
    const JobNode* own = host();
    if (differences_.empty() || own == nullptr || (options_->strict_env && is_first)) return {};
    return {{own->connection, NodesDiffer{differences_}}};
}

// Two that say that they are the same member cannot both be: so it gets a key of its own.
const JobNode& Roster::add_follower(ConnectionId from, const Hello& hello) {
    const int key = options_->nnodes + unnumbered_++;
    JobNode& node =
        nodes_[key] = {.hello = hello, .connection = from, .key = key, .hosts = options_->is_own(hello)};
    node.claim = hello.following->claim;
    node.place = hello.following->place;
    node.run.base_rank = hello.following->base_rank;
    nodes_by_connection_[from] = key;
    return node;
}

void Roster::remove_follower(const JobNode& node) {
    nodes_by_connection_.erase(node.connection);
    nodes_.erase(node.key);
}

std::vector<Roster::ConnectionId> Roster::take_over(const std::vector<FollowerSeat>& seats,
                                                    const MemberList& list) {
    JobNodes followers;
    host_.reset();
    for (const FollowerSeat& seat : seats) {
        JobNode node = std::move(nodes_.extract(seat.key).mapped());
        node.hello.node_rank = node.key = seat.rank;
        node.place = seat.place;
        nodes_by_connection_[node.connection] = seat.rank;
        seating_.keep(seat.place);
        if (node.hosts) host_ = seat.rank;
        followers.emplace(seat.rank, std::move(node));
    }
    std::vector<ConnectionId> others;
    for (const auto& [key, node] : std::exchange(nodes_, std::move(followers))) {
        nodes_by_connection_.erase(node.connection);
        others.push_back(node.connection);
    }
    // The coordinator before this one has told of differences.
    comparison_.learn(nodes_);
    for (const Member& member : list.members) {
        if (nodes_.contains(member.group_rank)) continue;
        JobNode& node = nodes_[member.group_rank];
        node.hello.node_rank = node.key = member.group_rank;
        node.hello.host = member.host;
        node.hello.pid = member.pid;
        node.hello.nonce = member.nonce;
        node.hello.local_world_size = member.local_world_size;
        node.place = member.place;
        node.connected = false;
        node.run.ended = true;
        seating_.keep(member.place);
    }
    return others;
}

bool are_heard(const JobNodes& nodes, const HeartbeatWatch& heartbeats, bool by_answers,
               Roster::TimePoint now) {
    return std::all_of(nodes.begin(), nodes.end(), [&](const auto& entry) {
        const auto node = entry.second.connection;
        return by_answers ? heartbeats.has_answered(node) : heartbeats.was_seen(node, now - kJustNow);
    });
}

}  // namespace job
}  // namespace ddprun
