// Platforms that tell a node its number and where the nodes meet by variables, and what is told by
// MASTER_ADDR and its like.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <tuple>

#include "launcher/cluster/readers.hpp"
#include "launcher/harmless_text.hpp"
#include "rendezvous/codec/json_codec.hpp"
#include "rendezvous/job/failure.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace launch {
namespace {

// Claims the host of HOST:PORT, whose port somebody else listens at.
void claim_host_of_place(const ClusterView& view, FamilyFacts& facts, std::string_view variable) {
    constexpr std::uint16_t kAnyPort = 0;
    const std::string* place = text_of(view, variable);
    if (const auto endpoint = place != nullptr ? parse_endpoint(*place, kAnyPort) : std::nullopt)
        claim(facts, Fact::master_addr, endpoint->host, variable);
}

constexpr std::string_view kHostsPrefix = "VC_";
constexpr std::string_view kHostsSuffix = "_HOSTS";

// VC_<TASK>_HOSTS: pods of one task.
std::vector<std::string> host_variables(const ClusterView& view) {
    std::vector<std::string> names;
    for (auto entry = view.environment.lower_bound(std::string(kHostsPrefix));
         entry != view.environment.end() && entry->first.starts_with(kHostsPrefix); ++entry) {
        const bool is_long = entry->first.size() > kHostsPrefix.size() + kHostsSuffix.size();
        if (is_long && entry->first.ends_with(kHostsSuffix) && !entry->second.empty())
            names.push_back(entry->first);
    }
    return names;
}

// The pod's own line of /etc/hosts, which has its domain where there is one: "10.1.2.3 job-1.svc.ns job-1".
std::string own_domain(const ClusterView& view) {
    const auto file = view.files.find("/etc/hosts");
    if (file == view.files.end()) return {};
    const std::string wanted = view.host_name.substr(0, view.host_name.find('.')) + ".";
    for (const std::string_view line : lines_of(file->second)) {
        for (const std::string_view word : words_between_blanks(line)) {
            if (word.starts_with('#')) break;
            if (word.starts_with(wanted)) return std::string(word.substr(wanted.size()));
        }
    }
    return {};
}

// A pod is called <job>-<index>, and one of a JobSet <set>-<replicated job>-<job index>-<index>.
std::string job_of_pod(const ClusterView& view, int index) {
    const std::string name = view.host_name.substr(0, view.host_name.find('.'));
    const std::string end = fmt::format("-{}", index);
    return name.ends_with(end) ? name.substr(0, name.size() - end.size()) : "";
}

// Reads RANK and WORLD_SIZE of a process, which a launcher of processes has started.
Tasks read_processes(const ClusterView& view, FamilyFacts& facts, int size, std::optional<int> rank) {
    Tasks tasks{.count = size,
                .task = rank,
                .local_task = take_number(view, facts, "LOCAL_RANK", 0),
                .local_count = take_number(view, facts, "LOCAL_WORLD_SIZE", 1),
                .nodes = {},
                .evidence = fmt::format("WORLD_SIZE={}", size),
                .one_per_node = "without LOCAL_RANK and LOCAL_WORLD_SIZE"};
    if (tasks.local_count && size % *tasks.local_count == 0) tasks.nodes = size / *tasks.local_count;
    return tasks;
}

bool tells_nodes(const ClusterView& view) {
    return text_of(view, "NODE_RANK") != nullptr && text_of(view, "LOCAL_WORLD_SIZE") != nullptr &&
           text_of(view, "LOCAL_RANK") == nullptr;
}

// MosaicML counts processes in WORLD_SIZE and nodes in NODE_RANK, and starts one process on each node.
bool claim_nodes_of_processes(const ClusterView& view, FamilyFacts& facts, int size) {
    if (!tells_nodes(view)) return false;
    const auto node = take_number(view, facts, "NODE_RANK", 0);
    const auto each = take_number(view, facts, "LOCAL_WORLD_SIZE", 1);
    if (!node || !each || size % *each != 0) return false;
    claim(facts, Fact::nnodes, std::to_string(size / *each), "WORLD_SIZE");
    claim_number(view, facts, Fact::node_rank, "NODE_RANK", 0);
    claim_number(view, facts, Fact::workers, "LOCAL_WORLD_SIZE", 1);
    return true;
}

}  // namespace

