#include "apps/ddprun/explain/explain.hpp"

#include "apps/cli/print.hpp"
#include "apps/ddprun/adapted_task.hpp"
#include "apps/ddprun/cluster_facts.hpp"
#include "apps/ddprun/cluster_plan.hpp"
#include "apps/ddprun/explain/dry_run.hpp"
#include "apps/ddprun/explain/explanation.hpp"
#include "apps/ddprun/launch_plan.hpp"
#include "rendezvous/net/local_addresses.hpp"

namespace ddprun::inline app {
namespace {

// With --adapt this process becomes the one worker.
void add_task(Explanation& explanation, const ClusterPlan& plan, const std::string& called) {
    const Environment variables = task_variables(plan);
    const CommandLine line = adapted_line(plan, variables);
    const LaunchOptions options = resolve_launch(line, find_node_facts(line, called));
    Environment environment = options.environment;
    for (const auto& [name, value] : variables) environment[name] = value;
    const int local_rank = local_rank_of(variables);
    explanation.workers.push_back({.local_rank = local_rank,
                                   .rank = std::stoi(variables.at("RANK")),
                                   .place = {},
                                   .cpus = {},
                                   .memory_node = -1,
                                   .command = options.workers.at(static_cast<std::size_t>(local_rank)).argv,
                                   .changes = changes_between(current_environment(), environment)});
}

void add_launch(Explanation& explanation, const ClusterPlan& plan, const std::string& called) {
    if (plan.line.adapt) return add_task(explanation, plan, called);
    const NodeFacts facts = find_node_facts(plan.line, called);
    const LaunchOptions options = resolve_launch(plan.line, facts);
    explanation.values = launch_values(plan, facts, options);
    explanation.workers = explained_workers(options, current_environment(), explanation.host);
    std::vector<std::vector<EnvironmentChange>*> lists;
    for (ExplainedWorker& worker : explanation.workers) lists.push_back(&worker.changes);
    explanation.changes = take_common(lists);
    if (!options.host_list.complaint.empty()) explanation.remarks.push_back(options.host_list.complaint);
    explanation.remarks.insert(explanation.remarks.end(), options.placement_remarks.begin(),
                               options.placement_remarks.end());
}

// With --hosts nothing that is around counts.
ClusterTable table_for(const CommandLine& said) {
    CommandLine line = said;
    if (said.start.is_asked()) line.scheduler = "none";
    ClusterTable table = table_of(line, find_cluster_view(current_environment()));
    if (said.start.is_asked()) forget_one_node(table);
    return table;
}

void add_plan(Explanation& explanation, const CommandLine& said, const std::string& called,
              const std::string& secret) {
    const ClusterPlan plan = said.start.is_asked()
                                 ? ClusterPlan{.line = said, .table = {}, .is_derived = false}
                                 : plan_cluster(said, explanation.table);
    if (!plan.line.start.is_asked()) return add_launch(explanation, plan, called);
    const StarterOptions options = resolve_start(plan.line, find_starter_facts(plan.line, secret));
    explanation.start = explained_start(plan.line, options);
    if (said.start.is_asked()) tell_hosts(explanation.table, plan.line, options);
}

}  // namespace

int explain_launch(const CommandLine& said, const std::string& called, const std::string& secret) {
    Explanation explanation{.host = host_name(),
                            .table = table_for(said),
                            .options = said.told,
                            .values = {},
                            .changes = {},
                            .workers = {},
                            .start = {},
                            .remarks = said.remarks,
                            .refusal = {}};
    const auto& complaints = said.rdzv_conf.complaints;
    explanation.remarks.insert(explanation.remarks.end(), complaints.begin(), complaints.end());
    try {
        add_plan(explanation, said, called, secret);
    } catch (const UsageError& error) {
        explanation.refusal = as_said(said, error.what());
    }
    print(said.json ? explanation_json(explanation) : explanation_text(explanation));
    if (!explanation.refusal.empty()) throw UsageError(explanation.refusal);
    return 0;
}

int show_dry_run(const LaunchOptions& options, bool as_json) {
    print(as_json ? workers_json(explained_workers(options, current_environment(), host_name()))
                  : dry_run_text(options, host_name()));
    return 0;
}

int show_start(const CommandLine& line, const StarterOptions& options) {
    const ExplainedStart start = explained_start(line, options);
    print(line.json ? start_json(start) : start_text(start));
    return 0;
}

}  // namespace ddprun::inline app
