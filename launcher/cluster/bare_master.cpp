#include <fmt/core.h>

#include "launcher/cluster/family.hpp"
#include "rendezvous/net/endpoint.hpp"

namespace ddprun {
namespace {

// RANK and WORLD_SIZE of a process, which a launcher of processes has started.
Tasks read_processes(const ClusterView& view, int size, int rank) {
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

void claim_nodes(FamilyFacts& facts, int nodes, int number, const char* number_source) {
    claim(facts, Fact::nnodes, std::to_string(nodes), "WORLD_SIZE");
    claim(facts, Fact::node_rank, std::to_string(number), number_source);
}

}  // namespace

// They count processes for torchrun's kind, and nodes for Kubeflow's.
std::optional<FamilyFacts> read_bare_master(const ClusterView& view) {
    const std::string* address = text_of(view, "MASTER_ADDR");
    const auto size = number_of(view, "WORLD_SIZE", 1);
    const auto rank = number_of(view, "RANK", 0);
    if (address == nullptr || !size || !rank || *size == 1) return std::nullopt;
    FamilyFacts facts;
    claim(facts, Fact::master_addr, *address, "MASTER_ADDR");
    if (const std::string* port = text_of(view, "MASTER_PORT"); port != nullptr && parse_port(*port))
        claim(facts, Fact::master_port, *port, "MASTER_PORT");
    if (*rank >= *size) facts.conflict = fmt::format("RANK={} is not below WORLD_SIZE={}", *rank, *size);
    const auto node = number_of(view, "NODE_RANK", 0);
    const auto local_size = number_of(view, "LOCAL_WORLD_SIZE", 1);
    const bool is_worker = text_of(view, "LOCAL_RANK") != nullptr;
    if (!is_worker && node && local_size && *size % *local_size == 0) {
        claim_nodes(facts, *size / *local_size, *node, "NODE_RANK");
        claim(facts, Fact::workers, std::to_string(*local_size), "LOCAL_WORLD_SIZE");
    } else if (is_worker || local_size) {
        facts.tasks = read_processes(view, *size, *rank);
    } else if (first_of(view, {"KUBERNETES_SERVICE_HOST", "NPROC_PER_NODE"})) {
        claim_nodes(facts, *size, *rank, "RANK");
    }
    if (const std::string* workers = text_of(view, "NPROC_PER_NODE"))
        claim(facts, Fact::workers, *workers, "NPROC_PER_NODE");
    facts.ways_out[Fact::nnodes] = fmt::format(
        "WORLD_SIZE={} may count nodes or processes, so give --nnodes and --node-rank, or --standalone for a "
        "job of "
        "this node alone",
        *size);
    return facts;
}

}  // namespace ddprun
