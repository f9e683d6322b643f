#include "launcher/cluster/family.hpp"
#include "rendezvous/net/endpoint.hpp"

namespace ddprun::inline launch {
namespace {

constexpr std::uint16_t kNoPort = 0;

}  // namespace

// Where Azure ML starts a process for each GPU there is a LOCAL_RANK, and the bare variables say the rest.
std::optional<FamilyFacts> read_azure_ml(const ClusterView& view) {
    const bool is_here = first_of(view, {"AZUREML_EXPERIMENT_ID", "AZUREML_RUN_ID"}).has_value();
    const auto number = number_of(view, "NODE_RANK", 0);
    if (!is_here || !number || first_of(view, {"LOCAL_RANK"})) return std::nullopt;
    FamilyFacts facts;
    claim(facts, Fact::node_rank, std::to_string(*number), "NODE_RANK");
    if (const auto nodes = number_of(view, "AZUREML_NODE_COUNT", 1))
        claim(facts, Fact::nnodes, std::to_string(*nodes), "AZUREML_NODE_COUNT");
    if (const std::string* address = text_of(view, "MASTER_ADDR"))
        claim(facts, Fact::master_addr, *address, "MASTER_ADDR");
    if (const std::string* port = text_of(view, "MASTER_PORT"); port != nullptr && parse_port(*port))
        claim(facts, Fact::master_port, *port, "MASTER_PORT");
    if (const std::string* place = text_of(view, "AZ_BATCH_MASTER_NODE")) {
        if (const auto endpoint = parse_endpoint(*place, kNoPort))
            claim(facts, Fact::master_addr, endpoint->host, "AZ_BATCH_MASTER_NODE");
    }
    if (const std::string* run = text_of(view, "AZUREML_RUN_ID"))
        claim(facts, Fact::job_id, "azureml-" + *run, "AZUREML_RUN_ID");
    facts.ways_out[Fact::nnodes] = "Azure ML tells this node's number only, so give --nnodes";
    facts.ways_out[Fact::master_addr] =
        "neither MASTER_ADDR nor AZ_BATCH_MASTER_NODE is set, so give --master-addr";
    return facts;
}

}  // namespace ddprun::inline launch
