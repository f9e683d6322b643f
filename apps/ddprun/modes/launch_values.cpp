#include "apps/ddprun/modes/launch_values.hpp"

#include <fmt/core.h>

#include "apps/ddprun/options/option_values.hpp"
#include "apps/ddprun/plan/launch_plan.hpp"

namespace ddprun {
inline namespace app {
namespace {

std::string nodes_text(const LaunchOptions& options) {
    const Elasticity& elasticity = options.elasticity;
    if (!elasticity.is_elastic()) return std::to_string(options.nnodes);
    const std::string spares =
        elasticity.spares > 0 ? fmt::format(", {} of them spare", elasticity.spares) : "";
    return fmt::format("{} to {}{}", *elasticity.min_nodes, options.nnodes, spares);
}

std::string node_text(const LaunchOptions& options) {
    return options.node_rank < 0 ? "numbered when the nodes meet" : std::to_string(options.node_rank);
}

std::string host_text(const LaunchOptions& options) {
    if (options.etcd) return "the agent that etcd elects";
    switch (options.hosting) {
        case Hosting::by_number: return options.node_rank == 0 ? "this node" : "node 0";
        case Hosting::yes: return "this node";
        case Hosting::if_first: return "this agent, if it is the first of this machine";
        case Hosting::if_here: return "this agent, if that name turns out to be this machine's";
        case Hosting::no: break;
    }
    return "the machine of that address";
}

std::string port_value(const LaunchOptions& options) {
    if (options.etcd) return "";
    const std::string range = options.port_range ? " of " + to_string(*options.port_range) : "";
    if (options.master.port == 0) return "a free one" + range;
    if (options.master_ports == 1) return std::to_string(options.master.port);
    return fmt::format("{} to {}, the first that is free", options.master.port,
                       options.master.port + options.master_ports - 1);
}

std::string own_address_text(const LaunchOptions& options) {
    if (options.nnodes == 1) return "";
    const OwnAddress& own = options.own_address;
    const std::string interface = own.interface.empty() ? "" : fmt::format(" ({})", own.interface);
    return own.address.empty() ? "the one that reaches node 0" : own.address + interface;
}

std::string listen_text(const LaunchOptions& options) {
    const bool is_host_by_number = options.hosting == Hosting::by_number && options.node_rank == 0;
    const bool is_host_otherwise = options.hosting != Hosting::by_number && options.hosting != Hosting::no;
    if (!is_host_by_number && !is_host_otherwise && !options.etcd) return "";
    if (options.listen.any) return "all addresses";
    std::string text = "loopback";
    for (const std::string& address : options.listen.addresses) text += ", " + address;
    return text;
}

std::string store_text(const LaunchOptions& options) {
    if (options.nnodes == 1) return "";
    switch (options.store_access) {
        case StoreAccess::automatic:
            return "door where you gave a secret or said --auth required, else direct";
        case StoreAccess::door: return "door";
        case StoreAccess::direct: break;
    }
    return "direct";
}

std::string log_folder_text(const LaunchOptions& options) {
    if (!options.output.files) return "none";
    return options.output.log_dir.empty() ? "a new one among the temporary files" : options.output.log_dir;
}

std::string ports_text(const LaunchOptions& options) {
    return options.port_range ? to_string(*options.port_range) : "free ones of the system's";
}

std::string seconds_text(std::chrono::milliseconds time) {
    return fmt::format("{} s", static_cast<double>(time.count()) / 1000);
}

// Says what has decided a value of this option: a sign in the environment, else the first of the options
// `by`, the strongest first, that somebody has set.
std::string source_of(const JobPlan& job, const std::string& option, const std::string& by) {
    const auto sign = job.decided_by.find(option);
    if (sign != job.decided_by.end()) return sign->second;
    for (const std::string& one : comma_separated(by.empty() ? option : by)) {
        const auto origin = job.origins.find(one);
        if (origin == job.origins.end()) continue;
        return origin->second.name.empty() ? one : fmt::format("{} ({})", origin->second.name, one);
    }
    return "default";
}

// Adds the values that no option decides alone.
void add_machine(const JobPlan& job, const LaunchOptions& options, const NodeFacts& facts,
                 std::vector<LaunchValue>& values) {
    const NodeDevices& devices = facts.hardware.devices;
    std::string names;
    for (const VisibleGpu& gpu : devices.gpus) names += (names.empty() ? ": " : ",") + gpu.name;
    values.push_back({"GPUs", fmt::format("{}{}", devices.count, names), devices.source});
    if (devices.count > 0 && !options.workers.empty()) {
        const bool by_kind = job.gpu_bind == GpuBind::automatic && !job.virtual_local_rank;
        values.push_back({"a worker sees",
                          options.workers.front().sees_one_gpu ? "its own GPU" : "all of them",
                          by_kind ? "its kind of program"
                                  : source_of(job, "", "--virtual-local-rank,--gpu-bind,--like-torchrun")});
    }
    values.push_back(
        {"CPUs", std::to_string(facts.hardware.usable_cpus), "affinity and quota of this process"});
    const bool is_on_path = !facts.python_of_words.empty() || !python_exec_of(facts);
    if (!options.interpreter.empty())
        values.push_back({"Python", options.interpreter,
                          is_on_path                                  ? "PATH"
                          : python_exec_of(facts) == facts.own_python ? "the launcher's own environment"
                                                                      : "PYTHON_EXEC"});
}

}  // namespace

std::vector<LaunchValue> launch_values(const JobPlan& job, const LaunchOptions& options,
                                       const NodeFacts& facts) {
    // by: the options that have a say, the strongest first; empty: this one.
    const struct {
        const char *name, *option, *by;
        std::string value;  // empty: this launch has none
    } rows[] = {
        {"nodes", "--nnodes", "--nnodes,--standalone", nodes_text(options)},
        {"node", "--node-rank", "--node-rank,--rdzv-backend", node_text(options)},
        {"workers here", "--nproc-per-node", "", std::to_string(options.workers.size())},
        {"master address", "--master-addr", "--master-addr,--rdzv-endpoint,--local-addr",
         options.etcd ? "" : options.master.host},
        {"master port", "--master-port", "--master-port,--rdzv-endpoint,--port-range", port_value(options)},
        {"own address", "--local-addr", "--local-addr,--net", own_address_text(options)},
        {"listens on", "--listen", "", listen_text(options)},
        {"ports of other listeners", "--port-range", "", ports_text(options)},
        {"join timeout", "--join-timeout", "--join-timeout,--rdzv-conf", seconds_text(options.join_timeout)},
        {"rendezvous", "--rdzv-backend", "", backend_name(job.rdzv_backend)},
        {"hosted by", "--rdzv-backend", "--rdzv-conf,--rdzv-backend", host_text(options)},
        {"etcd", "--rdzv-endpoint", "", options.etcd ? to_string(options.etcd->endpoints) : ""},
        {"job id", "--rdzv-id", job.standalone ? "--standalone" : "", options.run_id},
        {"heartbeat", "--heartbeat", "--heartbeat,--rdzv-conf", seconds_text(options.heartbeat)},
        {"store", "--store", "", store_text(options)},
        {"grace", "--shutdown-timeout", "", seconds_text(options.grace_period)},
        {"restarts", "--max-restarts", "", std::to_string(options.restarts.max_restarts)},
        {"log folder", "--log-dir", "", log_folder_text(options)}};
    std::vector<LaunchValue> values;
    for (const auto& [name, option, by, value] : rows) {
        if (!value.empty()) values.push_back({name, value, source_of(job, option, by)});
    }
    add_machine(job, options, facts, values);
    return values;
}

}  // namespace app
}  // namespace ddprun