std::optional<FamilyFacts> read_told(const ClusterView& view, const ToldNames& names) {
    const auto nodes = number_of(view, names.nodes, 1);
    const bool is_listed = names.nodes.empty() && text_of(view, names.list) != nullptr;
    if (!first_of(view, {names.nodes, names.number}) && !is_listed) return std::nullopt;
    FamilyFacts facts;
    claim_number(view, facts, Fact::nnodes, names.nodes, 1);
    claim_number(view, facts, Fact::node_rank, names.number, 0);
    if (take_host_list(view, facts, names.list)) {
        claim(facts, Fact::master_addr, facts.hosts.front().name, facts.hosts_source);
        refuse(facts, count_conflict(names.nodes, nodes, names.list, facts.hosts));
        if (names.nodes.empty()) claim_listed(facts);
    }
    claim_told(view, facts, Fact::master_addr, names.address);
    claim_number(view, facts, Fact::workers, names.workers, 1);
    if (const auto id = first_of(view, {names.job_ids[0], names.job_ids[1]}))
        claim(facts, Fact::job_id, fmt::format("{}-{}", names.job_name, id->text), id->name);
    constexpr std::string_view kNumber = "no whole number";
    facts.ways_out[Fact::nnodes] = lack_of(view, names.nodes, kNumber) + ", so give --nnodes";
    facts.ways_out[Fact::node_rank] = lack_of(view, names.number, kNumber) + ", so give --node-rank";
    facts.ways_out[Fact::master_addr] = fmt::format("{} is not set, so give --master-addr",
                                                    names.address.empty() ? names.list : names.address);
    return facts;
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
    const auto slices = take_number(view, *facts, "MEGASCALE_NUM_SLICES", 1);
    if (slices && *slices > 1)
        refuse(
            *facts,
            fmt::format(
                "MEGASCALE_NUM_SLICES={}, and TPU_WORKER_ID counts the machines of one slice, so give --nnodes, --node-rank and --master-addr",
                *slices));
    return facts;
}

