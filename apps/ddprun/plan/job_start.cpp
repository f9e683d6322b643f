#include "apps/ddprun/plan/job_start.hpp"

#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <boost/algorithm/string/join.hpp>
#include <filesystem>
#include <map>

#include "apps/ddprun/plan/job_secret.hpp"
#include "apps/ddprun/plan/node_facts.hpp"
#include "apps/ddprun/plan/own_python.hpp"
#include "launcher/cluster/cluster_table.hpp"
#include "launcher/cluster/host_list.hpp"
#include "launcher/features/failure_judge.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/plan/program_words.hpp"
#include "launcher/process/child_exec.hpp"
#include "launcher/start/code_files.hpp"
#include "launcher/start/host_slots.hpp"
#include "launcher/start/remote_shell.hpp"
#include "launcher/start/start_tree.hpp"
#include "launcher/told_file.hpp"
#include "rendezvous/job/number_limits.hpp"
#include "rendezvous/net/local_addresses.hpp"
#include "rendezvous/secure/secret.hpp"
#include "rendezvous/system/machine.hpp"
#include "rendezvous/system/small_file.hpp"
#include "rendezvous/text/split.hpp"

namespace ddprun {
inline namespace app {
namespace {

constexpr const char* kLocalName = "localhost";

// Each of several tasks would start all hosts' agents.
void check_alone(const CommandLine& line, const StarterFacts& facts) {
    if (facts.one_of_several.empty() || line.start.allocation) return;
    throw UsageError(fmt::format(
        "{0}: {1}, and each would start a job on all these hosts: start ddprun once, from outside "
        "of it, or leave {0} out; where this one starts alone, --scheduler none",
        hosts_flag(line), facts.one_of_several));
}

void check_contradictions(const CommandLine& line) {
    const auto with_hosts = [&line](const std::string& flag, const std::string& why) {
        refuse_together(line, flag, hosts_flag(line),
                        fmt::format("{}: contradicts {}: {}", flag, hosts_flag(line), why));
    };
    CommandLine unused;
    for (const OptionGroup& group : option_rows(unused)) {
        for (const OptionRow& row : group.rows) {
            if (!row.not_with_hosts.empty() && line.origins.contains(long_name(row)))
                with_hosts(long_name(row), row.not_with_hosts);
        }
    }
    if (line.rdzv_backend != RdzvBackend::fixed) with_hosts("--rdzv-backend", "node 0 hosts the rendezvous");
    if (!line.start.hosts.empty() && !line.start.host_file.empty())
        refuse_together(line, "--hostfile", "--hosts",
                        "--hostfile: contradicts --hosts; one of them is enough");
    if (!line.start.include.empty() && !line.start.exclude.empty())
        refuse_together(line, "--exclude", "--include",
                        "--exclude: contradicts --include; one of them is enough");
}

template <class Value>
Value value_of_flag(const std::string& flag, const std::string& text,
                    std::variant<Value, std::string> parsed) {
    if (const auto* why = std::get_if<std::string>(&parsed))
        throw UsageError(fmt::format("{} {}: {}", flag, harmless_line(text), *why));
    return std::get<Value>(std::move(parsed));
}

std::vector<HostSlots> hosts_of(const CommandLine& line, const StarterFacts& facts) {
    const StartRequest& start = line.start;
    std::vector<HostSlots> hosts;
    if (start.allocation) {
        for (const ListedHost& host : start.allocation->hosts) hosts.push_back({.target = host.name});
    } else if (start.host_file.empty()) {
        hosts = value_of_flag("--hosts", start.hosts, parse_hosts(start.hosts));
    } else {
        auto found = parse_host_file(facts.host_file_text, start.host_file);
        if (const auto* wrong = std::get_if<std::string>(&found)) throw UsageError("--hostfile " + *wrong);
        hosts = std::get<0>(std::move(found));
    }
    if (!start.include.empty())
        hosts =
            value_of_flag("--include", start.include, select_hosts(hosts, Selection::include, start.include));
    if (!start.exclude.empty())
        hosts =
            value_of_flag("--exclude", start.exclude, select_hosts(hosts, Selection::exclude, start.exclude));
    if (hosts.size() > static_cast<std::size_t>(kMaxNodes))
        throw UsageError(
            fmt::format("{}: {} hosts, at most {} can be nodes", hosts_flag(line), hosts.size(), kMaxNodes));
    return hosts;
}

// Workers are as many as the list says, unless the command line says something else of a file's.
int workers_of(const CommandLine& line, const HostSlots& host) {
    const auto said = line.origins.find("--nproc-per-node");
    const bool is_typed = said != line.origins.end() && said->second.source == OptionSource::command_line;
    if (!is_typed || host.slots == kUnsaidSlots) return host.slots;
    if (line.nproc_per_node == WorkerCount(host.slots)) return host.slots;
    const auto hosts = line.origins.find("--hosts");
    if (hosts != line.origins.end() && hosts->second.source == OptionSource::command_line)
        throw UsageError(fmt::format("--nproc-per-node {}: contradicts --hosts, by which {} has {}",
                                     workers_text(line.nproc_per_node), host.target, host.slots));
    return kUnsaidSlots;
}

// A scheduler may call it otherwise than it calls itself.
bool is_this_machine(const CommandLine& line, const std::string& target, const StarterFacts& facts) {
    if (const auto& allocation = line.start.allocation) {
        const auto place = allocation->own_place;
        return place && allocation->hosts[static_cast<std::size_t>(*place)].name == target;
    }
    return target == kLocalName || facts.addresses.contains(target) || position_of(facts.host_name, {target});
}

// Returns what the scheduler says of each host, by name.
std::map<std::string, ListedHost> listed_hosts(const CommandLine& line) {
    std::map<std::string, ListedHost> hosts;
    if (!line.start.allocation) return hosts;
    for (const ListedHost& host : line.start.allocation->hosts) hosts.emplace(host.name, host);
    return hosts;
}

std::vector<StartNode> nodes_of(const CommandLine& line, const StarterFacts& facts) {
    std::vector<StartNode> nodes;
    const auto listed = listed_hosts(line);
    for (const HostSlots& host : hosts_of(line, facts)) {
        StartNode node{.rank = static_cast<int>(nodes.size()),
                       .target = host.target,
                       .workers = workers_of(line, host),
                       .devices = host.devices,
                       .is_here = line.start.rsh.empty() && is_this_machine(line, host.target, facts)};
        if (const auto told = listed.find(host.target); told != listed.end()) {
            if (line.start.allocation->by_gpus)
                node.slots = std::clamp(told->second.slots, 1, kMaxWorkersPerNode);
            node.gpus = told->second.gpus;
        }
        nodes.push_back(std::move(node));
    }
    const auto is_idle = [](const StartNode& node) { return node.workers == 0; };
    if (std::all_of(nodes.begin(), nodes.end(), is_idle))
        throw UsageError(
            fmt::format("{} {}: nothing would run; write {}:8 for eight workers there", hosts_flag(line),
                        harmless_line(line.start.hosts.empty() ? line.start.host_file : line.start.hosts),
                        host_of(nodes.front().target)));
    return nodes;
}

// Returns the address by which the others reach node 0.
std::string master_of(const CommandLine& line, const std::vector<StartNode>& nodes) {
    const bool is_said = line.master_addr && line.origins.contains("--master-addr");
    if (is_said && !is_wildcard(*line.master_addr)) return *line.master_addr;
    std::string host = host_of(nodes.front().target);
    const auto other =
        std::find_if(nodes.begin(), nodes.end(), [](const StartNode& node) { return !node.is_here; });
    const bool is_loopback = host == kLocalName || is_loopback_address(host);
    if (is_loopback && other != nodes.end() && nodes.size() > 1)
        throw UsageError(
            fmt::format("{}: {} is the first of the hosts, and {} cannot reach it by that name; give its "
                        "real one, or --master-addr",
                        hosts_flag(line), host, other == nodes.begin() ? nodes[1].target : other->target));
    return host;
}

std::string nnodes_of(const CommandLine& line, int hosts) {
    const auto& least = line.elasticity.min_nodes;
    const bool is_said = line.origins.contains("--nnodes");
    if (is_said && line.nnodes != hosts)
        refuse_together(
            line, "--nnodes", hosts_flag(line),
            fmt::format("--nnodes: {}{} contradicts {}, which names {}",
                        least ? fmt::format("{}:", *least) : "", line.nnodes, hosts_flag(line), hosts));
    return least ? fmt::format("{}:{}", *least, hosts) : std::to_string(hosts);
}

std::vector<std::string> option_words_of(const CommandLine& line) {
    std::vector<std::string> words = line.start.option_words;
    // The agents do not see by which name this launcher is called.
    if (line.like_torchrun) words.emplace_back("--like-torchrun");
    if (!line.legacy_launch.empty() && !line.origins.contains("--legacy-launch"))
        words.emplace_back("--legacy-launch");
    if (line.start.allocation && !line.start.allocation->run_id.empty())
        words.push_back("--rdzv-id=" + line.start.allocation->run_id);
    return words;
}

// Returns the user's command, or the one that the list of hosts came with.
std::vector<std::string> remote_shell_of(const StartRequest& start) {
    if (start.rsh.empty() && start.allocation) return remote_shell({start.allocation->reached_by});
    return remote_shell(start.rsh);
}

// The file that an option names.
std::string file_of(const ToldOption& option, const Environment& environment) {
    const std::string* home = find_variable(environment, "HOME");
    return at_home(option.told.front().texts.back(), home == nullptr ? "" : *home);
}

// What options start besides the program, be they from variables or from the file of --config.
std::vector<std::string> started_by_options(const CommandLine& line, const Environment& environment) {
    std::vector<std::string> words;
    const auto add = [&words](const std::vector<std::string>& more) {
        words.insert(words.end(), more.begin(), more.end());
    };
    for (const Wrap& wrap : line.wraps) add(wrap.words);
    for (const RankCommand& one : line.rank_programs) add(one.words);
    for (const auto& [name, value] : line.variables) add({name + "=" + value});
    for (const RankVariable& one : line.rank_variables) add({one.name + "=" + one.value});
    if (line.module && !line.program.empty()) add({"-m", line.program.front()});
    if (const auto& judge = line.features.of<FailureJudgeOptions>().program; !judge.empty()) add({judge});
    if (const std::string* python = find_variable(environment, "PYTHON_EXEC")) add({*python});
    // Each agent reads its own host's file of this name, be it named by a variable.
    for (const ToldOption& option : line.told) {
        if (option.name == "--config") add({file_of(option, environment)});
    }
    return words;
}

}  // namespace

StarterFacts find_starter_facts(const CommandLine& line, const std::string& secret) {
    StarterFacts facts;
    facts.environment = current_environment();
    std::error_code unknown;
    facts.directory = std::filesystem::current_path(unknown).string();
    if (unknown) throw UsageError("the working directory is not there any more: " + unknown.message());
    facts.python = own_python();
    StartPlan named{.directory = facts.directory,
                    .clean_environment = line.clean_environment,
                    .options = line.start.option_words,
                    .program = line.start.program_words,
                    .started = started_by_options(line, facts.environment),
                    .python = facts.python};
    if (!named.clean_environment) named.environment = carried_environment(facts.environment);
    facts.launcher_owners = owners_of(own_program());
    facts.owners = owners_here(code_files(named, facts.environment));
    facts.host_name = host_name();
    // Of several tasks only one has the terminal, as by srun --pty.
    if (::isatty(STDIN_FILENO) == 0)
        facts.one_of_several = one_of_several(
            derive_cluster(find_cluster_view(facts.environment), {.scheduler = line.scheduler}));
    facts.hangup_ignored = is_ignored(SIGHUP);
    const SitePolicy policy = agreed_policy(line);
    facts.seals_store = wants_sealed_store(policy, has_given_secret(policy, secret));
    facts.shells = policy.shells;
    for (const LocalAddress& own : local_addresses()) facts.addresses.insert(own.address);
    const std::string* path = find_variable(facts.environment, "PATH");
    const std::string program = line.program.empty() ? "" : line.program.front();
    const std::string& hosts = line.start.hosts;
    const bool is_alike = hosts.find_first_of(",[") == hosts.npos &&
                          (hosts.find(':') == hosts.npos) == (program.find(':') == program.npos);
    facts.may_be_host =
        !hosts.empty() && is_alike && program.find_first_of("./") == program.npos &&
        !runs_python({program}) && !std::filesystem::exists(program, unknown) &&
        find_executable(program, path == nullptr ? std::nullopt : std::optional(*path)).empty();
    for (const ToldOption& option : line.told) {
        if (option.name != "--config" && option.name != "--rank-order") continue;
        const std::string file = file_of(option, facts.environment);
        if (!std::filesystem::is_fifo(file, unknown) && !descriptor_named(file)) continue;
        if (const auto text = line.files.read(file, kMaxRankOrderFile))
            facts.read_options[option.name] = *text;
    }
    if (line.start.host_file.empty()) return facts;
    const auto text = line.files.read(line.start.host_file, kMaxHostListText);
    if (!text)
        throw UsageError(as_said(line, fmt::format("--hostfile {}: {}", line.start.host_file,
                                                   why_untold(text.error(), kMaxHostListText))));
    facts.host_file_text = edited_text(*text);
    return facts;
}

StarterOptions resolve_start(const CommandLine& line, const StarterFacts& facts) {
    check_contradictions(line);
    check_alone(line, facts);
    StarterOptions options;
    StartPlan& plan = options.plan;
    plan.nodes = nodes_of(line, facts);
    const int nodes = static_cast<int>(plan.nodes.size());
    plan.fan_out = line.start.fan_out;
    plan.directory = facts.directory;
    plan.python = facts.python;
    plan.launcher_owners = facts.launcher_owners;
    plan.owners = facts.owners;
    plan.clean_environment = line.clean_environment;
    if (!plan.clean_environment) plan.environment = carried_environment(facts.environment);
    plan.options = option_words_of(line);
    // The key is the starter's, which is nobody's word on that.
    if (facts.seals_store && line.store_access == StoreAccess::automatic && nodes > 1)
        plan.options.emplace_back("--store=door");
    plan.program = line.start.program_words;
    plan.started = started_by_options(line, facts.environment);
    plan.read_options = facts.read_options;
    if (line.read_program) plan.read_program = *line.read_program;
    plan.nnodes = nnodes_of(line, nodes);
    for (const StartNode& node : plan.nodes) plan.host_names.push_back(host_of(node.target));
    plan.master_addr = master_of(line, plan.nodes);
    plan.master_port = line.master_port.value_or(0);
    if (nodes > 1 && line.auth != Auth::off) plan.secret = make_secret_text();
    plan.rsh = remote_shell_of(line.start);
    const bool is_reached = !std::ranges::all_of(plan.nodes, &StartNode::is_here);
    if (is_reached && !facts.shells.empty() &&
        std::ranges::find(facts.shells, plan.rsh.front()) == facts.shells.end())
        throw UsageError(fmt::format("--rsh {}: {} says rsh = {}", plan.rsh.front(), kSiteFile,
                                     boost::algorithm::join(facts.shells, ",")));
    plan.own_gpus = is_schedulers(plan.rsh);
    plan.ships = !line.start.no_ship;
    options.terms = {
        .nodes = nodes,
        .least = line.elasticity.min_nodes.value_or(nodes),
        .may_outlive_0 = line.failover && (line.elasticity.is_elastic() || line.restarts.max_restarts > 0)};
    options.ending_signals = line.terminating_signals;
    // It stays so, here and there.
    if (facts.hangup_ignored) std::erase(options.ending_signals, SIGHUP);
    for (const auto& [received, sent] : line.forwarded_signals) options.forwarded_signals.push_back(received);
    options.grace_period = line.grace_period;
    return options;
}

std::string hosts_flag(const CommandLine& line) {
    if (line.start.allocation)
        return fmt::format("the start on all hosts of {}", line.start.allocation->source);
    return line.start.hosts.empty() ? "--hostfile" : "--hosts";
}

std::string start_line(const CommandLine& line, const StarterOptions& options) {
    if (!line.start.allocation) return "";
    const std::size_t all = line.start.allocation->hosts.size();
    const std::size_t nodes = options.plan.nodes.size();
    return fmt::format("{}{} nodes by {}, agents started by {}", nodes,
                       nodes == all ? "" : fmt::format(" of {}", all), line.start.allocation->source,
                       shell_name(options.plan.rsh));
}

void become_started(CommandLine& line, int slots, const std::string& hosts) {
    // The starter's plan says it all; its host's environment says nothing about this job.
    line.scheduler = "none";
    line.is_started = true;
    const auto names = split_at(hosts, ',');
    if (names.size() == static_cast<std::size_t>(line.nnodes))
        line.host_list.hosts = {names.begin(), names.end()};
    if (!line.host_list.hosts.empty() && line.master_addr == line.host_list.hosts.front())
        line.origins["--master-addr"] = {OptionSource::variable, "the first host of --hosts"};
    // This variable is of the step on that host, and is not carried there.
    line.gpus_told_by = "SLURM_GPUS_ON_NODE";
    if (slots > 0) line.nproc_per_node = ForEachGpu{slots};
    line.start.hosts.clear();
    line.start.host_file.clear();
    line.start.include.clear();
    line.start.exclude.clear();
    if (line.node_rank == 0) {
        if (!line.master_port) line.master_port = 0;
        return;
    }
    line.result_file.clear();
    if (line.verbosity == Verbosity::usual) line.verbosity = Verbosity::troubles;
}

}  // namespace app
}  // namespace ddprun
