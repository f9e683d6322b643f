#include <algorithm>
#include <boost/json.hpp>
#include <tuple>

#include "launcher/cluster/family.hpp"
#include "launcher/cluster/host_list.hpp"
#include "rendezvous/codec/json_codec.hpp"
#include "rendezvous/job/failure.hpp"
#include "rendezvous/system/whole_number.hpp"

namespace ddprun::inline launch {
namespace {

constexpr std::size_t kMaxResourceDepth = 8;
constexpr const char* kResourceFile = "/opt/ml/input/config/resourceconfig.json";

// What of the platform's own description counts here.
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
    claim(facts, Fact::nnodes, std::to_string(facts.hosts.size()), config.source);
    claim(facts, Fact::master_addr, facts.hosts.front().name, config.source);
    if (!config.current.empty()) claim(facts, Fact::own_name, config.current, config.source);
    const auto position =
        config.current.empty() ? own_position(view, config.hosts) : position_of(config.current, config.hosts);
    const char* source = text_of(view, "SM_CURRENT_HOST") != nullptr ? "SM_CURRENT_HOST" : "its hosts";
    if (position) claim(facts, Fact::node_rank, std::to_string(*position), source);
    facts.ways_out[Fact::node_rank] = "SM_CURRENT_HOST is none of its hosts, so give --node-rank";
    if (const auto gpus = number_of(view, "SM_NUM_GPUS", 1))
        claim(facts, Fact::workers, std::to_string(*gpus), "SM_NUM_GPUS");
    if (const std::string* job = text_of(view, "TRAINING_JOB_NAME"))
        claim(facts, Fact::job_id, "sagemaker-" + *job, "TRAINING_JOB_NAME");
    return facts;
}

}  // namespace ddprun::inline launch
