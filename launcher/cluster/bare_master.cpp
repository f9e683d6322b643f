#include <fmt/core.h>

#include "launcher/cluster/family.hpp"
#include "rendezvous/net/endpoint.hpp"

namespace ddprun::inline launch {
namespace {

// RANK and WORLD_SIZE of a process, which a launcher of processes has started.
Tasks read_processes(const ClusterView& view, int size, std::optional<int> rank) {
    Tasks tasks{.count = size,
                .task = rank,
                .local_task = number_of(view, "LOCAL_RANK", 0),
                .local_count = number_of(view, "LOCAL_WORLD_SIZE", 1),
                .nodes = {},
                .evidence = fmt::format("WORLD_SIZE={}", size),
                .one_per_node = "without LOCAL_RANK and LOCAL_WORLD_SIZE"};
    if (tasks.local_count && size % *tasks.local_count == 0) tasks.nodes = size / *tasks.local_count;
    return tasks;
}

// MosaicML counts processes in WORLD_SIZE and nodes in NODE_RANK, and starts one process on each node.
bool claim_nodes_of_processes(const ClusterView& view, FamilyFacts& facts, int size) {
    const auto node = number_of(view, "NODE_RANK", 0);
    const auto each = number_of(view, "LOCAL_WORLD_SIZE", 1);
    if (!node || !each || size % *each != 0 || text_of(view, "LOCAL_RANK") != nullptr) return false;
    claim(facts, Fact::nnodes, std::to_string(size / *each), "WORLD_SIZE");
    claim(facts, Fact::node_rank, std::to_string(*node), "NODE_RANK");
    claim(facts, Fact::workers, std::to_string(*each), "LOCAL_WORLD_SIZE");
    return true;
}

void claim_master(const ClusterView& view, FamilyFacts& facts) {
    if (const std::string* address = text_of(view, "MASTER_ADDR"))
        claim(facts, Fact::master_addr, *address, "MASTER_ADDR");
    if (const std::string* port = text_of(view, "MASTER_PORT"); port != nullptr && parse_port(*port))
        claim(facts, Fact::master_port, *port, "MASTER_PORT");
    facts.ways_out[Fact::master_addr] = "MASTER_ADDR is not set, so give --master-addr";
}

}  // namespace

// They count processes for torchrun's kind, and nodes for Kubeflow's.
std::optional<FamilyFacts> read_bare_master(const ClusterView& view) {
    const auto size = number_of(view, "WORLD_SIZE", 1);
    const auto rank = number_of(view, "RANK", 0);
    if (!size || *size == 1) return std::nullopt;
    FamilyFacts facts;
    const bool has_nodes = claim_nodes_of_processes(view, facts, *size);
    if (!has_nodes && !rank) return std::nullopt;
    claim_master(view, facts);
    if (rank && *rank >= *size)
        facts.conflict = fmt::format("RANK={} is not below WORLD_SIZE={}", *rank, *size);
    if (has_nodes) return facts;
    if (first_of(view, {"LOCAL_RANK", "LOCAL_WORLD_SIZE"})) {
        facts.tasks = read_processes(view, *size, rank);
    } else if (first_of(view, {"KUBERNETES_SERVICE_HOST", "NPROC_PER_NODE"})) {
        claim(facts, Fact::nnodes, std::to_string(*size), "WORLD_SIZE");
        claim(facts, Fact::node_rank, std::to_string(*rank), "RANK");
    }
    if (const std::string* workers = text_of(view, "NPROC_PER_NODE"))
        claim(facts, Fact::workers, *workers, "NPROC_PER_NODE");
    const bool has_place = facts.claims.contains(Fact::master_addr);
    facts.ways_out[Fact::nnodes] = fmt::format(
        "WORLD_SIZE={} may count nodes or processes, so give {}, or --standalone for a job of this node "
        "alone",
        *size, has_place ? "--nnodes and --node-rank" : "--nnodes, --node-rank and --master-addr");
    return facts;
}

// A process is a node in a pod, unless it has been given some of the devices only.
std::optional<FamilyFacts> read_jax(const ClusterView& view) {
    const auto count = number_of(view, "JAX_NUM_PROCESSES", 1);
    if (!count || *count == 1) return std::nullopt;
    FamilyFacts facts;
    constexpr std::uint16_t kAnyPort = 0;
    // At its port JAX itself listens.
    const std::string* place = text_of(view, "JAX_COORDINATOR_ADDRESS");
    if (const auto endpoint = place != nullptr ? parse_endpoint(*place, kAnyPort) : std::nullopt)
        claim(facts, Fact::master_addr, endpoint->host, "JAX_COORDINATOR_ADDRESS");
    facts.ways_out[Fact::nnodes] = fmt::format(
        "JAX_NUM_PROCESSES={} may count nodes or processes, so give --nnodes, --node-rank and "
        "--master-addr, or --standalone for a job of this node alone",
        *count);
    facts.ways_out[Fact::node_rank] = "JAX_PROCESS_ID is no number, so give --node-rank";
    facts.ways_out[Fact::master_addr] = "JAX_COORDINATOR_ADDRESS is no HOST:PORT, so give --master-addr";
    if (!first_of(view, {"KUBERNETES_SERVICE_HOST"}) || first_of(view, {"JAX_LOCAL_DEVICE_IDS"}))
        return facts;
    claim(facts, Fact::nnodes, std::to_string(*count), "JAX_NUM_PROCESSES");
    if (const auto number = number_of(view, "JAX_PROCESS_ID", 0))
        claim(facts, Fact::node_rank, std::to_string(*number), "JAX_PROCESS_ID");
    return facts;
}

}  // namespace ddprun::inline launch
