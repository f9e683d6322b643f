// Platforms that tell each node its number, how many there are and where they meet, each under names of its own.
#include <fmt/core.h>

#include <algorithm>

#include "launcher/cluster/host_lines.hpp"
#include "launcher/cluster/host_list.hpp"

namespace ddprun::inline launch {
namespace {

struct ToldNames {
    std::string_view nodes;  // empty: the list says how many
    std::string_view number;
    std::string_view address = {};  // of node 0
    std::string_view list = {};     // of all, with that of node 0 first
    std::string_view workers = {};
    std::vector<std::string_view> job_ids = {};  // the first that is set
    std::string_view job_name = {};
};

std::optional<FamilyFacts> read_told(const ClusterView& view, const ToldNames& names) {
    const auto nodes = names.nodes.empty() ? std::nullopt : number_of(view, names.nodes, 1);
    const auto number = number_of(view, names.number, 0);
    const bool is_listed = names.nodes.empty() && text_of(view, names.list) != nullptr;
    if (!nodes && !number && !is_listed) return std::nullopt;
    FamilyFacts facts;
    if (nodes) claim(facts, Fact::nnodes, std::to_string(*nodes), std::string(names.nodes));
    if (number) claim(facts, Fact::node_rank, std::to_string(*number), std::string(names.number));
    if (const std::string* list = names.list.empty() ? nullptr : text_of(view, names.list)) {
        const auto hosts = expand_host_list(*list);
        if (const auto* wrong = std::get_if<std::string>(&hosts)) {
            facts.conflict = fmt::format("{}: {}", names.list, *wrong);
        } else {
            for (const std::string& name : std::get<std::vector<std::string>>(hosts))
                facts.hosts.push_back({name, 0});
            facts.hosts_source = names.list;
            claim(facts, Fact::master_addr, facts.hosts.front().name, facts.hosts_source);
            facts.conflict = count_conflict(names.nodes, nodes, names.list, facts.hosts);
            if (names.nodes.empty())
                claim(facts, Fact::nnodes, std::to_string(facts.hosts.size()), facts.hosts_source);
        }
    }
    if (const std::string* address = names.address.empty() ? nullptr : text_of(view, names.address))
        claim(facts, Fact::master_addr, *address, std::string(names.address));
    if (const auto workers = names.workers.empty() ? std::nullopt : number_of(view, names.workers, 1))
        claim(facts, Fact::workers, std::to_string(*workers), std::string(names.workers));
    if (const auto id = first_of(view, names.job_ids))
        claim(facts, Fact::job_id, fmt::format("{}-{}", names.job_name, id->text), id->name);
    facts.ways_out[Fact::nnodes] = fmt::format("{} is not set, so give --nnodes", names.nodes);
    facts.ways_out[Fact::node_rank] = fmt::format("{} is not set, so give --node-rank", names.number);
    facts.ways_out[Fact::master_addr] = fmt::format("{} is not set, so give --master-addr",
                                                    names.address.empty() ? names.list : names.address);
    return facts;
}

}  // namespace

std::optional<FamilyFacts> read_leader_worker_set(const ClusterView& view) {
    return read_told(view, {.nodes = "LWS_GROUP_SIZE",
                            .number = "LWS_WORKER_INDEX",
                            .address = "LWS_LEADER_ADDRESS",
                            .job_ids = {"LWS_LEADER_ADDRESS"},
                            .job_name = "lws"});
}

std::optional<FamilyFacts> read_sky_pilot(const ClusterView& view) {
    return read_told(view, {.nodes = "SKYPILOT_NUM_NODES",
                            .number = "SKYPILOT_NODE_RANK",
                            .list = "SKYPILOT_NODE_IPS",
                            .workers = "SKYPILOT_NUM_GPUS_PER_NODE",
                            .job_ids = {"SKYPILOT_TASK_ID"},
                            .job_name = "skypilot"});
}

std::optional<FamilyFacts> read_dstack(const ClusterView& view) {
    return read_told(view, {.nodes = "DSTACK_NODES_NUM",
                            .number = "DSTACK_NODE_RANK",
                            .address = "DSTACK_MASTER_NODE_IP",
                            .workers = "DSTACK_GPUS_PER_NODE",
                            .job_ids = {"DSTACK_RUN_ID", "DSTACK_RUN_NAME"},
                            .job_name = "dstack"});
}

std::optional<FamilyFacts> read_lepton(const ClusterView& view) {
    auto facts = read_told(view, {.nodes = "LEPTON_JOB_TOTAL_WORKERS",
                                  .number = "LEPTON_JOB_WORKER_INDEX",
                                  .workers = "LEPTON_RESOURCE_ACCELERATOR_NUM"});
    if (!facts) return facts;
    const std::string* prefix = text_of(view, "LEPTON_JOB_WORKER_PREFIX");
    const std::string* domain = text_of(view, "LEPTON_SUBDOMAIN");
    if (prefix != nullptr && domain != nullptr)
        claim(*facts, Fact::master_addr, fmt::format("{}-0.{}", *prefix, *domain),
              "LEPTON_JOB_WORKER_PREFIX");
    if (prefix != nullptr) {
        const std::string* failures = text_of(view, "LEPTON_JOB_FAILURE_COUNT");
        claim(*facts, Fact::job_id,
              fmt::format("lepton-{}{}", *prefix, failures != nullptr ? "-r" + *failures : ""),
              "LEPTON_JOB_WORKER_PREFIX");
    }
    facts->ways_out[Fact::master_addr] =
        "LEPTON_JOB_WORKER_PREFIX or LEPTON_SUBDOMAIN is not set, so give --master-addr";
    return facts;
}

// Each of several slices counts its own machines.
std::optional<FamilyFacts> read_tpu(const ClusterView& view) {
    if (text_of(view, "TPU_WORKER_HOSTNAMES") == nullptr) return std::nullopt;
    auto facts = read_told(view, {.nodes = {}, .number = "TPU_WORKER_ID", .list = "TPU_WORKER_HOSTNAMES"});
    const auto slices = number_of(view, "MEGASCALE_NUM_SLICES", 2);
    if (facts && slices && facts->conflict.empty())
        facts->conflict = fmt::format(
            "MEGASCALE_NUM_SLICES={}, and TPU_WORKER_ID counts the machines of one slice, so give --nnodes, "
            "--node-rank and --master-addr",
            *slices);
    return facts;
}

// The main node need not be number 0, and is not told its own address.
std::optional<FamilyFacts> read_aws_batch(const ClusterView& view) {
    auto facts = read_told(view, {.nodes = "AWS_BATCH_JOB_NUM_NODES",
                                  .number = "AWS_BATCH_JOB_NODE_INDEX",
                                  .address = "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS"});
    if (!facts) return facts;
    const auto index = number_of(view, "AWS_BATCH_JOB_NODE_INDEX", 0);
    const int main = number_of(view, "AWS_BATCH_JOB_MAIN_NODE_INDEX", 0).value_or(0);
    if (index) {
        const int rank = *index == main ? 0 : *index < main ? *index + 1 : *index;
        if (rank != *index)
            facts->claims[Fact::node_rank] = {std::to_string(rank),
                                              "AWS_BATCH_JOB_NODE_INDEX, counted from the main node",
                                              Belief::assumed};
    }
    if (index == main && !view.addresses.empty())
        claim(*facts, Fact::master_addr, view.addresses.front(), "this main node's own address");
    if (const std::string* job = text_of(view, "AWS_BATCH_JOB_ID")) {
        const std::string* attempt = text_of(view, "AWS_BATCH_JOB_ATTEMPT");
        // The nodes of a job differ in what is behind the '#'.
        claim(*facts, Fact::job_id,
              fmt::format("awsbatch-{}{}", job->substr(0, job->find('#')),
                          attempt != nullptr ? "-r" + *attempt : ""),
              "AWS_BATCH_JOB_ID");
    }
    return facts;
}

}  // namespace ddprun::inline launch
