#include "apps/ddprun/plan/job_part.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "apps/ddprun/options/option_values.hpp"
#include "launcher/harmless_text.hpp"
#include "rendezvous/control/job_command.hpp"

namespace ddprun {
inline namespace app {
namespace {

constexpr std::size_t kMaxDerivedId = 128;

void add_said(const Said& said, ClusterRequest& request, Fact fact, const char* flag,
              const std::string& value) {
    const auto origin = said.origins.find(flag);
    if (origin == said.origins.end()) return;
    const std::string source = origin->second.name.empty() ? flag : origin->second.name;
    request.said.push_back({fact, {value, source, belief_of(origin->second)}});
}

ClusterRequest request_of(const Said& said) {
    ClusterRequest request{.scheduler = said.start.is_asked() ? "none" : said.scheduler,
                           .least = said.elasticity.min_nodes.value_or(said.nnodes),
                           .one_node = said.nodes_said && said.nnodes == 1,
                           .numbered = said.rdzv_backend == RdzvBackend::fixed,
                           .adapts_tasks = said.adapt,
                           .derived_ports = said.port_range.value_or(kDerivedPortRange)};
    add_said(said, request, Fact::nnodes, "--nnodes", std::to_string(said.nnodes));
    add_said(said, request, Fact::node_rank, "--node-rank", std::to_string(said.node_rank));
    add_said(said, request, Fact::workers, "--nproc-per-node", workers_text(said.nproc_per_node));
    if (said.run_id != "none") add_said(said, request, Fact::job_id, "--rdzv-id", said.run_id);
    for (const char* flag : {"--master-addr", "--rdzv-endpoint"}) {
        if (said.master_addr) add_said(said, request, Fact::master_addr, flag, *said.master_addr);
    }
    for (const char* flag : {"--master-port", "--rdzv-endpoint"}) {
        if (said.master_port)
            add_said(said, request, Fact::master_port, flag, std::to_string(*said.master_port));
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

void refuse_unnumbered(const Said& said, const ClusterTable& table) {
    throw UsageError(fmt::format("--rdzv-backend {}: needs --nnodes, which {} says is {}",
                                 backend_name(said.rdzv_backend), chosen(table, Fact::nnodes)->source,
                                 chosen(table, Fact::nnodes)->value));
}

void add_nodes(const Said& said, const ClusterTable& table, JobPart& part) {
    const auto nodes = derived<NodeCount>(table, Fact::nnodes, parse_nnodes);
    const int count = nodes ? nodes->most : said.nnodes;
    if (count == 1) return;
    if (nodes && said.rdzv_backend != RdzvBackend::fixed) refuse_unnumbered(said, table);
    if (said.rdzv_backend != RdzvBackend::fixed) return;
    part.nnodes = count;
    part.node_rank = derived<int>(table, Fact::node_rank, number(0, kMaxNodes));
    // Errors then name who is missing.
    if (part.node_rank && table.hosts.size() == static_cast<std::size_t>(count))
        part.host_list = {.hosts = names_of(table.hosts)};
    part.shares_screen = part.node_rank && chosen(table, Fact::node_rank)->belief == Belief::task_launcher;
    part.master_addr = derived<std::string>(table, Fact::master_addr, parse_master_addr);
    part.listen_any = part.master_addr && table.many_addresses;
    part.is_derived = nodes || part.node_rank || part.master_addr;
    if (!part.is_derived) return;
    if (part.master_addr && !said.master_port) {
        part.master_port = derived_port(table);
        part.port_derived = part.master_port && chosen(table, Fact::master_port)->belief == Belief::assumed;
    }
    if (const auto id = derived<std::string>(table, Fact::job_id, any_text)) part.run_id = run_id_of(*id);
    if (said.master_port == std::uint16_t{0})
        throw UsageError(
            fmt::format("--master-port 0: the {} nodes must agree on a port; 0 is for one node only", count));
}

// torchrun's way is one worker.
bool are_workers_said(const Said& said) {
    return said.origins.contains("--nproc-per-node") || !said.further_programs.empty() ||
           said.like_torchrun || !said.legacy_launch.empty();
}

// The agents find out themselves what they have not been told.
Allocation allocation_of(const Said& said, const ClusterTable& table) {
    Allocation allocation{.hosts = table.hosts,
                          .source = table.hosts_source,
                          .reached_by = table.started_by,
                          .by_gpus = !are_workers_said(said)};
    if (!table.is_outside) allocation.own_place = derived<int>(table, Fact::node_rank, number(0, kMaxNodes));
    if (const auto id = derived<std::string>(table, Fact::job_id, any_text))
        allocation.run_id = run_id_of(*id);
    return allocation;
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

// Each GPU that a scheduler gives the job here gets a worker.
std::optional<WorkerCount> told_workers(const Said& said, const ClusterTable& table) {
    if (are_workers_said(said) || table.family.empty()) return std::nullopt;
    const Claim* told = chosen(table, Fact::workers);
    const bool is_number = told != nullptr && told->belief == Belief::bare;
    if (is_number) return derived<WorkerCount>(table, Fact::workers, parse_nproc);
    return ForEachGpu{};
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

ClusterTable table_of(const Said& said, const ClusterView& view) {
    const ClusterRequest request = request_of(said);
    ClusterTable table = derive_cluster(view, request);
    if (!said.like_torchrun || table.refusal.empty() || !is_of_bare_variables(table)) return table;
    // torchrun reads none of them: what cannot be a job by them is one without them.
    ClusterView rest = view;
    for (const char* name : {"WORLD_SIZE", "RANK", "NODE_RANK"}) rest.environment.erase(name);
    return derive_cluster(rest, request);
}

JobPart part_of_cluster(const Said& said, const ClusterTable& table) {
    JobPart part;
    if (!table.started_by.empty()) {
        part.allocation = allocation_of(said, table);
    } else if (!said.adapt) {
        add_nodes(said, table, part);
        part.workers = told_workers(said, table);
        part.gpus_told_by = told_gpus_by(table);
    }
    return part;
}

JobPart part_of_starter(const Said& said) {
    JobPart part;
    const auto& [slots, hosts, python] = *said.starter;
    if (hosts.size() == static_cast<std::size_t>(said.nnodes)) part.host_list.hosts = hosts;
    if (slots > 0) part.workers = ForEachGpu{slots};
    if (said.node_rank == 0 && !said.master_port) part.master_port = 0;
    return part;
}

}  // namespace app
}  // namespace ddprun
