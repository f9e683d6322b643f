#include "launcher/agent/worker_network.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "launcher/process/descriptors.hpp"
#include "rendezvous/net/local_addresses.hpp"

namespace ddprun {
inline namespace launch {
namespace {

constexpr const char* kDoorLine =
    "--store door: MASTER_ADDR is each node's own loopback, from where what workers say to the store goes "
    "encrypted; a program that opens ports there itself (JAX, tcp://, Ray) takes DDPRUN_MASTER_ADDR for "
    "that, "
    "or the job --store direct";

}  // namespace

FreePorts free_ports_of(const LaunchOptions& options) {
    FreePorts ports{.range = options.port_range, .spared = {}};
    const int last = options.master.port + options.master_ports - 1;
    if (options.nnodes > 1 && options.master.port != 0)
        ports.spared = {options.master.port, static_cast<std::uint16_t>(std::min(last, 65535))};
    return ports;
}

WorkerNetwork::WorkerNetwork(AgentControls& agent, const LaunchOptions& options, LauncherLog& log)
    : log_(log) {
    if (!options.key || options.nnodes == 1) return;
    const auto remark = [&agent, &log](const std::string& sentence) {
        boost::asio::post(agent.executor(), [&log, sentence] { log.info(sentence); });
    };
    const auto refused = [&agent](const RefusedCaller& caller) {
        boost::asio::post(agent.executor(), [&agent, caller] { agent.tell(caller); });
    };
    door_ = StoreDoor::make({.key = *options.key,
                             .spared_descriptors = launcher_descriptors(options.workers.size()),
                             .free_ports = free_ports_of(options),
                             .on_remark = remark,
                             .on_refused = refused});
}

WorkerStation WorkerNetwork::begin_round(LaunchOptions& options, const RoundReady& round,
                                         const RendezvousLink& link) {
    if (options.nnodes == 1)
        return {.store = host_place(options, link, ""), .address = loopback_of(options.master.host)};
    const CallerAddress& caller = link.caller_address();
    const Carrier carrier = find_carrier({.said = options.own_address,
                                          .host = link.hosts() ? "" : link.place().host,
                                          .local = caller.local,
                                          .seen = caller.seen,
                                          .reached_at = round.reached_at,
                                          .own = local_addresses()});
    use(carrier, options);
    const bool is_alone = round.group_world_size == 1;
    const Endpoint host = host_place(options, link, carrier.address);
    return {.store = store_of(round, link, host),
            .host_addr = host.host,
            .address = is_alone ? loopback_of(options.master.host) : carrier.address};
}

void WorkerNetwork::use(const Carrier& carrier, LaunchOptions& options) {
    for (const std::string& name : named_) options.environment.erase(name);
    named_ = name_interface(options.environment, carrier.interface);
    const std::string text = interface_text(named_, carrier);
    if (std::exchange(said_, text) != text) options.shares_screen ? log_.debug(text) : log_.info(text);
    // That of one node is nobody else's.
    if (std::exchange(remarked_, carrier.remark) != carrier.remark)
        options.own_address.address.empty() ? log_.info(carrier.remark) : log_.debug(carrier.remark);
}

Endpoint WorkerNetwork::host_place(const LaunchOptions& options, const RendezvousLink& link,
                                   const std::string& own_address) {
    const Endpoint place = link.place();
    const bool stays_here = options.listen.name_stays_here && !is_loopback_address(own_address);
    if (!link.hosts() || (!options.is_master_unresolved && !stays_here)) return place;
    // It listens on all addresses then, and others know the name.
    boost::system::error_code no_address;
    boost::asio::ip::make_address(place.host, no_address);
    if (!no_address) return place;
    const bool is_own = has_own_address({own_address}, local_addresses());
    const Endpoint here = is_own ? Endpoint{own_address, place.port} : link.own_endpoint();
    const std::string text =
        fmt::format("{} {}; its workers get {} in its place", place.host,
                    stays_here ? "stands for loopback on this node, where only its own programs reach it"
                               : "cannot be resolved on this node: its resolver has not known it so far",
                    here.host);
    if (std::exchange(renamed_, text) != text) log_.info(text);
    return here;
}

Endpoint WorkerNetwork::store_of(const RoundReady& round, const RendezvousLink& link, const Endpoint& host) {
    // A host without a key cannot ask for doors, whatever it says.
    if (!round.through_doors || !door_) return host;
    if (link.hosts() && round.round == 0) log_.info(kDoorLine);
    if (link.hosts()) return link.own_endpoint();
    door_->begin_round(link.place());
    return door_->endpoint();
}

}  // namespace launch
}  // namespace ddprun
