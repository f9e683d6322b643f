#include "launcher/agent/worker_network.hpp"

#include <boost/asio/post.hpp>

#include "launcher/plan/carrier_interface.hpp"
#include "launcher/process/open_files.hpp"
#include "rendezvous/net/local_addresses.hpp"

namespace ddprun {

WorkerNetwork::WorkerNetwork(const boost::asio::any_io_executor& executor, const LaunchOptions& options,
                             LauncherLog& log)
    : log_(log) {
    if (!options.key || options.nnodes == 1) return;
    const auto remark = [executor, &log](const std::string& sentence) {
        boost::asio::post(executor, [&log, sentence] { log.info(sentence); });
    };
    door_.emplace(StoreDoorOptions{.key = *options.key,
                                   .spared_descriptors = launcher_descriptors(options.workers.size()),
                                   .on_remark = remark});
}

WorkerStation WorkerNetwork::begin_round(LaunchOptions& options, const RoundReady& round,
                                         const RendezvousLink& link) {
    const std::string& address = link.hosts() ? round.reached_at : link.local_address();
    if (options.nnodes > 1)
        log_.debug(name_carrier_interface(options.environment, address, local_addresses()));
    return {.store = store_of(round, link),
            .address = round.group_world_size > 1 ? address : loopback_of(options.master.host)};
}

Endpoint WorkerNetwork::store_of(const RoundReady& round, const RendezvousLink& link) {
    // A host without a key cannot ask for doors, whatever it says.
    if (!round.through_doors || !door_) return link.place();
    if (link.hosts()) return link.own_endpoint();
    door_->begin_round(link.place());
    return door_->endpoint();
}

}  // namespace ddprun
