#include "apps/ddprun/plan/job_start.hpp"

#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <boost/algorithm/string/join.hpp>
#include <filesystem>
#include <map>

#include "apps/ddprun/options/exclusions.hpp"
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
void check_alone(const JobPlan& job, const StarterFacts& facts) {
    if (facts.one_of_several.empty() || job.part.allocation) return;
    throw UsageError(fmt::format(
        "{0}: {1}, and each would start a job on all these hosts: start ddprun once, from outside "
        "of it, or leave {0} out; where this one starts alone, --scheduler none",
        hosts_flag(job), facts.one_of_several));
}

// A clash with a weaker option is settled before (exclusions.hpp).
void refuse(const JobPlan& job, const std::optional<Clash>& clash) {
    if (clash) throw UsageError(as_said(job, clash->text()));
}

std::vector<HostSlots> hosts_of(const JobPlan& job, const StarterFacts& facts) {
    std::vector<HostSlots> hosts;
    if (job.part.allocation) {
        for (const ListedHost& host : job.part.allocation->hosts) hosts.push_back({.target = host.name});
        hosts = selected_hosts(job.start, std::move(hosts));
    } else {
        hosts = said_hosts(job.start, facts.host_file_text);
    }
    if (hosts.size() > static_cast<std::size_t>(kMaxNodes))
        throw UsageError(
            fmt::format("{}: {} hosts, at most {} can be nodes", hosts_flag(job), hosts.size(), kMaxNodes));
    return hosts;
}

// Workers are as many as the list says, unless the command line says something else of a file's.
int workers_of(const JobPlan& job, const HostSlots& host) {
    const auto said = job.origins.find("--nproc-per-node");
    const bool is_typed = said != job.origins.end() && said->second.source == OptionSource::command_line;
    if (!is_typed || host.slots == kUnsaidSlots) return host.slots;
    if (job.nproc_per_node == WorkerCount(host.slots)) return host.slots;
    const auto hosts = job.origins.find("--hosts");
    if (hosts != job.origins.end() && hosts->second.source == OptionSource::command_line)
        throw UsageError(fmt::format("--nproc-per-node {}: contradicts --hosts, by which {} has {}",
                                     workers_text(job.nproc_per_node), host.target, host.slots));
    return kUnsaidSlots;
}

// A scheduler may call it otherwise than it calls itself.
bool is_this_machine(const JobPlan& job, const std::string& target, const StarterFacts& facts) {
    if (const auto& allocation = job.part.allocation) {
        const auto place = allocation->own_place;
        return place && allocation->hosts[static_cast<std::size_t>(*place)].name == target;
    }
    return target == kLocalName || facts.addresses.contains(target) || position_of(facts.host_name, {target});
}

// Returns what the scheduler says of each host, by name.
std::map<std::string, ListedHost> listed_hosts(const JobPlan& job) {
    std::map<std::string, ListedHost> hosts;
    if (!job.part.allocation) return hosts;
    for (const ListedHost& host : job.part.allocation->hosts) hosts.emplace(host.name, host);
    return hosts;
}

std::vector<StartNode> nodes_of(const JobPlan& job, const StarterFacts& facts) {
    std::vector<StartNode> nodes;
    const auto listed = listed_hosts(job);
    for (const HostSlots& host : hosts_of(job, facts)) {
        StartNode node{.rank = static_cast<int>(nodes.size()),
                       .target = host.target,
                       .workers = workers_of(job, host),
                       .devices = host.devices,
                       .is_here = job.start.rsh.empty() && is_this_machine(job, host.target, facts)};
        if (const auto told = listed.find(host.target); told != listed.end()) {
            if (job.part.allocation->by_gpus)
                node.slots = std::clamp(told->second.slots, 1, kMaxWorkersPerNode);
            node.gpus = told->second.gpus;
        }
        nodes.push_back(std::move(node));
    }
    const auto is_idle = [](const StartNode& node) { return node.workers == 0; };
    if (std::all_of(nodes.begin(), nodes.end(), is_idle))
        throw UsageError(
            fmt::format("{} {}: nothing would run; write {}:8 for eight workers there", hosts_flag(job),
                        harmless_line(job.start.hosts.empty() ? job.start.host_file : job.start.hosts),
                        host_of(nodes.front().target)));
    return nodes;
}

