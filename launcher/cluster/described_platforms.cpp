// Platforms that describe the job in JSON: SageMaker and Vertex AI.
#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <tuple>

#include "launcher/cluster/readers.hpp"
#include "rendezvous/codec/json_codec.hpp"
#include "rendezvous/job/failure.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/system/whole_number.hpp"

namespace ddprun::inline launch {
namespace {

constexpr std::size_t kMaxResourceDepth = 8;
constexpr const char* kResourceFile = "/opt/ml/input/config/resourceconfig.json";

// Those members of the platform's own description that count here.
struct ResourceConfig {
    std::vector<std::string> hosts;
    std::string current;
    std::string source;
};

std::vector<std::string> names_in(const boost::json::value* list) {
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
    ResourceConfig config{names_in(root->if_contains("hosts")), {}, std::move(source)};
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
// The first machine, and the others that are like it; the further pools help these, or look at what they make.
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
    if (type == nullptr || !type->is_string() || index == nullptr || !index->is_int64()) return std::nullopt;
    std::vector<ListedHost> before;
    for (const std::string_view pool : kNodePools) {
        if (type->get_string() == pool)
            return before.size() + static_cast<std::size_t>(std::max<std::int64_t>(index->get_int64(), 0));
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
        facts.conflict = "SM_HOSTS is no list of names like [\"algo-1\",\"algo-2\"]";
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
    facts.ways_out[Fact::node_rank] = "SM_CURRENT_HOST is none of its hosts, so give --node-rank";
    claim_number(view, facts, Fact::workers, "SM_NUM_GPUS", 1);
    claim_told(view, facts, Fact::job_id, "TRAINING_JOB_NAME", "sagemaker-");
    return facts;
}

// Vertex AI sets the variable; another program's of that name has no such members.
std::optional<FamilyFacts> read_cluster_spec(const ClusterView& view) {
    const std::string* text = text_of(view, kSpec);
    const auto root = text != nullptr ? parse_json_object(*text, kMaxSpecDepth) : std::nullopt;
    const boost::json::object* cluster = root ? object_in(*root, "cluster") : nullptr;
    const boost::json::object* task = root ? object_in(*root, "task") : nullptr;
    if (cluster == nullptr || task == nullptr || !cluster->contains(kNodePools.front())) return std::nullopt;
    FamilyFacts facts;
    for (const std::string_view pool : kNodePools) add_pool(*cluster, pool, facts.hosts);
    facts.hosts_source = kSpec;
    if (facts.hosts.empty()) return std::nullopt;
    claim_listed(facts);
    if (const auto place = place_of(*cluster, *task))
        claim(facts, Fact::node_rank, std::to_string(*place), kSpec);
    facts.ways_out[Fact::node_rank] =
        "its task is of none of workerpool0 and workerpool1, so give --standalone for a job of this machine alone";
    return facts;
}

}  // namespace ddprun::inline launch
