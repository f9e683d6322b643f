#include "rendezvous/etcd/etcd_options.hpp"

#include "rendezvous/system/split.hpp"

namespace ddprun::inline job {

std::optional<std::vector<Endpoint>> parse_etcd_endpoints(std::string_view text) {
    std::vector<Endpoint> endpoints;
    for (const std::string_view part : split_at(text, ',')) {
        const auto endpoint = parse_endpoint(part, kDefaultEtcdPort);
        if (!endpoint || endpoint->port == 0) return std::nullopt;
        endpoints.push_back(*endpoint);
    }
    return endpoints;
}

std::string to_string(const std::vector<Endpoint>& endpoints) {
    std::string text;
    for (const Endpoint& endpoint : endpoints) {
        if (!text.empty()) text += ',';
        text += to_string(endpoint);
    }
    return text;
}

}  // namespace ddprun::inline job
