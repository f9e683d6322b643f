#include "launcher/agent/job_terms.hpp"

#include <unistd.h>

#include "launcher/agent/job_identity.hpp"

namespace ddprun {

Hello hello_of(const LaunchOptions& options, bool wants_rank_ends) {
    return {.version = DDPRUN_VERSION,
            .run_id = options.run_id,
            .node_rank = options.node_rank,
            .nnodes = options.nnodes,
            .local_world_size = static_cast<int>(options.workers.size()),
            .role = options.role,
            .host = host_name(),
            .pid = ::getpid(),
            .wants_rank_ends = wants_rank_ends,
            .command = describe_command(options.command),
            .allow_different = options.allow_different,
            .reached_at = {}};
}

RendezvousServerOptions server_options_of(const LaunchOptions& options) {
    RendezvousServerOptions server;
    server.listen = options.listen;
    server.port = options.master.port;
    server.coordinator = {.version = DDPRUN_VERSION,
                          .run_id = options.run_id,
                          .job_id = make_job_id(options.run_id),
                          .nnodes = options.nnodes,
                          .join_timeout = options.join_timeout,
                          .restarts = options.restarts,
                          .jitter_seed = static_cast<unsigned>(::getpid()),
                          .own_agent = hello_of(options, false)};
    return server;
}

std::string rendezvous_text(const LaunchOptions& options) {
    return "node " + std::to_string(options.node_rank) + " of " + std::to_string(options.nnodes) +
           (options.node_rank == 0 ? " serves" : " joins") + " the rendezvous at " +
           to_string(options.master);
}

}  // namespace ddprun
