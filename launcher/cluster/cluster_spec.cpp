#include <algorithm>
#include <array>
#include <boost/json.hpp>

#include "launcher/cluster/host_lines.hpp"
#include "launcher/cluster/host_list.hpp"
#include "rendezvous/codec/json_codec.hpp"
#include "rendezvous/net/endpoint.hpp"

namespace ddprun::inline launch {
namespace {

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
        // What is no place counts as a machine, or the job would be one of fewer.
        if (hosts.size() < kMaxListedHosts) hosts.push_back({endpoint ? endpoint->host : text, 0});
    }
}

// This machine's place in the list, where it is in one of these pools.
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

// Vertex AI's; another program's variable of that name has no such members.
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
    claim(facts, Fact::nnodes, std::to_string(facts.hosts.size()), kSpec);
    claim(facts, Fact::master_addr, facts.hosts.front().name, kSpec);
    if (const auto place = place_of(*cluster, *task))
        claim(facts, Fact::node_rank, std::to_string(*place), kSpec);
    facts.ways_out[Fact::node_rank] =
        "its task is of none of workerpool0 and workerpool1, so give --standalone for a job of this machine "
        "alone";
    return facts;
}

}  // namespace ddprun::inline launch
