#include "apps/ddprun/plan/cluster_plan.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "apps/ddprun/options/option_values.hpp"
#include "launcher/cluster/cluster_lines.hpp"
#include "launcher/harmless_text.hpp"
#include "rendezvous/control/job_command.hpp"

namespace ddprun {
inline namespace app {
namespace {

constexpr std::size_t kMaxDerivedId = 128;

void add_said(const CommandLine& line, ClusterRequest& request, Fact fact, const char* flag,
              const std::string& value) {
    const auto origin = line.origins.find(flag);
    if (origin == line.origins.end()) return;
    const std::string source = origin->second.name.empty() ? flag : origin->second.name;
    request.said.push_back({fact, {value, source, belief_of(origin->second)}});
}

ClusterRequest request_of(const CommandLine& line) {
    ClusterRequest request{.scheduler = line.scheduler,
                           .least = line.elasticity.min_nodes.value_or(line.nnodes),
                           .one_node = line.nodes_said && line.nnodes == 1,
                           .numbered = line.rdzv_backend == RdzvBackend::fixed,
                           .adapts_tasks = line.adapt,
                           .derived_ports = line.port_range.value_or(kDerivedPortRange)};
    add_said(line, request, Fact::nnodes, "--nnodes", std::to_string(line.nnodes));
    add_said(line, request, Fact::node_rank, "--node-rank", std::to_string(line.node_rank));
    add_said(line, request, Fact::workers, "--nproc-per-node", workers_text(line.nproc_per_node));
    if (line.run_id != "none") add_said(line, request, Fact::job_id, "--rdzv-id", line.run_id);
    for (const char* flag : {"--master-addr", "--rdzv-endpoint"}) {
        if (line.master_addr) add_said(line, request, Fact::master_addr, flag, *line.master_addr);
    }
    for (const char* flag : {"--master-port", "--rdzv-endpoint"}) {
        if (line.master_port)
            add_said(line, request, Fact::master_port, flag, std::to_string(*line.master_port));
    }
    return request;
}

// Reads the claim's value by an option's own grammar; nothing where the user has said it, or nobody has.
template <class Value>
std::optional<Value> derived(const ClusterTable& table, Fact fact, const Grammar<Value>& grammar) {
    const Claim* claim = chosen(table, fact);
    if (claim == nullptr || claim->belief <= Belief::config_file) return std::nullopt;
    try {
        return grammar(claim->value);
    } catch (const BadValue& bad) {
        throw UsageError(fmt::format("{}={}: {}", claim->source, harmless_line(claim->value), bad.what()));
    }
}

// Makes an id that fits every place where the user's own would stand.
std::string run_id_of(const std::string& job_id) {
    std::string id = job_id;
    const auto is_plain = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
               c == '-' || c == '_';
    };
    std::replace_if(
        id.begin(), id.end(), [&](char c) { return !is_plain(c); }, '-');
    if (id.size() <= kMaxDerivedId) return id;
    Digest digest;
    digest.add(job_id);
    return fmt::format("{}-{:016x}", id.substr(0, kMaxDerivedId - 17), digest.value());
}

// Notes which sign has decided the value of an option that nobody has set.
void note_signs(ClusterPlan& plan) {
    CommandLine& line = plan.line;
    const std::tuple<Fact, const char*, std::string> decided[] = {
        {Fact::nnodes, "--nnodes", std::to_string(line.nnodes)},
        {Fact::node_rank, "--node-rank", std::to_string(line.node_rank)},
        {Fact::workers, "--nproc-per-node", workers_text(line.nproc_per_node)},
        {Fact::master_addr, "--master-addr", line.master_addr.value_or(line.master.host)},
        {Fact::master_port, "--master-port", line.master_port ? std::to_string(*line.master_port) : ""}};
    const auto told_by_environment = [&plan](Fact fact) {
        const Claim* claim = chosen(plan.table, fact);
        return claim != nullptr && claim->belief > Belief::config_file ? claim : nullptr;
    };
    for (const auto& [fact, option, value] : decided) {
        const Claim* claim = told_by_environment(fact);
        if (claim != nullptr && claim->value == value) line.decided_by[option] = claim->source;
    }
    if (const auto sign = line.decided_by.find("--master-addr"); sign != line.decided_by.end())
        line.master_source = sign->second;
    for (const char* option : {"--master-addr", "--rdzv-endpoint"}) {
        if (const auto said = line.origins.find(option); said != line.origins.end())
            line.master_source = said->second.name;
    }
    if (std::holds_alternative<ForEachGpu>(line.nproc_per_node))
        line.decided_by["--nproc-per-node"] = workers_text(line.nproc_per_node);
    const Claim* id = told_by_environment(Fact::job_id);
    if (plan.is_derived && id != nullptr) line.decided_by["--rdzv-id"] = id->source;
}

void refuse_unnumbered(const CommandLine& line, const ClusterTable& table) {
    throw UsageError(fmt::format("--rdzv-backend {}: needs --nnodes, which {} says is {}",
                                 backend_name(line.rdzv_backend), chosen(table, Fact::nnodes)->source,
                                 chosen(table, Fact::nnodes)->value));
}

// True where something was taken over.
bool take_nodes(CommandLine& line, const ClusterTable& table) {
    const auto nodes = derived<NodeCount>(table, Fact::nnodes, parse_nnodes);
    const int count = nodes ? nodes->most : line.nnodes;
    if (count == 1) return false;
    if (nodes && line.rdzv_backend != RdzvBackend::fixed) refuse_unnumbered(line, table);
    if (line.rdzv_backend != RdzvBackend::fixed) return false;
    line.nnodes = count;
    const auto rank = derived<int>(table, Fact::node_rank, number(0, kMaxNodes));
    if (rank) line.node_rank = *rank;
    // Errors then name who is missing.
    if (rank && table.hosts.size() == static_cast<std::size_t>(count))
        line.host_list = {.hosts = names_of(table.hosts)};
    line.shares_screen = rank && chosen(table, Fact::node_rank)->belief == Belief::task_launcher;
    const auto address = derived<std::string>(table, Fact::master_addr, parse_master_addr);
    if (address) {
        line.master_addr = *address;
        line.address_assumed = false;
        if (table.many_addresses) line.listen_any = true;
    }
    if (!nodes && !rank && !address) return false;
    if (address && !line.master_port) {
        line.master_port = derived_port(table);
        line.port_derived = line.master_port && chosen(table, Fact::master_port)->belief == Belief::assumed;
    }
    if (const auto id = derived<std::string>(table, Fact::job_id, any_text)) line.run_id = run_id_of(*id);
    if (line.master_port == std::uint16_t{0})
        throw UsageError(fmt::format(
            "--master-port 0: the {} nodes must agree on a port; 0 is for one node only", line.nnodes));
    return true;
}

// torchrun's way is one worker.
bool are_workers_said(const CommandLine& line) {
    return line.origins.contains("--nproc-per-node") || !line.further_programs.empty() ||
           line.like_torchrun || !line.legacy_launch.empty();
}

// The agents find out themselves what they have not been told.
void take_start(CommandLine& line, const ClusterTable& table) {
    StartRequest::Allocation allocation{.hosts = table.hosts,
                                        .source = table.hosts_source,
                                        .reached_by = table.started_by,
                                        .by_gpus = !are_workers_said(line)};
    if (!table.is_outside) allocation.own_place = derived<int>(table, Fact::node_rank, number(0, kMaxNodes));
    if (const auto id = derived<std::string>(table, Fact::job_id, any_text))
        allocation.run_id = run_id_of(*id);
    line.start.allocation = std::move(allocation);
}

// Returns the first of the claims that are a scheduler's own.
std::string told_gpus_by(const ClusterTable& table) {
    const auto told = table.facts.find(Fact::workers);
    if (told == table.facts.end()) return "";
    std::vector<Claim> claims = told->second.rivals;
    if (told->second.chosen) claims.insert(claims.begin(), *told->second.chosen);
    for (const Claim& claim : claims) {
        if (claim.belief > Belief::config_file && claim.belief != Belief::bare) return claim.source;
    }
    return "";
}

// A selection without hosts would be passed over without a word.
void refuse_selection(const CommandLine& line) {
    for (const auto& [flag, value] :
         {std::pair{"--include", &line.start.include}, {"--exclude", &line.start.exclude}}) {
        if (!value->empty())
            throw UsageError(
                as_said(line, fmt::format("{} {}: no hosts are named here; give --hosts or --hostfile", flag,
                                          harmless_line(*value))));
    }
}

// Each GPU that a scheduler gives the job here gets a worker.
void take_workers(CommandLine& line, const ClusterTable& table) {
    if (are_workers_said(line) || table.family.empty()) return;
    const Claim* told = chosen(table, Fact::workers);
    if (told != nullptr && told->belief == Belief::bare)
        line.nproc_per_node = *derived<WorkerCount>(table, Fact::workers, parse_nproc);
    else
        line.nproc_per_node = ForEachGpu{};
}

bool is_of_bare_variables(const ClusterTable& table) {
    const auto all = families();
    return std::any_of(all.begin(), all.end(), [&table](const launch::Family& family) {
        return family.belief == Belief::bare && family.title == table.family;
    });
}

}  // namespace

Belief belief_of(const OptionOrigin& origin) {
    if (origin.source == OptionSource::command_line) return Belief::command_line;
    if (origin.source == OptionSource::config_file) return Belief::config_file;
    return origin.name.starts_with("PET_") ? Belief::torchrun_variable : Belief::own_variable;
}

std::optional<std::uint16_t> derived_port(const ClusterTable& table) {
    const auto port = derived<int>(table, Fact::master_port, number(1, 65535));
    return port ? std::optional(static_cast<std::uint16_t>(*port)) : std::nullopt;
}

ClusterTable table_of(const CommandLine& line, const ClusterView& view) {
    const ClusterRequest request = request_of(line);
    ClusterTable table = derive_cluster(view, request);
    if (!line.like_torchrun || table.refusal.empty() || !is_of_bare_variables(table)) return table;
    // torchrun reads none of them: what cannot be a job by them is one without them.
    ClusterView rest = view;
    for (const char* name : {"WORLD_SIZE", "RANK", "NODE_RANK"}) rest.environment.erase(name);
    return derive_cluster(rest, request);
}

ClusterPlan plan_cluster(CommandLine line, ClusterTable table) {
    if (!table.refusal.empty()) {
        const Claim* said = line.origins.contains("--nnodes") ? chosen(table, Fact::nnodes) : nullptr;
        const bool is_told = said == nullptr || table.refusal.starts_with(said->value + " nodes by ");
        throw UsageError(table.refusal + (is_told ? "" : rivals_text(table, Fact::nnodes)));
    }
    ClusterPlan plan{.line = std::move(line), .table = std::move(table), .is_derived = false};
    if (!plan.table.started_by.empty()) {
        take_start(plan.line, plan.table);
        return plan;
    }
    refuse_selection(plan.line);
    if (!plan.line.adapt) {
        plan.is_derived = take_nodes(plan.line, plan.table);
        take_workers(plan.line, plan.table);
        plan.line.gpus_told_by = told_gpus_by(plan.table);
    }
    note_signs(plan);
    check_node_rank(plan.line);
    fill_node_rank(plan.line);
    return plan;
}

ClusterPlan plan_cluster(CommandLine line, const ClusterView& view) {
    ClusterTable table = table_of(line, view);
    return plan_cluster(std::move(line), std::move(table));
}

}  // namespace app
}  // namespace ddprun
