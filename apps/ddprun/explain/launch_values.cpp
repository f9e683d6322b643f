#include "apps/ddprun/explain/launch_values.hpp"

#include <fmt/core.h>

#include <initializer_list>

namespace ddprun::inline app {
namespace {

constexpr const char* kDefault = "default";
constexpr const char* kBackendFlag = "--rdzv-backend";

std::string seconds_text(std::chrono::milliseconds time) {
    return fmt::format("{} s", static_cast<double>(time.count()) / 1000);
}

class ValueList {
  public:
    explicit ValueList(const ClusterPlan& plan) : plan_(plan) {}

    void add(std::string name, std::string value, std::string source) {
        values_.push_back({std::move(name), std::move(value), std::move(source)});
    }

    // By the first of these flags that somebody has set.
    std::string by_flags(std::initializer_list<const char*> flags, const char* otherwise = kDefault) const {
        for (const char* flag : flags) {
            const auto origin = plan_.line.origins.find(flag);
            if (origin == plan_.line.origins.end()) continue;
            return origin->second.name.empty() ? flag : fmt::format("{} ({})", origin->second.name, flag);
        }
        return otherwise;
    }

    // By the cluster where that tells this value and it counts, else by the flags.
    std::string by_fact(Fact fact, const std::string& value, std::initializer_list<const char*> flags,
                        const char* otherwise = kDefault) const {
        const Claim* claim = chosen(plan_.table, fact);
        const bool is_told = claim != nullptr && claim->value == value;
        if (is_told && claim->belief > Belief::config_file) return claim->source;
        return by_flags(flags, otherwise);
    }

    std::vector<LaunchValue> take() { return std::move(values_); }

