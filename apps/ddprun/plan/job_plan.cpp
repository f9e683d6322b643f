#include "apps/ddprun/plan/job_plan.hpp"

#include <fmt/core.h>

#include <tuple>
#include <utility>

#include "launcher/cluster/cluster_lines.hpp"
#include "launcher/features/event_log.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/path_template.hpp"
#include "rendezvous/control/control_message.hpp"

namespace ddprun {
inline namespace app {
namespace {

// Returns what the environment claims; nothing where the user has said it, or neither does.
const Claim* claim_of_environment(const ClusterTable& table, Fact fact) {
    const Claim* claim = chosen(table, fact);
    return claim != nullptr && claim->belief > Belief::config_file ? claim : nullptr;
}

// Returns which sign has decided the value of an option that is not set.
std::map<std::string, std::string> signs_of(const JobPlan& job) {
    const std::tuple<Fact, const char*, std::string> decided[] = {
        {Fact::nnodes, "--nnodes", std::to_string(job.nnodes)},
        {Fact::node_rank, "--node-rank", std::to_string(job.node_rank)},
        {Fact::workers, "--nproc-per-node", workers_text(job.nproc_per_node)},
        {Fact::master_addr, "--master-addr", job.master_addr.value_or(LaunchOptions().master.host)},
        {Fact::master_port, "--master-port", job.master_port ? std::to_string(*job.master_port) : ""}};
    std::map<std::string, std::string> signs;
    for (const auto& [fact, option, value] : decided) {
        const Claim* claim = claim_of_environment(job.table, fact);
        if (claim != nullptr && claim->value == value) signs[option] = claim->source;
    }
    if (std::holds_alternative<ForEachGpu>(job.nproc_per_node))
        signs["--nproc-per-node"] = workers_text(job.nproc_per_node);
    const Claim* id = claim_of_environment(job.table, Fact::job_id);
    if (job.part.is_derived && id != nullptr) signs["--rdzv-id"] = id->source;
    return signs;
}

// Returns what has said where node 0 is; empty: the command line.
std::string master_source_of(const JobPlan& job) {
    const auto sign = job.decided_by.find("--master-addr");
    std::string source = sign == job.decided_by.end() ? "" : sign->second;
    for (const char* option : {"--master-addr", "--rdzv-endpoint"}) {
        if (const auto said = job.origins.find(option); said != job.origins.end()) source = said->second.name;
    }
    return source;
}

// A selection without hosts would be passed over without a word.
void refuse_selection(const Said& said) {
    for (const auto& [flag, value] :
         {std::pair{"--include", &said.start.include}, {"--exclude", &said.start.exclude}}) {
        if (!value->empty())
            throw UsageError(
                as_said(said, fmt::format("{} {}: no hosts are named here; give --hosts or --hostfile", flag,
                                          harmless_line(*value))));
    }
}

// Fills in %r in the paths, now that the number of the node is as it will be.
void fill_node_rank(JobPlan& job) {
    const std::pair<const char*, std::string&> paths[] = {
        {"--log-dir", job.output.log_dir},
        {"--log-file", job.log_file},
        {"--events", job.features.of<EventLogOptions>().path},
        {"--result-file", job.result_file}};
    for (const auto& [flag, path] : paths) {
        if (job.detach && path.starts_with("/run/user/"))
            job.remarks.push_back(
                fmt::format("{} {}: goes away with your last session, which the job outlives", flag, path));
        if (!names_node_rank(path)) continue;
        if (job.node_rank == kUnnumbered)
            throw UsageError(as_said(
                job,
                fmt::format("{} {}: %r, the number of this node, is known only once it has joined; %h tells "
                            "nodes apart, or give --node-rank",
                            flag, path)));
        path = with_node_rank(path, job.node_rank);
    }
}

}  // namespace

JobPlan::JobPlan(const Said& said, JobPart added) : Said(said), part(std::move(added)) {
    nnodes = part.nnodes.value_or(nnodes);
    node_rank = part.node_rank.value_or(node_rank);
    nproc_per_node = part.workers.value_or(nproc_per_node);
    run_id = part.run_id.value_or(run_id);
    if (part.master_port) master_port = part.master_port;
    if (part.master_addr) {
        master_addr = part.master_addr;
        address_assumed = false;
    }
    listen_any = listen_any || part.listen_any;
    if (!starter || node_rank == 0) return;
    // Node 0 says what all would say alike.
    result_file.clear();
    if (verbosity == Verbosity::usual) verbosity = Verbosity::troubles;
}

JobPlan plan_job(const Said& said, ClusterTable table) {
    if (said.start.is_asked()) return JobPlan(said);
    if (!table.refusal.empty()) {
        const Claim* nodes = said.origins.contains("--nnodes") ? chosen(table, Fact::nnodes) : nullptr;
        const bool is_told = nodes == nullptr || table.refusal.starts_with(nodes->value + " nodes by ");
        throw UsageError(table.refusal + (is_told ? "" : rivals_text(table, Fact::nnodes)));
    }
    if (table.started_by.empty()) refuse_selection(said);
    JobPlan job(said, said.starter ? part_of_starter(said) : part_of_cluster(said, table));
    job.table = std::move(table);
    if (job.part.allocation) return job;
    job.decided_by = signs_of(job);
    job.master_source = master_source_of(job);
    if (const std::string wrong = node_rank_complaint(job); !wrong.empty())
        throw UsageError(as_said(job, wrong));
    fill_node_rank(job);
    return job;
}

JobPlan plan_job(const Said& said, const ClusterView& view) { return plan_job(said, table_of(said, view)); }

std::string as_said(const JobPlan& job, const std::string& message) {
    const auto sign = job.decided_by.find(message.substr(0, message.find_first_of(" :=")));
    const bool is_counted =
        std::holds_alternative<ForEachGpu>(job.nproc_per_node) && message.starts_with("--nproc-per-node");
    if (sign != job.decided_by.end() && !is_counted)
        return with_place(message, {OptionSource::variable, sign->second});
    return as_said(static_cast<const Said&>(job), message);
}

}  // namespace app
}  // namespace ddprun
