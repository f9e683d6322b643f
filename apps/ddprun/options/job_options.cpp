// The options that say which nodes a job has, how they are reached, and how they find and trust each other.
#include "apps/ddprun/options/job_options.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "apps/ddprun/options/option_values.hpp"
#include "launcher/cluster/cluster_table.hpp"
#include "launcher/plan/rank_command.hpp"
#include "launcher/start/remote_shell.hpp"
#include "rendezvous/net/local_addresses.hpp"
#include "rendezvous/net/port_range.hpp"

namespace ddprun {
inline namespace app {
namespace {

using Set = std::function<void(const std::string&)>;

constexpr unsigned kHosts = kFindsNodes | kForStarter;

constexpr const char* kRdzvConfHelp =
    "join_timeout=900: as --join-timeout, which is the stronger; last_call_timeout=30: as "
    "--last-call; is_host=1 or 0: whether this agent hosts, with c10d\nkeep_alive_interval=5 "
    "times keep_alive_max_attempt=3: as --heartbeat, which is the stronger. With etcd: "
    "etcd_prefix=/torchelastic/p2p: under which its keys are; protocol=http, or https with "
    "cacert=FILE: who vouches for etcd, else those whom this machine trusts, and cert=FILE and "
    "key=FILE: what this agent shows of itself. torchrun's other keys have no effect.";

// The option has no effect with --standalone, whose row comes before, so that no value is wrong then.
Set unless_standalone(const Said& line, Set set) {
    return [&line, set = std::move(set)](const std::string& text) {
        if (!line.standalone) set(text);
    };
}

Set nodes_into(Said& line) {
    return [&line](const std::string& text) {
        const NodeCount count = parse_nnodes(text);
        line.nnodes = count.most;
        line.elasticity.min_nodes = count.least;
    };
}

std::vector<OptionRow> node_rows(Said& line) {
    const auto resize =
        one_of<Resize>({{"now", Resize::now}, {"failure", Resize::failure}, {"never", Resize::never}});
    const auto failover = one_of<bool>({{"on", true}, {"off", false}});
    return {
        {"--nnodes", "N|MIN:MAX",
         "Number of nodes\n"
         "MIN:MAX: the job begins with MIN nodes or more, goes on with those "
         "that are left when one is lost, and takes in those that come.",
         nodes_into(line), kTorchruns | kAllNodes | kFindsNodes, "those of the step, else 1"},
        {"--spares", "N", "Of MIN:MAX nodes, so many wait without working until another one is lost",
         into(line.elasticity.spares, number(0, kMaxNodes)), kNode0, std::to_string(line.elasticity.spares)},
        {"--resize", "WHEN",
         "When a node that comes later is let in: now, which restarts the workers; "
         "failure: with the next round; never: only for one that was lost",
         into(line.elasticity.resize, resize), kNode0, "now"},
        {"--failover", "on|off",
         "Whether the job goes on when the node is lost that hosts "
         "the rendezvous, as far as it may without a node\n"
         "A majority of the others meets at the first of them, which hosts "
         "it then; with etcd that decides who does, however few are left.",
         into(line.failover, failover), 0, line.failover ? "on" : "off"},
        {"--last-call", "S", "Seconds to wait for more than MIN nodes before the job begins",
         seconds_into(line.elasticity.last_call), kNode0 | kFindsNodes,
         whole_seconds(line.elasticity.last_call)},
        {"--node-rank", "R", "This node's number, 0 to N-1; node 0 hosts the rendezvous\nNode 0 leaves last.",
         into(line.node_rank, number(0, kMaxNodes)), kTorchruns | kFindsNodes, std::to_string(line.node_rank),
         "nodes are numbered in the order of the hosts"},
        {"--nproc-per-node", "P",
         "Workers on this node: a number, or gpu (one for each), xpu, cpu, auto; nodes may differ\n"
         "0: this node takes part without workers, for example to host. "
         "xpu: GPUs of Intel's; auto: GPUs if there are any, else CPUs.",
         into(line.nproc_per_node, parse_nproc), kTorchruns,
         workers_text(line.nproc_per_node) + "; under a scheduler one for each GPU"},
        {"--standalone", "",
         "One node, a free port and a job id of its own, "
         "whatever other options say of nodes and rendezvous\n"
         "One node and a free port are the default.",
         into(line.standalone), kTorchruns | kFindsNodes, "", "that is one node"}};
}

std::vector<OptionRow> address_rows(Said& line) {
    const auto port = of_number(into(line.master_port, parsed_by(parse_port, "must be from 0 to 65535")));
    const auto set_networks = [&line](const std::string& text) {
        parsed_by(parse_networks, "must be networks like 10.0.0.0/8 or fd00::/8, with commas between")(text);
        line.networks = text;
    };
    const auto range = parsed_by(parse_port_range,
                                 "must be FIRST-LAST, two ports from 1 to 65535 in order, like 30000-30100");
    return {
        {"--master-addr", "HOST",
         "Address or name of node 0, as the other nodes reach it\n"
         "Required for more than one node; on node 0 it must be one of that machine's own, or 0.0.0.0 for all of them.",
         unless_standalone(line, into(line.master_addr, parse_master_addr)),
         kTorchruns | kAllNodes | kFindsNodes, LaunchOptions().master.host},
        {"--master-port", "PORT", "Port on node 0", unless_standalone(line, port),
         kTorchruns | kAllNodes | kFindsNodes,
         fmt::format("a free one on a single node, else {}", kDefaultMasterPort)},
        {"--local-addr", "HOST",
         "Address of this node by which its workers are to reach the others\n"
         "It has to be one of its own. On a single node, unless --master-addr is given, it is MASTER_ADDR.",
         into(line.local_addr, parse_master_addr), kTorchruns | kFindsNodes, "the one that reaches node 0",
         "it is another one on each host"},
        {"--listen", "WHERE",
         "auto: node 0 listens where it has to, and --master-addr must "
         "be an address of its own; any: on all its addresses\n"
         "It has to on loopback and at --master-addr; any is for a --master-addr that is "
         "translated on the way, or a name that stands for another address on other nodes.",
         into(line.listen_any, one_of<bool>({{"auto", false}, {"any", true}})), kNode0 | kFindsNodes, "auto"},
        {"--net", "CIDR,…",
         "Networks by which the workers of different nodes reach "
         "each other, like 10.0.0.0/8; sets DDPRUN_NET\n"
         "The first one in which this node has an address decides "
         "on its interface, too; a node with none is refused.",
         set_networks, kFindsNodes, "that of --master-addr"},
        {"--port-range", "FIRST-LAST",
         "Ports for all listeners that are given none by number, here and "
         "of the workers, like 30000-30100; sets DDPRUN_PORT_RANGE\n"
         "Without --master-port node 0 hosts the rendezvous at one "
         "of them, too, which the nodes agree on by the job's id.",
         [&line, range](const std::string& text) { line.port_range = range(text); }, kAllNodes,
         "free ones of the system's"}};
}

std::string parse_scheduler(const std::string& text) {
    std::vector<std::string> names{"auto", "none"};
    for (std::string& name : scheduler_names()) names.push_back(std::move(name));
    if (std::find(names.begin(), names.end(), text) != names.end()) return text;
    throw BadValue("must be " + alternatives(names));
}

std::vector<OptionRow> cluster_rows(Said& line) {
    return {{"--scheduler", "NAME",
             "Whose variables say which nodes the job has: auto: whoever has started this "
             "process; none: nobody's; or one by name, like slurm, openmpi, kubernetes\n"
             "What options say is stronger. Multi-node signs that do not "
             "suffice are refused; one node never stands in for several.",
             into(line.scheduler, parse_scheduler), kFindsNodes, line.scheduler},
            {"--adapt", "",
             "Where srun, mpirun or the like has started a process for "
             "each worker already, run PROGRAM itself in this one\n"
             "With RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR and MASTER_PORT "
             "made of the launcher's own variables, and without an agent: nothing is supervised.",
             into(line.adapt)}};
}

std::vector<std::string> parse_rsh(const std::string& text) {
    auto words = value_or_throw<BadValue>(split_shell_words(text));
    if (words.empty()) throw BadValue("must be a command that is called as COMMAND HOST LINE");
    if (const auto why = why_no_remote_shell(words)) throw BadValue(*why);
    return words;
}

std::vector<OptionRow> host_rows(Said& line) {
    StartRequest& start = line.start;
    return {{"--hosts", "HOST[:N],…",
             "Start the job on these hosts, with N workers each, like gpu[01-04]:8,alice@big1:4\n"
             "The first one is node 0. An IPv6 address stands in "
             "brackets: [fd00::1]:8. This machine needs no ssh.",
             into(start.hosts), kHosts},
            {"--hostfile", "FILE",
             "Start the job on the hosts of this file, a host a line: "
             "HOST slots=N, HOST:N or HOST, # begins a comment\n"
             "A host that stands there again has one slot more.",
             into(start.host_file), kHosts | kPath},
            {"--include", "HOST[:SLOTS]@…",
             "Only these of the hosts, and of their slots, like gpu01@gpu02:0,2-3 or gpu[03-08],big1\n"
             "The slots are GPUs: the host's agent has them as CUDA_VISIBLE_DEVICES.",
             into(start.include), kHosts},
            {"--exclude", "HOST[:SLOTS]@…", "All hosts and slots but these", into(start.exclude), kHosts},
            {"--rsh", "COMMAND",
             "What reaches a host, called as COMMAND HOST LINE; LINE is for its shell\n"
             "Like \"ssh -p 2222\", or srun, blaunch or qrsh within their jobs. {host} and "
             "{line} among its words say where the two belong. By default ssh in batch "
             "mode, which asks nothing, or in an allocation what its scheduler has.",
             into(start.rsh, parse_rsh), kHosts | kPath, "ssh"},
            {"--fan-out", "N",
             "Hosts that one machine reaches itself; more are reached by way of others\n"
             "These have to be able to reach each other by ssh.",
             into(start.fan_out, number(2, kMaxFanOut)), kHosts, std::to_string(start.fan_out)},
            {"--no-ship", "",
             "Do not copy ddprun to hosts that lack it, or have another build\n"
             "Otherwise it is copied into a folder in TMPDIR, and removed as soon as it runs.",
             into(start.no_ship), kHosts}};
}

std::vector<OptionRow> rendezvous_rows(Said& line) {
    return {{"--join-timeout", "S", "Seconds to wait for all nodes\nOnce node 0 is reached, its own count.",
             seconds_into(line.join_timeout, 1), kFindsNodes, whole_seconds(line.join_timeout)},
            {"--rdzv-backend", "NAME",
             "static: nodes are numbered by --node-rank, node 0 hosts the rendezvous; c10d: the "
             "agent on the machine of --rdzv-endpoint hosts it, and nodes need no numbers; etcd, "
             "or etcd-v2: nodes need no numbers, and etcd at --rdzv-endpoint elects the host\n"
             "Those without a number are numbered: the host first, then in the "
             "order of a Slurm allocation's list, else by their host names.",
             unless_standalone(line, into(line.rdzv_backend, parse_rdzv_backend)),
             kTorchruns | kAllNodes | kFindsNodes, backend_name(line.rdzv_backend)},
            {"--rdzv-endpoint", "HOST[:PORT]",
             "Another way to write --master-addr and --master-port, and the stronger; with etcd "
             "where that is (port 2379), or several of its endpoints with commas between",
             unless_standalone(line, into(line.rdzv_endpoint, parse_rdzv_endpoint)),
             kTorchruns | kAllNodes | kFindsNodes, "",
             "node 0 is the first host; --master-addr says how the others reach it"},
            {"--rdzv-id", "ID", "Job id\nAgents with another one are refused.", into(line.run_id),
             kTorchruns | kAllNodes | kFindsNodes, line.run_id},
            {"--allow-different", "",
             "Nodes may run different programs; otherwise only those with another --role may",
             into(line.allow_different)},
            {"--strict-env", "",
             "Refuse the job where nodes differ in program file, arguments, "
             "environment or GPU; otherwise a line warns of each difference\n"
             "A node that comes to a running job and differs is refused alone. Compared are the "
             "file that is run, the variables NCCL_*, CUDA_*, PYTHON* and OMP_*, and GPU model and driver.",
             into(line.strict_env), kNode0},
            {"--heartbeat", "S",
             "Seconds without a sign of a node until it counts as lost\nLess than --join-timeout.",
             seconds_into(line.heartbeat, 1), kNode0, whole_seconds(line.heartbeat)},
            {"--rdzv-conf", "KEY=VALUE,…", kRdzvConfHelp, into(line.rdzv_conf, parse_rdzv_conf),
             kTorchruns | kFindsNodes | kPath}};
}

std::vector<OptionRow> security_rows(Said& line) {
    const auto auth =
        one_of<Auth>({{"auto", Auth::automatic}, {"required", Auth::required}, {"off", Auth::off}});
    const auto store = one_of<StoreAccess>(
        {{"auto", StoreAccess::automatic}, {"door", StoreAccess::door}, {"direct", StoreAccess::direct}});
    return {
        {"--secret-file", "PATH",
         "The job's secret; -: one line of stdin\n"
         "A file that nobody else may read. With a secret the agents of several nodes "
         "prove to each other that they have it, and all they say is encrypted; it is "
         "never taken from the command line, and the workers do not get it.",
         into(line.secret_file), kAllNodes | kFindsNodes | kPath,
         "DDPRUN_SECRET, else ~/.config/ddprun/secret", "the job gets a key of its own"},
        {"--auth", "WHEN",
         "Whether agents must prove that they have the secret. auto: where there "
         "is one; required: or else no job of several nodes; off: never\n"
         "A line auth = required in /etc/ddprun.conf makes it required for all.",
         into(line.auth, auth), kFindsNodes, "auto"},
        {"--store", "WAY",
         "How workers of several nodes reach the store. door: through their own agents, encrypted; direct: "
         "all at node 0, in clear; auto: door where you gave a secret or said --auth required, else direct\n"
         "With door MASTER_ADDR and MASTER_PORT are a port on loopback; a program "
         "that opens ports of its own at MASTER_ADDR takes DDPRUN_MASTER_ADDR for "
         "that, or direct. The key that --hosts makes is none that you gave.",
         into(line.store_access, store), kNode0 | kFindsNodes, "auto"},
        {"--make-secret", "", "Make ~/.config/ddprun/secret, print its path and exit",
         into(line.makes_secret)}};
}

}  // namespace

std::function<void(const std::string&)> seconds_into(std::chrono::milliseconds& target, int least) {
    return [&target, least](const std::string& text) {
        target = std::chrono::seconds(number(least, kMaxTimeoutSeconds)(text));
    };
}

std::string whole_seconds(std::chrono::milliseconds time) { return std::to_string(time.count() / 1000); }

std::vector<OptionGroup> option_rows(Said& line) {
    OptionRow config = config_row();
    config.marks |= kFindsNodes;
    OptionGroup groups[] = {{"", {std::move(config)}},
                            {"Nodes", node_rows(line)},
                            {"Addresses", address_rows(line)},
                            {"Clusters", cluster_rows(line)},
                            {"Hosts", host_rows(line)},
                            {"Rendezvous", rendezvous_rows(line)},
                            {"Who takes part", security_rows(line)}};
    std::vector<OptionGroup> all = moved_list(groups);
    for (OptionGroup& group : worker_options(line)) all.push_back(std::move(group));
    return all;
}

std::vector<std::string> without_start_words(const std::vector<std::string>& words,
                                             const std::vector<OptionGroup>& groups) {
    std::vector<std::string> starters;
    for (const OptionGroup& group : groups) {
        for (const OptionRow& row : group.rows) {
            if (row.has(kForStarter)) starters.push_back(long_name(row));
        }
    }
    std::vector<std::string> kept;
    for (const std::string& word : words) {
        if (std::find(starters.begin(), starters.end(), word.substr(0, word.find('='))) == starters.end())
            kept.push_back(word);
    }
    return kept;
}

}  // namespace app
}  // namespace ddprun
