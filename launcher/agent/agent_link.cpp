#include "launcher/agent/agent_link.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdint>
#include <utility>
#include <variant>

#include "launcher/agent/node_traits.hpp"
#include "launcher/agent/round_workers.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/plan/program_words.hpp"
#include "launcher/process/descriptors.hpp"
#include "launcher/secret_text.hpp"
#include "launcher/wall_clock.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/codec/json_codec.hpp"
#include "rendezvous/coordinator/aftermath.hpp"
#include "rendezvous/net/local_addresses.hpp"
#include "rendezvous/system/machine.hpp"

namespace ddprun {
inline namespace launch {
namespace {

std::string make_job_id(const std::string& run_id) {
    return fmt::format("{}-{}", run_id, hex_text(random_bytes<16>("the job's id")));
}

// Its own number tells this agent from others of the same name and pid.
std::uint64_t own_nonce() {
    static const auto nonce = random_number<std::uint64_t>("the agent's own number");
    return nonce;
}

// These are for an agent whose host is elected in etcd.
ElectionOptions election_options_of(const LaunchOptions& options) {
    const int least = options.elasticity.min_nodes.value_or(options.nnodes);
    return {.etcd = *options.etcd,
            .record = {.endpoint = {},
                       .run_id = options.run_id,
                       .nodes = fmt::format("{}:{}", least, options.nnodes),
                       .host = host_name(),
                       .pid = ::getpid(),
                       .nonce = own_nonce(),
                       .version = DDPRUN_VERSION,
                       .started = utc_text(unix_time_now_ms())},
            .port = options.master.port,
            .lease_ttl = options.heartbeat,
            .join_timeout = options.join_timeout};
}

// True if the job may go on without the node that hosts its coordinator.
bool may_fail_over(const LaunchOptions& options) {
    return options.failover && options.nnodes > 1 && options.heartbeat.count() > 0 &&
           (options.elasticity.is_elastic() || options.restarts.max_restarts > 0);
}

// Workers may leave this machine for the store by these addresses; the workers of a job of one node do not.
std::vector<std::string> own_addresses(const LaunchOptions& options) {
    std::vector<std::string> addresses;
    if (options.nnodes == 1) return addresses;
    for (const LocalAddress& local : local_addresses()) {
        if (!local.is_loopback && addresses.size() < kMaxAddresses) addresses.push_back(local.address);
    }
    return addresses;
}

RendezvousLinkOptions link_options_of(LaunchOptions& options, Hello hello) {
    const auto join_deadline = std::chrono::steady_clock::now() + options.join_timeout - options.join_spent;
    std::optional<PortSearchOptions> search;
    if (options.master_ports > 1)
        search = {
            options.master, options.master_ports, options.port_range, options.hosting != Hosting::if_first,
            hello,          join_deadline};
    return {.place = options.master,
            .search = std::move(search),
            .hello = std::move(hello),
            .join_deadline = join_deadline,
            .failover = may_fail_over(options),
            .free_ports = free_ports_of(options),
            .key = options.key,
            .election = options.etcd ? std::optional(election_options_of(options)) : std::nullopt,
            .server_options = [&options](const Endpoint& here) {
                options.master = here;
                return server_options_of(options);
            }};
}

std::string rendezvous_text(const LaunchOptions& options, bool hosts) {
    const std::string node =
        options.node_rank == kUnnumbered ? "a node" : fmt::format("node {}", options.node_rank);
    if (options.master.host.empty())
        return fmt::format("{} of {} asks etcd at {} who hosts the rendezvous", node, options.nnodes,
                           to_string(options.etcd->endpoints));
    return fmt::format("{} of {} {} the rendezvous at {}", node, options.nnodes, hosts ? "serves" : "joins",
                       to_string(options.master));
}

}  // namespace

std::string advice_to(const LaunchOptions& options) {
    if (options.node_rank != 0) return {};
    if (options.is_started)
        return fmt::format(
            "each other node has to reach node 0 at {}; --master-addr gives it another address",
            harmless_line(options.master.host));
    return "each other node needs a --node-rank of its own and --master-addr with an address that leads here";
}

Hello hello_of(const LaunchOptions& options, bool wants_rank_ends) {
    return {.version = DDPRUN_VERSION,
            .run_id = options.run_id,
            .node_rank = options.node_rank,
            .nnodes = options.nnodes,
            .min_nodes = options.elasticity.min_nodes.value_or(0),
            .local_world_size = static_cast<int>(options.workers.size()),
            .role = options.role,
            .host = host_name(),
            .pid = ::getpid(),
            .nonce = own_nonce(),
            .wants_rank_ends = wants_rank_ends,
            .command = describe_command(options.command, without_places(options.program_words),
                                        masked_words(options.command)),
            .allow_different = options.allow_different,
            .reached_at = {},
            .traits = {},
            .grace_ms = options.grace_when_lost().count(),
            .meeting_address = {},
            .meeting_port = 0,
            .following = {},
            .seeks_port = false,
            .list_position = options.host_list.position.value_or(kUnlisted),
            .list_size = static_cast<int>(options.host_list.hosts.size()),
            .addresses = own_addresses(options),
            .rank_order = options.rank_order,
            .unfit = cut_text(options.unfit, kMaxUnfitText)};
}

RendezvousServerOptions server_options_of(const LaunchOptions& options) {
    RendezvousServerOptions server;
    server.listen = options.listen;
    server.port = options.master.port;
    server.free_ports = free_ports_of(options);
    server.spared_descriptors = launcher_descriptors(options.workers.size());
    server.key = options.key;
    server.coordinator = {
        .version = DDPRUN_VERSION,
        .run_id = options.run_id,
        .job_id = make_job_id(options.run_id),
        .start_unix_s = options.start_unix_s,
        .nnodes = options.nnodes,
        .elasticity = options.elasticity,
        .join_timeout = options.join_timeout,
        .join_spent = options.join_spent,
        .heartbeat = options.nnodes > 1 ? options.heartbeat : std::chrono::milliseconds(0),
        .restarts = options.restarts,
        .jitter_seed = static_cast<unsigned>(::getpid()),
        .exit_wait = options.exit_wait,
        .asks_about_failures = options.answers_failures,
        .own_agent = hello_of(options, false),
        .hosts = options.host_list.hosts,
        .strict_env = options.strict_env,
        .failover = options.failover,
        .through_doors = options.key && options.nnodes > 1 && options.store_access == StoreAccess::door,
        .predecessor = {},
        .records_rounds = options.etcd.has_value()};
    return server;
}

bool speaks_for_all(const LaunchOptions& options) { return !options.shares_screen || options.node_rank <= 0; }

bool may_host(const LaunchOptions& options) {
    if (options.hosting == Hosting::by_number) return options.node_rank == 0;
    return options.hosting == Hosting::yes || options.hosting == Hosting::if_first;
}

void AgentLink::make(bool wants_rank_ends) {
    wants_rank_ends_ = wants_rank_ends;
    Hello hello = hello_of(options_, wants_rank_ends);
    if (options_.nnodes > 1) hello.traits = node_traits(options_);
    link_ = RendezvousLink::make(agent_.executor(), link_options_of(options_, std::move(hello)), *this);
    host_if_due();
    log_.debug(rendezvous_text(options_, link_->hosts()));
}

void AgentLink::host_if_due() {
    if (!may_host(options_)) return;
    try {
        link_->host();
        options_.master = link_->place();
    } catch (const boost::system::system_error& error) {
        const bool joins_holder_of_port = options_.hosting == Hosting::if_first && options_.master_ports == 1;
        if (!joins_holder_of_port || error.code() != Errc::address_in_use) throw;
        reporter_.port_taken(options_.master.port);
        log_.debug(error.what());
    }
}

void AgentLink::place_known() {
    options_.master = link_->place();
    tell_place();
    log_.debug(rendezvous_text(options_, link_->hosts()));
}

void AgentLink::tell_place() { agent_.tell(PlaceKnown{options_.master, link_->hosts()}); }

void AgentLink::join_place() {
    tell_place();
    link_->join();
}

void AgentLink::join() {
    join_place();
    const bool awaits_name =
        options_.is_master_unresolved && (link_->hosts() || options_.hosting == Hosting::if_here);
    if (awaits_name)
        late_name_.emplace(agent_.executor(), options_.master.host,
                           [this](bool is_here) { name_is_known(is_here); });
}

void AgentLink::name_is_known(bool is_here) {
    options_.is_master_unresolved = false;
    log_.debug(fmt::format("{} can be resolved on this node now", options_.master.host));
    if (link_->hosts() || !is_here || observer_.state() != AgentState::joining) return;
    options_.hosting = Hosting::if_first;
    make(wants_rank_ends_);
    join_place();
}

WorkerStation AgentLink::begin_round(const RoundReady& round, WorkerNetwork& network) {
    reporter_.end();
    options_.master = link_->place();
    if (link_->hosts()) agent_.runner().set_lease(lease_end_);
    WorkerStation station = network.begin_round(options_, round, *link_);
    station.host = host_name();
    return station;
}

void AgentLink::hear(const ControlMessage& message) {
    reporter_.hear(message);
    if (const auto* stop = std::get_if<Stop>(&message); stop != nullptr && stop->is_awaited) hasten();
    observer_.hear(message);
}

// The others may go on without this node, and count on the end of its workers, also if this process stands
// still from now on. Its last moment is for the kernel, and for the guardian where the agent does not kill
// them.
void AgentLink::hasten() {
    RoundWorkers* round = agent_.round();
    if (round == nullptr || round->is_over() || last_moment_) return;
    const auto grace = Aftermath::lost_grace(options_.grace_when_lost().count());
    last_moment_ = std::chrono::steady_clock::now() + grace - Aftermath::kGuardianTime;
    tell_lease();
    round->hasten(grace - Aftermath::kKillTime);
}

void AgentLink::workers_gone() {
    last_moment_.reset();
    tell_lease();
}

void AgentLink::tell_lease() {
    const bool is_first = last_moment_ && (!lease_end_ || *last_moment_ < lease_end_->at);
    agent_.runner().set_lease(is_first ? LeaseEnd(*last_moment_) : lease_end_);
}

bool AgentLink::seek(const CoordinatorLoss& loss) {
    hasten();
    if (!link_->seek(loss)) return false;
    log_.info("the nodes that are left choose another coordinator");
    agent_.tell(CoordinatorLost{loss.cause});
    return true;
}

void AgentLink::close() {
    late_name_.reset();
    link_->close({});
}

}  // namespace launch
}  // namespace ddprun