// Returns the address by which the others reach node 0.
std::string master_of(const JobPlan& job, const std::vector<StartNode>& nodes) {
    const bool is_said = job.master_addr && job.origins.contains("--master-addr");
    if (is_said && !is_wildcard(*job.master_addr)) return *job.master_addr;
    std::string host = host_of(nodes.front().target);
    const auto other =
        std::find_if(nodes.begin(), nodes.end(), [](const StartNode& node) { return !node.is_here; });
    const bool is_loopback = host == kLocalName || is_loopback_address(host);
    if (is_loopback && other != nodes.end() && nodes.size() > 1)
        throw UsageError(
            fmt::format("{}: {} is the first of the hosts, and {} cannot reach it by that name; give its "
                        "real one, or --master-addr",
                        hosts_flag(job), host, other == nodes.begin() ? nodes[1].target : other->target));
    return host;
}

std::string nnodes_of(const JobPlan& job, int hosts) {
    const auto& least = job.elasticity.min_nodes;
    refuse(job, clash_of_nnodes(job, hosts_flag(job), hosts));
    return least ? fmt::format("{}:{}", *least, hosts) : std::to_string(hosts);
}

std::vector<std::string> option_words_of(const JobPlan& job) {
    std::vector<std::string> words = job.start.option_words;
    // The agents do not see by which name this launcher is called.
    if (job.like_torchrun) words.emplace_back("--like-torchrun");
    if (!job.legacy_launch.empty() && !job.origins.contains("--legacy-launch"))
        words.emplace_back("--legacy-launch");
    if (job.part.allocation && !job.part.allocation->run_id.empty())
        words.push_back("--rdzv-id=" + job.part.allocation->run_id);
    return words;
}

// Returns the user's command, or the one that the list of hosts came with.
std::vector<std::string> remote_shell_of(const JobPlan& job) {
    const auto& allocation = job.part.allocation;
    return remote_shell(job.start.rsh.empty() && allocation ? std::vector{allocation->reached_by}
                                                            : job.start.rsh);
}

// The file that an option names.
std::string file_of(const ToldOption& option, const Environment& environment) {
    const std::string* home = find_variable(environment, "HOME");
    return at_home(option.told.front().texts.back(), home == nullptr ? "" : *home);
}

// What options start besides the program, be they from variables or from the file of --config.
std::vector<std::string> started_by_options(const JobPlan& job, const Environment& environment) {
    std::vector<std::string> words;
    const auto add = [&words](const std::vector<std::string>& more) {
        words.insert(words.end(), more.begin(), more.end());
    };
    for (const Wrap& wrap : job.wraps) add(wrap.words);
    for (const RankCommand& one : job.rank_programs) add(one.words);
    for (const auto& [name, value] : job.variables) add({name + "=" + value});
    for (const RankVariable& one : job.rank_variables) add({one.name + "=" + one.value});
    if (job.module && !job.program.empty()) add({"-m", job.program.front()});
    if (const auto& judge = job.features.of<FailureJudgeOptions>().program; !judge.empty()) add({judge});
    if (const std::string* python = find_variable(environment, "PYTHON_EXEC")) add({*python});
    // Each agent reads its own host's file of this name, be it named by a variable.
    for (const ToldOption& option : job.told) {
        if (option.name == "--config") add({file_of(option, environment)});
    }
    return words;
}

}  // namespace

StarterFacts find_starter_facts(const JobPlan& job, const std::string& secret) {
    StarterFacts facts;
    facts.environment = current_environment();
    std::error_code unknown;
    facts.directory = std::filesystem::current_path(unknown).string();
    if (unknown) throw UsageError("the working directory is not there any more: " + unknown.message());
    facts.python = own_python();
    StartPlan named{.directory = facts.directory,
                    .clean_environment = job.clean_environment,
                    .options = job.start.option_words,
                    .program = job.start.program_words,
                    .started = started_by_options(job, facts.environment),
                    .python = facts.python};
    if (!named.clean_environment) named.environment = carried_environment(facts.environment);
    facts.launcher_owners = owners_of(own_program());
    facts.owners = owners_here(code_files(named, facts.environment));
    facts.host_name = host_name();
    // Of several tasks only one has the terminal, as by srun --pty.
    if (::isatty(STDIN_FILENO) == 0)
        facts.one_of_several = one_of_several(
            derive_cluster(find_cluster_view(facts.environment), {.scheduler = job.scheduler}));
    facts.hangup_ignored = is_ignored(SIGHUP);
    const SitePolicy policy = agreed_policy(job);
    facts.seals_store = wants_sealed_store(policy, has_given_secret(policy, secret));
    facts.shells = policy.shells;
    for (const LocalAddress& own : local_addresses()) facts.addresses.insert(own.address);
    const std::string* path = find_variable(facts.environment, "PATH");
    const std::string program = job.program.empty() ? "" : job.program.front();
    const std::string& hosts = job.start.hosts;
    const bool is_alike = hosts.find_first_of(",[") == hosts.npos &&
                          (hosts.find(':') == hosts.npos) == (program.find(':') == program.npos);
    facts.may_be_host =
        !hosts.empty() && is_alike && program.find_first_of("./") == program.npos &&
        !runs_python({program}) && !std::filesystem::exists(program, unknown) &&
        find_executable(program, path == nullptr ? std::nullopt : std::optional(*path)).empty();
    for (const ToldOption& option : job.told) {
        if (option.name != "--config" && option.name != "--rank-order") continue;
        const std::string file = file_of(option, facts.environment);
        if (!std::filesystem::is_fifo(file, unknown) && !descriptor_named(file)) continue;
        if (const auto text = job.files.read(file, kMaxRankOrderFile))
            facts.read_options[option.name] = *text;
    }
    if (job.start.host_file.empty()) return facts;
    const auto text = job.files.read(job.start.host_file, kMaxHostListText);
    if (!text)
        throw UsageError(as_said(job, fmt::format("--hostfile {}: {}", job.start.host_file,
                                                  why_untold(text.error(), kMaxHostListText))));
    facts.host_file_text = edited_text(*text);
    return facts;
}

