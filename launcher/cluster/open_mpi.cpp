#include <algorithm>
#include <bit>
#include <boost/asio/ip/address_v4.hpp>

#include "launcher/cluster/task_names.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/system/split.hpp"

namespace ddprun::inline launch {
namespace {

// OMPI_COMM_WORLD_NODE_RANK is the rank on the node over all jobs, not the number of the node.
constexpr TaskNames kOpenMpi{.size = "OMPI_COMM_WORLD_SIZE",
                             .rank = "OMPI_COMM_WORLD_RANK",
                             .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE",
                             .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
                             .host = "PMIX_HOSTNAME",
                             .job_id = "PMIX_NAMESPACE",
                             .job_name = "openmpi",
                             .one_per_node = "mpirun --map-by ppr:1:node"};
// Where mpirun is, until version 4: "1106640896.0;tcp://10.0.2.15,192.168.1.4:36347;tcp6://[fd00::2]:55765".
constexpr const char* kMpirunPlace = "OMPI_MCA_orte_hnp_uri";

std::vector<std::string> addresses_of_uri(std::string_view uri) {
    std::vector<std::string> addresses;
    for (std::string_view part : split_at(uri, ';')) {
        constexpr std::string_view kScheme = "tcp://";
        if (!part.starts_with(kScheme)) continue;
        part.remove_prefix(kScheme.size());
        for (const std::string_view address : split_at(part.substr(0, part.rfind(':')), ',')) {
            if (is_valid_host(address)) addresses.emplace_back(address);
        }
    }
    return addresses;
}

// How many leading bits two addresses share; none where one of them is a name.
int shared_bits(const std::string& one, const std::string& other) {
    boost::system::error_code wrong, also_wrong;
    const auto first = boost::asio::ip::make_address_v4(one, wrong);
    const auto second = boost::asio::ip::make_address_v4(other, also_wrong);
    return wrong || also_wrong ? 0 : std::countl_zero(first.to_uint() ^ second.to_uint());
}

// Of several addresses of mpirun's machine the one that looks most like one of this machine's.
std::string nearest_address(const ClusterView& view, const std::vector<std::string>& addresses) {
    std::string best = addresses.front();
    int most = 0;
    for (const std::string& address : addresses) {
        for (const std::string& own : view.addresses) {
            const int shared = shared_bits(address, own);
            if (shared <= most) continue;
            most = shared;
            best = address;
        }
    }
    return best;
}

}  // namespace

std::optional<FamilyFacts> read_open_mpi(const ClusterView& view) {
    auto facts = read_tasks(view, kOpenMpi);
    if (!facts) return facts;
    // Each node has one task here, but not everywhere.
    const auto nodes = number_of(view, "OMPI_MCA_orte_num_nodes", 1);
    Tasks& tasks = *facts->tasks;
    if (nodes && tasks.local_count == 1 && *nodes < tasks.count) {
        tasks.nodes = *nodes;
        facts->claims[Fact::nnodes] = {std::to_string(*nodes), "OMPI_MCA_orte_num_nodes", Belief::assumed};
        facts->claims.erase(Fact::node_rank);
    }
    const std::string* uri = text_of(view, kMpirunPlace);
    auto addresses = uri != nullptr ? addresses_of_uri(*uri) : std::vector<std::string>{};
    if (addresses.empty()) return facts;
    facts->many_addresses = addresses.size() > 1;
    // One address may be on every machine, a bridge of containers has it: mpirun is here where all are.
    const auto is_own = [&view](const std::string& address) { return is_own_name(view, address); };
    const bool is_here = std::all_of(addresses.begin(), addresses.end(), is_own);
    if (!is_here) std::erase_if(addresses, is_own);
    // mpirun may run where none of its tasks does.
    if (tasks.task == 0 && !is_here)
        facts->ways_out[Fact::master_addr] =
            "mpirun runs on another machine (OMPI_MCA_orte_hnp_uri), so give --master-addr HOST, this one's "
            "address";
    else
        claim(*facts, Fact::master_addr, nearest_address(view, addresses), kMpirunPlace);
    return facts;
}

}  // namespace ddprun::inline launch
