#include "apps/cli/print.hpp"
#include "apps/ddprun/explain/explanation.hpp"
#include "apps/ddprun/modes/mode.hpp"
#include "apps/ddprun/options/parse_command_line.hpp"
#include "apps/ddprun/plan/adapted_task.hpp"
#include "apps/ddprun/plan/cluster_plan.hpp"
#include "apps/ddprun/plan/job_start.hpp"
#include "apps/ddprun/plan/launch_plan.hpp"
#include "apps/ddprun/plan/node_facts.hpp"
#include "rendezvous/system/machine.hpp"

namespace ddprun::inline app {
namespace {

// Under --adapt this process becomes the one worker.
void add_task(Explanation& explanation, const ClusterPlan& plan, const std::string& called) {
    const AdaptedTask task = find_adapted_task(plan, called);
    explanation.workers.push_back({.local_rank = task.local_rank,
                                   .rank = task.rank,
                                   .place = {},
                                   .cpus = {},
                                   .memory_node = -1,
                                   .command = task.argv,
                                   .changes = changes_between(current_environment(), task.environment)});
}

void add_launch(Explanation& explanation, const ClusterPlan& plan, const std::string& called) {
    if (plan.line.adapt) return add_task(explanation, plan, called);
    const NodeFacts facts = find_node_facts(plan.line, called);
    const CommandLine options = resolve_launch(plan.line, facts);
    explanation.values = launch_values(options, facts);
    explanation.workers = explained_workers(options, current_environment(), explanation.host);
    std::vector<std::vector<EnvironmentChange>*> lists;
    for (ExplainedWorker& worker : explanation.workers) lists.push_back(&worker.changes);
    explanation.changes = take_common(lists);
    if (!options.host_list.complaint.empty()) explanation.remarks.push_back(options.host_list.complaint);
    explanation.remarks.insert(explanation.remarks.end(), options.placement_remarks.begin(),
                               options.placement_remarks.end());
}

// Nothing that a scheduler tells counts where the user names hosts.
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

bool claims_explain(Call& call) { return call.line().explain; }

// Where there is no job, what is known is printed before UsageError says why.
int run_explain_mode(Call& call) {
    const CommandLine& said = call.line();
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
        add_plan(explanation, said, call.called(), call.secret());
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
