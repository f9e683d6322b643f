#include "apps/ddprun/cluster_facts.hpp"

#include <utility>

#include "rendezvous/net/local_addresses.hpp"
#include "rendezvous/system/small_file.hpp"

namespace ddprun::inline app {

ClusterView find_cluster_view(Environment environment) {
    ClusterView view{
        .environment = std::move(environment), .host_name = host_name(), .addresses = {}, .files = {}};
    for (const LocalAddress& own : local_addresses()) {
        if (!own.is_loopback) view.addresses.push_back(own.address);
    }
    for (const std::string& path : cluster_files(view.environment)) {
        if (auto text = read_small_file(path, kMaxClusterFile)) view.files[path] = *std::move(text);
    }
    return view;
}

}  // namespace ddprun::inline app