// The main node need not be number 0, and is not told its own address.
std::optional<FamilyFacts> read_aws_batch(const ClusterView& view) {
    auto facts = read_told(view, {.nodes = "AWS_BATCH_JOB_NUM_NODES",
                                  .number = "AWS_BATCH_JOB_NODE_INDEX",
                                  .address = "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS"});
    if (!facts) return facts;
    const auto index = number_of(view, "AWS_BATCH_JOB_NODE_INDEX", 0);
    const int main = take_number(view, *facts, "AWS_BATCH_JOB_MAIN_NODE_INDEX", 0).value_or(0);
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

// Azure ML sets LOCAL_RANK if it starts a process for each GPU; then the bare variables say the rest.
std::optional<FamilyFacts> read_azure_ml(const ClusterView& view) {
    const bool is_here = first_of(view, {"AZUREML_EXPERIMENT_ID", "AZUREML_RUN_ID"}).has_value();
    if (!is_here || !first_of(view, {"NODE_RANK"}) || first_of(view, {"LOCAL_RANK"})) return std::nullopt;
    FamilyFacts facts;
    claim_number(view, facts, Fact::node_rank, "NODE_RANK", 0);
    claim_number(view, facts, Fact::nnodes, "AZUREML_NODE_COUNT", 1);
    refuse_wrong_number(view, facts, "NODE_RANK", 0);
    refuse_wrong_number(view, facts, "AZUREML_NODE_COUNT", 1);
    claim_master(view, facts);
    claim_host_of_place(view, facts, "AZ_BATCH_MASTER_NODE");
    claim_told(view, facts, Fact::job_id, "AZUREML_RUN_ID", "azureml-");
    facts.ways_out[Fact::nnodes] = "Azure ML tells this node's number only, so give --nnodes";
    facts.ways_out[Fact::master_addr] =
        "neither MASTER_ADDR nor AZ_BATCH_MASTER_NODE is set, so give --master-addr";
    return facts;
}

// A master and its workers are two tasks, each of which counts from 0; who is which then says the PyTorch
// plug-in.
std::optional<FamilyFacts> read_volcano(const ClusterView& view) {
    const auto index = first_of(view, {"VC_TASK_INDEX", "VK_TASK_INDEX"});
    if (!index || first_of(view, {"MASTER_ADDR"})) return std::nullopt;
    FamilyFacts facts;
    const auto variables = host_variables(view);
    facts.ways_out[Fact::nnodes] =
        variables.empty()
            ? "there is no VC_…_HOSTS, so give --nnodes, --node-rank and --master-addr"
            : fmt::format("{} and {} each count from 0, so give --nnodes, --node-rank and --master-addr",
                          variables.front(), variables.back());
    if (variables.size() != 1) return facts;
    const std::string& list = variables.front();
    if (!take_host_list(view, facts, list)) return facts;
    claim_listed(facts);
    claim_number(view, facts, Fact::node_rank, index->name, 0);
    facts.ways_out[Fact::node_rank] = lack_of(view, index->name, "no whole number") + ", so give --node-rank";
    const std::string count = list.substr(0, list.size() - kHostsSuffix.size()) + "_NUM";
    refuse(facts, count_conflict(count, take_number(view, facts, count, 1), list, facts.hosts));
    const std::string& first = facts.hosts.front().name;
    claim(facts, Fact::job_id, "volcano-" + first.substr(0, first.find('.')), list);
    return facts;
}

// A pod is told its own index, and not how many pods there are.
std::optional<FamilyFacts> read_indexed_pod(const ClusterView& view) {
    if (text_of(view, "JOB_COMPLETION_INDEX") == nullptr) return std::nullopt;
    FamilyFacts facts;
    const auto index = take_number(view, facts, "JOB_COMPLETION_INDEX", 0);
    if (!index) return facts;
    facts.ways_out[Fact::nnodes] = fmt::format(
        "JOB_COMPLETION_INDEX={} tells this pod its index only, so give --nnodes; where each pod is a job of its own, --standalone",
        *index);
    facts.ways_out[Fact::master_addr] = fmt::format(
        "JOB_COMPLETION_INDEX={} tells this pod its index only; a pod of an indexed Job is known to others where its template has "
        "a subdomain and a headless service; with these, or with --master-addr, they meet",
        *index);
    claim_master(view, facts);
    const std::string job = job_of_pod(view, *index);
    const std::string* set = text_of(view, "JOBSET_NAME");
    const std::string* group = text_of(view, "REPLICATED_JOB_NAME");
    if (set != nullptr && group != nullptr && job != fmt::format("{}-{}-0", *set, *group) && !job.empty()) {
        facts.ways_out[Fact::node_rank] = fmt::format(
            "this pod is of another job than {}-{}-0 of its JobSet, and each counts from 0, so give --node-rank",
            *set, *group);
    } else {
        claim(facts, Fact::node_rank, std::to_string(*index), "JOB_COMPLETION_INDEX");
    }
    if (set != nullptr && group != nullptr) {
        claim(facts, Fact::master_addr, fmt::format("{0}-{1}-0-0.{0}", *set, *group), "JOBSET_NAME");
        claim(facts, Fact::job_id, "jobset-" + *set, "JOBSET_NAME");
    }
    const std::string domain = own_domain(view);
    if (!job.empty() && !domain.empty())
        claim(facts, Fact::master_addr, fmt::format("{}-0.{}", job, domain), "/etc/hosts");
    if (!job.empty()) claim(facts, Fact::job_id, "job-" + job, "the pod's name");
    return facts;
}

// WORLD_SIZE and RANK count processes for torchrun's kind, and nodes for Kubeflow's.
std::optional<FamilyFacts> read_bare_master(const ClusterView& view) {
    const std::string* told = text_of(view, "WORLD_SIZE");
    const bool is_alone = told != nullptr && *told == "1";
    const auto number = first_of(view, {"RANK", "NODE_RANK"});
    if (is_alone || !number || (number->name != "RANK" && !tells_nodes(view))) return std::nullopt;
    FamilyFacts facts;
    if (told == nullptr) {
        claim_master(view, facts);
        const bool has_place = facts.claims.contains(Fact::master_addr);
        facts.ways_out[Fact::nnodes] = fmt::format(
            "{}={} is set without WORLD_SIZE, so give {}, or --standalone for a job of this node alone",
            number->name, harmless_line(number->text),
            has_place ? "--nnodes and --node-rank" : "--nnodes, --node-rank and --master-addr");
        return facts;
    }
    const auto size = take_number(view, facts, "WORLD_SIZE", 1);
    const auto rank = take_number(view, facts, "RANK", 0);
    if (!size) return facts;
    const bool has_nodes = claim_nodes_of_processes(view, facts, *size);
    claim_master(view, facts);
    facts.ways_out[Fact::master_addr] = "MASTER_ADDR is not set, so give --master-addr";
    if (rank && *rank >= *size)
        facts.conflict = fmt::format("RANK={} is not below WORLD_SIZE={}", *rank, *size);
    if (has_nodes) return facts;
    if (first_of(view, {"LOCAL_RANK", "LOCAL_WORLD_SIZE"})) {
        facts.tasks = read_processes(view, facts, *size, rank);
    } else if (first_of(view, {"KUBERNETES_SERVICE_HOST", "NPROC_PER_NODE"})) {
        claim_number(view, facts, Fact::nnodes, "WORLD_SIZE", 1);
        claim_number(view, facts, Fact::node_rank, "RANK", 0);
    }
    claim_told(view, facts, Fact::workers, "NPROC_PER_NODE");
    const bool has_place = facts.claims.contains(Fact::master_addr);
    facts.ways_out[Fact::nnodes] = fmt::format(
        "WORLD_SIZE={} may count nodes or processes, so give {}, or --standalone for a job of this node alone",
        *size, has_place ? "--nnodes and --node-rank" : "--nnodes, --node-rank and --master-addr");
    return facts;
}

// A process is a node in a pod, unless it has been given some of the devices only.
std::optional<FamilyFacts> read_jax(const ClusterView& view) {
    const std::string* told = text_of(view, "JAX_NUM_PROCESSES");
    if (told == nullptr || *told == "1") return std::nullopt;
    FamilyFacts facts;
    const auto count = take_number(view, facts, "JAX_NUM_PROCESSES", 1);
    if (!count) return facts;
    // JAX itself listens at the port that stands there.
    claim_host_of_place(view, facts, "JAX_COORDINATOR_ADDRESS");
    facts.ways_out[Fact::nnodes] = fmt::format(
        "JAX_NUM_PROCESSES={} may count nodes or processes, so give --nnodes, --node-rank and "
        "--master-addr, or --standalone for a job of this node alone",
        *count);
    facts.ways_out[Fact::node_rank] =
        lack_of(view, "JAX_PROCESS_ID", "no whole number") + ", so give --node-rank";
    facts.ways_out[Fact::master_addr] =
        lack_of(view, "JAX_COORDINATOR_ADDRESS", "no HOST:PORT") + ", so give --master-addr";
    if (!first_of(view, {"KUBERNETES_SERVICE_HOST"}) || first_of(view, {"JAX_LOCAL_DEVICE_IDS"}))
        return facts;
    claim_number(view, facts, Fact::nnodes, "JAX_NUM_PROCESSES", 1);
    claim_number(view, facts, Fact::node_rank, "JAX_PROCESS_ID", 0);
    return facts;
}

// Platforms that describe the job in JSON: SageMaker and Vertex AI.

namespace {

constexpr std::size_t kMaxResourceDepth = 8;
constexpr const char* kResourceFile = "/opt/ml/input/config/resourceconfig.json";

// Those members of the platform's own description that count here.
struct ResourceConfig {
    std::vector<std::string> hosts;
    std::string current;
    std::string source;
};

std::vector<std::string> listed_names(const boost::json::value* list) {
    std::vector<std::string> names;
    if (list == nullptr || !list->is_array()) return names;
    for (const boost::json::value& entry : list->get_array()) {
        if (!entry.is_string() || entry.get_string().empty() || entry.get_string().size() > kMaxHostText ||
            names.size() == kMaxListedHosts)
            return {};
        names.emplace_back(entry.get_string());
    }
    return names;
}

ResourceConfig read_config(const std::string& json, std::string source) {
    const auto root = parse_json_object(json, kMaxResourceDepth);
    if (!root) return {};
    ResourceConfig config{listed_names(root->if_contains("hosts")), {}, std::move(source)};
    const boost::json::value* current = root->if_contains("current_host");
    if (current != nullptr && current->is_string()) config.current = current->get_string();
    return config;
}

ResourceConfig find_config(const ClusterView& view) {
    const std::string* current = text_of(view, "SM_CURRENT_HOST");
    // The reader of objects is the only one there is.
    if (const std::string* hosts = text_of(view, "SM_HOSTS")) {
        if (auto config = read_config("{\"hosts\":" + *hosts + "}", "SM_HOSTS"); !config.hosts.empty()) {
            if (current != nullptr) config.current = *current;
            return config;
        }
    }
    if (const std::string* text = text_of(view, "SM_RESOURCE_CONFIG")) {
        if (auto config = read_config(*text, "SM_RESOURCE_CONFIG"); !config.hosts.empty()) return config;
    }
    const auto file = view.files.find(kResourceFile);
    return file == view.files.end() ? ResourceConfig{} : read_config(file->second, kResourceFile);
}

// algo-2 before algo-10: by the number at the end, where there is one.
auto numeric_key(const std::string& name) {
    const auto digits = name.find_last_not_of("0123456789") + 1;
    const auto number = whole_number<std::uint64_t>(std::string_view(name).substr(digits));
    return std::tuple(name.substr(0, digits), number.value_or(0), name);
}

constexpr const char* kSpec = "CLUSTER_SPEC";
constexpr std::size_t kMaxSpecDepth = 8;
// The first machine, and the others that are like it; the further pools help these, or look at what they
// make.
constexpr std::array<std::string_view, 2> kNodePools = {"workerpool0", "workerpool1"};

// "name:2222" of each machine in a pool.
void add_pool(const boost::json::object& cluster, std::string_view pool, std::vector<ListedHost>& hosts) {
    const boost::json::value* list = cluster.if_contains(pool);
    if (list == nullptr || !list->is_array()) return;
    constexpr std::uint16_t kAnyPort = 0;
    for (const boost::json::value& place : list->get_array()) {
        const std::string text = place.is_string() ? std::string(place.get_string()) : std::string();
        const auto endpoint = parse_endpoint(text, kAnyPort);
        // An entry that is no place counts as a machine, or the job would be one of fewer.
        if (hosts.size() < kMaxListedHosts) hosts.push_back({endpoint ? endpoint->host : text, 0});
    }
}

// Finds this machine's place in the list, where it is in one of these pools.
std::optional<std::size_t> place_of(const boost::json::object& cluster, const boost::json::object& task) {
    const boost::json::value* type = task.if_contains("type");
    const boost::json::value* index = task.if_contains("index");
    const bool is_told = type != nullptr && type->is_string() && index != nullptr && index->is_int64();
    if (!is_told || index->get_int64() < 0) return std::nullopt;
    std::vector<ListedHost> before;
    for (const std::string_view pool : kNodePools) {
        if (type->get_string() == pool) return before.size() + static_cast<std::size_t>(index->get_int64());
        add_pool(cluster, pool, before);
    }
    return std::nullopt;
}

const boost::json::object* object_in(const boost::json::object& root, std::string_view name) {
    const boost::json::value* value = root.if_contains(name);
    return value != nullptr ? value->if_object() : nullptr;
}

}  // namespace

std::optional<FamilyFacts> read_sage_maker(const ClusterView& view) {
    ResourceConfig config = find_config(view);
    if (config.hosts.empty()) {
        if (text_of(view, "SM_HOSTS") == nullptr) return std::nullopt;
        FamilyFacts facts;
        facts.conflict = lack_of(view, "SM_HOSTS", R"(no list of names like ["algo-1","algo-2"])");
        return facts;
    }
    std::sort(config.hosts.begin(), config.hosts.end(), [](const std::string& one, const std::string& other) {
        return numeric_key(one) < numeric_key(other);
    });
    FamilyFacts facts;
    for (const std::string& name : config.hosts) facts.hosts.push_back({name, 0});
    facts.hosts_source = config.source;
    claim_listed(facts);
    if (!config.current.empty()) claim(facts, Fact::own_name, config.current, config.source);
    const auto position =
        config.current.empty() ? own_position(view, config.hosts) : position_of(config.current, config.hosts);
    const char* source = text_of(view, "SM_CURRENT_HOST") != nullptr ? "SM_CURRENT_HOST" : "its hosts";
    if (position) claim(facts, Fact::node_rank, std::to_string(*position), source);
    facts.ways_out[Fact::node_rank] =
        lack_of(view, "SM_CURRENT_HOST", "none of its hosts") + ", so give --node-rank";
    claim_number(view, facts, Fact::workers, "SM_NUM_GPUS", 1);
    claim_told(view, facts, Fact::job_id, "TRAINING_JOB_NAME", "sagemaker-");
    return facts;
}

// Vertex AI sets the variable; another program's of that name has no such pools.
std::optional<FamilyFacts> read_cluster_spec(const ClusterView& view) {
    const std::string* text = text_of(view, kSpec);
    if (text == nullptr || text->find(kNodePools.front()) == text->npos) return std::nullopt;
    const auto root = parse_json_object(*text, kMaxSpecDepth);
    const boost::json::object* cluster = root ? object_in(*root, "cluster") : nullptr;
    const boost::json::object* task = root ? object_in(*root, "task") : nullptr;
    FamilyFacts facts;
    for (const std::string_view pool : kNodePools) {
        if (cluster != nullptr) add_pool(*cluster, pool, facts.hosts);
    }
    if (task == nullptr && facts.hosts.size() == 1) return std::nullopt;
    if (task == nullptr || facts.hosts.empty()) {
        facts.hosts.clear();
        facts.conflict =
            lack_of(view, kSpec, "no JSON with a list of hosts in cluster and this machine's task");
        return facts;
    }
    facts.hosts_source = kSpec;
    claim_listed(facts);
    if (const auto place = place_of(*cluster, *task))
        claim(facts, Fact::node_rank, std::to_string(*place), kSpec);
    facts.ways_out[Fact::node_rank] =
        "its task is of none of workerpool0 and workerpool1, so give --standalone for a job of this machine alone";
    return facts;
}

}  // namespace launch
}  // namespace ddprun