  private:
    const ClusterPlan& plan_;
    std::vector<LaunchValue> values_;
};

std::string nodes_text(const LaunchOptions& options) {
    const Elasticity& elasticity = options.elasticity;
    if (!elasticity.is_elastic()) return std::to_string(options.nnodes);
    const std::string spares =
        elasticity.spares > 0 ? fmt::format(", {} of them spare", elasticity.spares) : "";
    return fmt::format("{} to {}{}", *elasticity.min_nodes, options.nnodes, spares);
}

std::string id_source(const ClusterPlan& plan, const ValueList& list) {
    if (plan.line.standalone) return list.by_flags({"--standalone"});
    const Claim* told = chosen(plan.table, Fact::job_id);
    const bool is_derived = plan.is_derived && told != nullptr && told->belief > Belief::config_file;
    return is_derived ? told->source : list.by_flags({"--rdzv-id"});
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
    const std::string range = options.port_range ? " of " + to_string(*options.port_range) : "";
    if (options.master.port == 0) return "a free one" + range;
    if (options.master_ports == 1) return std::to_string(options.master.port);
    return fmt::format("{} to {}, the first that is free", options.master.port,
                       options.master.port + options.master_ports - 1);
}

std::string listen_text(const ListenPlan& listen) {
    if (listen.any) return "all addresses";
    std::string text = "loopback";
    for (const std::string& address : listen.addresses) text += ", " + address;
    return text;
}

std::string store_text(StoreAccess access) {
    switch (access) {
        case StoreAccess::automatic:
            return "door where you gave a secret or said --auth required, else direct";
        case StoreAccess::door: return "door";
        case StoreAccess::direct: break;
    }
    return "direct";
}

void add_rendezvous(ValueList& list, const LaunchOptions& options, RdzvBackend backend) {
    if (options.etcd) {
        list.add("etcd", to_string(options.etcd->endpoints), list.by_flags({"--rdzv-endpoint"}));
    } else {
        const std::string& address = options.master.host;
        list.add(
            "master address", address,
            list.by_fact(Fact::master_addr, address, {"--master-addr", "--rdzv-endpoint", "--local-addr"}));
        list.add("master port", port_value(options),
                 list.by_fact(Fact::master_port, std::to_string(options.master.port),
                              {"--master-port", "--rdzv-endpoint", "--port-range"}));
    }
    const char* name = backend == RdzvBackend::fixed  ? "static"
                       : backend == RdzvBackend::c10d ? "c10d"
                                                      : "etcd";
    list.add("rendezvous", name, list.by_flags({kBackendFlag}));
    list.add("hosted by", host_text(options), list.by_flags({"--rdzv-conf", kBackendFlag}));
    const bool may_listen =
        options.hosting == Hosting::by_number ? options.node_rank == 0 : options.hosting != Hosting::no;
    if (may_listen || options.etcd)
        list.add("listens on", listen_text(options.listen), list.by_flags({"--listen"}));
    if (options.nnodes > 1) list.add("store", store_text(options.store_access), list.by_flags({"--store"}));
}

// What listeners and workers use that the user may have a say in.
void add_network(ValueList& list, const LaunchOptions& options) {
    list.add("ports of other listeners",
             options.port_range ? to_string(*options.port_range) : "free ones of the system's",
             list.by_flags({"--port-range"}));
    if (options.nnodes == 1) return;
    const OwnAddress& own = options.own_address;
    const std::string interface = own.interface.empty() ? "" : fmt::format(" ({})", own.interface);
    list.add("own address", own.address.empty() ? "the one that reaches node 0" : own.address + interface,
             list.by_flags({"--local-addr", "--net"}));
}

void add_machine(ValueList& list, const ClusterPlan& plan, const NodeFacts& facts,
                 const LaunchOptions& options) {
    const std::string workers = std::to_string(options.workers.size());
    list.add("workers here", workers,
             plan.line.workers_by_gpus ? "a worker for each GPU"
                                       : list.by_fact(Fact::workers, workers, {"--nproc-per-node"}));
    const NodeDevices& devices = facts.hardware.devices;
    std::string names;
    for (const VisibleGpu& gpu : devices.gpus) names += (names.empty() ? ": " : ",") + gpu.name;
    list.add("GPUs", fmt::format("{}{}", devices.count, names), devices.source);
    if (devices.count > 0 && !options.workers.empty()) {
        const bool by_kind = plan.line.gpu_bind == GpuBind::automatic && !options.virtual_local_rank;
        list.add("a worker sees", options.workers.front().sees_one_gpu ? "its own GPU" : "all of them",
                 by_kind ? "its kind of program"
                         : list.by_flags({"--virtual-local-rank", "--gpu-bind", "--like-torchrun"}));
    }
    list.add("CPUs", std::to_string(facts.hardware.usable_cpus), "affinity and quota of this process");
    if (!options.interpreter.empty())
        list.add("Python", options.interpreter, python_exec_of(facts) ? "PYTHON_EXEC" : "PATH");
}

}  // namespace

std::vector<LaunchValue> launch_values(const ClusterPlan& plan, const NodeFacts& facts,
                                       const LaunchOptions& options) {
    ValueList list(plan);
    const std::string nodes = std::to_string(options.nnodes);
    list.add("nodes", nodes_text(options), list.by_fact(Fact::nnodes, nodes, {"--nnodes", "--standalone"}));
    const std::string number = std::to_string(options.node_rank);
    list.add("node", options.node_rank < 0 ? "numbered when the nodes meet" : number,
             list.by_fact(Fact::node_rank, number, {"--node-rank", kBackendFlag}));
    list.add("job id", options.run_id, id_source(plan, list));
    add_rendezvous(list, options, plan.line.rdzv_backend);
    add_network(list, options);
    add_machine(list, plan, facts, options);
    list.add("restarts", std::to_string(options.restarts.max_restarts), list.by_flags({"--max-restarts"}));
    list.add("join timeout", seconds_text(options.join_timeout),
             list.by_flags({"--join-timeout", "--rdzv-conf"}));
    list.add("heartbeat", seconds_text(options.heartbeat), list.by_flags({"--heartbeat", "--rdzv-conf"}));
    list.add("grace", seconds_text(options.grace_period), list.by_flags({"--shutdown-timeout"}));
    const std::string folder =
        options.output.log_dir.empty() ? "a new one among the temporary files" : options.output.log_dir;
    list.add("log folder", options.output.files ? folder : "none", list.by_flags({"--log-dir"}));
    return list.take();
}

}  // namespace ddprun::inline app