StarterOptions resolve_start(const JobPlan& job, const StarterFacts& facts) {
    refuse(job, clash_with_hosts(job, hosts_flag(job)));
    check_alone(job, facts);
    StarterOptions options;
    StartPlan& plan = options.plan;
    plan.nodes = nodes_of(job, facts);
    const int nodes = static_cast<int>(plan.nodes.size());
    plan.fan_out = job.start.fan_out;
    plan.directory = facts.directory;
    plan.python = facts.python;
    plan.launcher_owners = facts.launcher_owners;
    plan.owners = facts.owners;
    plan.clean_environment = job.clean_environment;
    if (!plan.clean_environment) plan.environment = carried_environment(facts.environment);
    plan.options = option_words_of(job);
    // The key is the starter's, which is nobody's word on that.
    if (facts.seals_store && job.store_access == StoreAccess::automatic && nodes > 1)
        plan.options.emplace_back("--store=door");
    plan.program = job.start.program_words;
    plan.started = started_by_options(job, facts.environment);
    plan.read_options = facts.read_options;
    if (job.read_program) plan.read_program = *job.read_program;
    plan.nnodes = nnodes_of(job, nodes);
    for (const StartNode& node : plan.nodes) plan.host_names.push_back(host_of(node.target));
    plan.master_addr = master_of(job, plan.nodes);
    plan.master_port = job.master_port.value_or(0);
    if (nodes > 1 && job.auth != Auth::off) plan.secret = make_secret_text();
    plan.rsh = remote_shell_of(job);
    const bool is_reached = !std::ranges::all_of(plan.nodes, &StartNode::is_here);
    if (is_reached && !facts.shells.empty() &&
        std::ranges::find(facts.shells, plan.rsh.front()) == facts.shells.end())
        throw UsageError(fmt::format("--rsh {}: {} says rsh = {}", plan.rsh.front(), kSiteFile,
                                     boost::algorithm::join(facts.shells, ",")));
    plan.own_gpus = is_schedulers(plan.rsh);
    plan.ships = !job.start.no_ship;
    options.terms = {
        .nodes = nodes,
        .least = job.elasticity.min_nodes.value_or(nodes),
        .may_outlive_0 = job.failover && (job.elasticity.is_elastic() || job.restarts.max_restarts > 0)};
    options.ending_signals = job.terminating_signals;
    // It stays so, here and there.
    if (facts.hangup_ignored) std::erase(options.ending_signals, SIGHUP);
    for (const auto& [received, sent] : job.forwarded_signals) options.forwarded_signals.push_back(received);
    options.grace_period = job.grace_period;
    return options;
}

std::string hosts_flag(const JobPlan& job) {
    if (job.part.allocation) return fmt::format("the start on all hosts of {}", job.part.allocation->source);
    return job.start.hosts.empty() ? "--hostfile" : "--hosts";
}

std::string start_line(const JobPlan& job, const StarterOptions& options) {
    if (!job.part.allocation) return "";
    const std::size_t all = job.part.allocation->hosts.size();
    const std::size_t nodes = options.plan.nodes.size();
    return fmt::format("{}{} nodes by {}, agents started by {}", nodes,
                       nodes == all ? "" : fmt::format(" of {}", all), job.part.allocation->source,
                       shell_name(options.plan.rsh));
}

}  // namespace app
}  // namespace ddprun
