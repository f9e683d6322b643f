#include "apps/ddprun/modes/explanation.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <boost/algorithm/string/join.hpp>
#include <boost/json.hpp>
#include <concepts>
#include <utility>

#include "apps/cli/print.hpp"
#include "apps/ddprun/modes/mode.hpp"
#include "apps/ddprun/options/command_line.hpp"
#include "apps/ddprun/options/job_options.hpp"
#include "apps/ddprun/plan/adapted_task.hpp"
#include "apps/ddprun/plan/launch_plan.hpp"
#include "launcher/agent/worker_placement.hpp"
#include "launcher/cluster/cluster_lines.hpp"
#include "launcher/cluster/cluster_table.hpp"
#include "launcher/cluster/host_list.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/secret_text.hpp"
#include "launcher/start/host_slots.hpp"
#include "launcher/start/remote_shell.hpp"
#include "launcher/start/start_tree.hpp"
#include "rendezvous/codec/json_codec.hpp"
#include "rendezvous/system/machine.hpp"
#include "rendezvous/text/split.hpp"

namespace ddprun {
inline namespace app {

namespace {

ExplainedAgent explained_agent(const StartPlan& plan, const StartNode& node) {
    ExplainedAgent agent{.node = node.rank, .host = node.target, .here = node.is_here, .command = {"ddprun"}};
    if (node.workers != kUnsaidSlots)
        agent.workers = node.workers;
    else if (node.slots > 0)
        agent.slots = node.slots;
    for (std::string& word : masked_words(agent_words(plan, node, plan.master_port)))
        agent.command.push_back(std::move(word));
    return agent;
}

ExplainedStart explained_start(const JobPlan& job, const StarterOptions& options) {
    ExplainedStart start{.decided = start_line(job, options),
                         .shell = shell_words(options.plan.rsh, {.target = "HOST", .line = "LINE"})};
    for (const StartNode& node : options.plan.nodes)
        start.agents.push_back(explained_agent(options.plan, node));
    return start;
}

}  // namespace

void forget_one_node(ClusterTable& table) {
    for (const Fact fact : {Fact::nnodes, Fact::node_rank}) {
        const Claim* claim = chosen(table, fact);
        if (claim != nullptr && claim->belief == Belief::assumed) table.facts.erase(fact);
    }
    table.situation = Situation::agent_per_node;
}

void tell_hosts(ClusterTable& table, const Said& said, const StarterOptions& options) {
    const char* flag = said.start.hosts.empty() ? "--hostfile" : "--hosts";
    const OptionOrigin& origin = said.origins.at(flag);
    Claim claim{"", origin.name.empty() ? flag : origin.name, belief_of(origin)};
    const auto tell = [&](Fact fact, std::string value) {
        if (chosen(table, fact) != nullptr) return;  // The user has said it, too.
        claim.value = std::move(value);
        table.facts[fact].chosen = claim;
    };
    tell(Fact::nnodes, std::to_string(options.plan.nodes.size()));
    tell(Fact::master_addr, options.plan.master_addr);
    for (const StartNode& node : options.plan.nodes)
        table.hosts.push_back({.name = host_of(node.target), .slots = std::max(node.workers, 0)});
    table.hosts_source = claim.source;
    table.started_by = shell_name(options.plan.rsh);
}

namespace {

std::string words_text(const std::vector<std::string>& words) {
    return harmless_line(boost::algorithm::join(masked_words(words), " "));
}

// Writes a line for each host.
std::string start_text(const ExplainedStart& start) {
    std::string text;
    for (const ExplainedAgent& agent : start.agents) {
        text += fmt::format(
            "node {} on {}{}{}: {}\n", agent.node, harmless_line(agent.host), agent.here ? " (here)" : "",
            agent.slots ? fmt::format(", a worker for each GPU, or {} without", *agent.slots) : "",
            harmless_line(boost::algorithm::join(agent.command, " "), kMaxHostListText - 1));
    }
    return text;
}

}  // namespace

std::string dry_run_text(const LaunchOptions& options, const std::string& host) {
    const char* rank = options.nnodes == 1 ? "rank" : "local rank";
    const std::string node = options.node_rank < 0 ? "a node" : fmt::format("node {}", options.node_rank);
    std::string text;
    for (std::size_t i = 0; i < options.workers.size(); ++i) {
        const WorkerPlan& worker = options.workers[i];
        const int number = static_cast<int>(i);
        const auto threads = worker.additions.find("OMP_NUM_THREADS");
        text += fmt::format("{} {} on {} ({}): {}{}; runs {}\n", rank, i, node, host, worker.place,
                            threads == worker.additions.end() ? "" : ", OMP_NUM_THREADS=" + threads->second,
                            words_text(argv_of_worker(options, {number, number, host})));
    }
    return text;
}
namespace {

std::string origin_name(const OptionOrigin& origin) {
    return origin.name.empty() ? "the command line" : harmless_line(origin.name);
}

std::vector<std::string> shown_texts(const std::string& option, const ToldValue& value) {
    std::vector<std::string> shown;
    for (const std::string& text : value.texts) shown.push_back(shown_option_value(option, text));
    return shown;
}

std::string told_text(const std::string& option, const ToldValue& value) {
    const std::string text = words_text(shown_texts(option, value));
    return fmt::format("{}by {}", text.empty() ? "" : text + " ", origin_name(value.origin));
}

void add_line(std::string& text, const std::string& line) { text += "  " + line + "\n"; }

void add_options(std::string& text, const std::vector<ToldOption>& options) {
    if (options.empty()) return;
    text += "Options\n";
    for (const ToldOption& option : options) {
        std::string line = fmt::format("{} {}", option.name, told_text(option.name, option.told.front()));
        for (std::size_t i = 1; i < option.told.size(); ++i) {
            if (option.told[i].texts != option.told.front().texts)
                line += "; not " + told_text(option.name, option.told[i]);
        }
        add_line(text, line);
    }
}

void add_start(std::string& text, const ExplainedStart& start) {
    text += "The start\n";
    if (!start.decided.empty()) add_line(text, harmless_line(start.decided));
    add_line(text, "other hosts: " + words_text(start.shell));
    const std::string lines = start_text(start);
    for (const std::string_view line : split_at(lines, '\n')) {
        if (!line.empty()) add_line(text, std::string(line));
    }
}

void add_worker(std::string& text, const ExplainedWorker& worker) {
    text += worker.rank ? fmt::format("Rank {}\n", *worker.rank)
                        : fmt::format("Local rank {}\n", worker.local_rank);
    add_line(text, "runs: " + words_text(worker.command));
    if (!worker.place.empty()) add_line(text, "on: " + harmless_line(worker.place));
    for (const EnvironmentChange& change : worker.environment) add_line(text, to_text(change));
}

}  // namespace

std::vector<ExplainedWorker> explained_workers(const LaunchOptions& options, const Environment& inherited,
                                               const std::string& host) {
    std::vector<ExplainedWorker> workers;
    for (const WorkerPlan& plan : options.workers) {
        const int local_rank = static_cast<int>(workers.size());
        workers.push_back(
            {.local_rank = local_rank,
             .rank = options.nnodes == 1 ? std::optional(local_rank) : std::nullopt,
             .place = plan.place,
             .cpus = plan.cpus,
             .memory_node = plan.memory_node < 0 ? std::nullopt : std::optional(plan.memory_node),
             .command = masked_words(argv_of_worker(options, {local_rank, local_rank, host})),
             .environment = changes_of_worker(options, inherited, local_rank, host)});
    }
    return workers;
}

std::string explanation_text(const Explanation& explanation) {
    std::string text = fmt::format("What is told here, on {}\n", harmless_line(explanation.host));
    for (const std::string& line : cluster_lines(explanation.table)) add_line(text, line);
    add_options(text, explanation.options);
    if (explanation.start) add_start(text, *explanation.start);
    if (!explanation.values.empty()) text += "The launch\n";
    for (const LaunchValue& value : explanation.values)
        add_line(text, harmless_line(fmt::format("{}: {} ({})", value.name, value.value, value.source)));
    if (!explanation.changes.empty()) text += "Each worker's environment, over the inherited one\n";
    for (const EnvironmentChange& change : explanation.changes) add_line(text, to_text(change));
    for (const ExplainedWorker& worker : explanation.workers) add_worker(text, worker);
    if (!explanation.remarks.empty()) text += "Remarks\n";
    for (const std::string& remark : explanation.remarks) add_line(text, harmless_line(remark));
    // The table's own stands at its end.
    if (explanation.refusal != explanation.table.refusal)
        text += fmt::format("refused: {}\n", harmless_line(explanation.refusal));
    return text;
}

// explanation_json() and what it is made of.
namespace {

namespace json = boost::json;

std::string shown_text(const std::string& text) { return valid_utf8(masked_text(text)); }

// Texts are of users and schedulers. A member is null where it is empty.
struct ExplanationRules : JsonRules {
    static std::string text(const std::string& text, std::size_t) { return shown_text(text); }

    template <class T>
    requires std::same_as<T, std::string> || std::same_as<T, CpuList>
    static void put(json::object& out, std::string_view name, const T& value) {
        out[name] = value.empty() ? json::value(nullptr) : json_of<ExplanationRules>(value);
    }
    template <std::same_as<std::vector<EnvironmentChange>> T>
    static void put(json::object& out, std::string_view name, T changes) {
        for (EnvironmentChange& change : changes) {
            if (change.value) change.value = shown_value(change);
        }
        out[name] = json_of<ExplanationRules>(changes);
    }
};

template <class T>
json::value explained(const T& value) {
    return json_of<ExplanationRules>(value);
}

json::value text_or_null(const std::string& text) {
    return text.empty() ? json::value(nullptr) : json::value(shown_text(text));
}

json::object claim_json(const Claim& claim) {
    return {{"value", shown_text(claim.value)},
            {"source", shown_text(claim.source)},
            {"belief", belief_text(claim.belief)}};
}

json::object fact_json(Fact fact, const DerivedFact& derived) {
    json::object object{{"name", fact_name(fact)}};
    if (derived.chosen) {
        for (const auto& member : claim_json(*derived.chosen)) object.insert(member);
    } else {
        object["value"] = nullptr;
    }
    json::array rivals;
    for (const Claim& rival : derived.rivals) rivals.push_back(claim_json(rival));
    object["rivals"] = std::move(rivals);
    return object;
}

json::object cluster_json(const ClusterTable& table) {
    json::array facts, hosts;
    for (const auto& [fact, derived] : table.facts) facts.push_back(fact_json(fact, derived));
    for (const ListedHost& host : table.hosts) {
        json::object entry{{"name", valid_utf8(host.name)}};
        entry["slots"] = host.slots > 0 ? json::value(host.slots) : json::value(nullptr);
        hosts.push_back(std::move(entry));
    }
    return {{"situation", situation_text(table.situation)},
            {"family", text_or_null(table.family)},
            {"values", std::move(facts)},
            {"hosts", std::move(hosts)},
            {"hosts_source", text_or_null(table.hosts_source)}};
}

json::object told_json(const std::string& option, const ToldValue& value) {
    const auto source_of = [](OptionSource source) {
        switch (source) {
            case OptionSource::command_line: return "command line";
            case OptionSource::variable: return "variable";
            case OptionSource::config_file: return "configuration file";
            case OptionSource::standard: break;
        }
        return "default";
    };
    return {{"values", explained(shown_texts(option, value))},
            {"source", source_of(value.origin.source)},
            {"source_name", text_or_null(value.origin.name)}};
}

json::object option_json(const ToldOption& option) {
    json::object object{{"name", option.name}};
    for (const auto& member : told_json(option.name, option.told.front())) object.insert(member);
    json::array rivals;
    for (std::size_t i = 1; i < option.told.size(); ++i) {
        if (option.told[i].texts != option.told.front().texts)
            rivals.push_back(told_json(option.name, option.told[i]));
    }
    object["rivals"] = std::move(rivals);
    return object;
}

// Writes an array of the hosts, as they are in the object of explanation_json().
std::string start_json(const ExplainedStart& start) {
    return json::serialize(explained(start.agents)) + "\n";
}

}  // namespace

std::string explanation_json(const Explanation& explanation) {
    json::array options;
    for (const ToldOption& option : explanation.options) options.push_back(option_json(option));
    json::object root{{"version", DDPRUN_VERSION},
                      {"host", valid_utf8(explanation.host)},
                      {"cluster", cluster_json(explanation.table)},
                      {"options", std::move(options)},
                      {"start", explained(explanation.start)},
                      {"launch", explained(explanation.values)}};
    ExplanationRules::put(root, "environment", explanation.changes);
    root["workers"] = explained(explanation.workers);
    root["remarks"] = explained(explanation.remarks);
    root["refused"] = text_or_null(explanation.refusal);
    return json::serialize(root) + "\n";
}

std::string workers_json(const std::vector<ExplainedWorker>& workers) {
    return json::serialize(explained(workers)) + "\n";
}

namespace {

// This process becomes the one worker, for --adapt.
void add_task(Explanation& explanation, const JobPlan& job) {
    const AdaptedTask task = find_adapted_task(job);
    explanation.workers.push_back({.local_rank = task.local_rank,
                                   .rank = task.rank,
                                   .command = masked_words(task.argv),
                                   .environment = changes_between(current_environment(), task.environment)});
}

void add_launch(Explanation& explanation, const JobPlan& job) {
    if (job.adapt) return add_task(explanation, job);
    const NodeFacts facts = find_node_facts(job);
    const LaunchOptions options = resolve_launch(job, facts);
    explanation.values = launch_values(job, options, facts);
    explanation.workers = explained_workers(options, current_environment(), explanation.host);
    std::vector<std::vector<EnvironmentChange>*> lists;
    for (ExplainedWorker& worker : explanation.workers) lists.push_back(&worker.environment);
    explanation.changes = take_common(lists);
    if (!options.host_list.complaint.empty()) explanation.remarks.push_back(options.host_list.complaint);
    explanation.remarks.insert(explanation.remarks.end(), options.placement_remarks.begin(),
                               options.placement_remarks.end());
}

// The user's hosts are stronger than whatever a scheduler tells.
ClusterTable table_for(const Said& said) {
    ClusterTable table = table_of(said, find_cluster_view(current_environment()));
    if (said.start.is_asked()) forget_one_node(table);
    return table;
}

void add_plan(Explanation& explanation, const Said& said, const std::string& secret) {
    const JobPlan job = plan_job(said, explanation.table);
    if (!job.starts_hosts()) {
        try {
            return add_launch(explanation, job);
        } catch (const UsageError& error) {
            throw UsageError(as_said(job, error.what()));
        }
    }
    const StarterOptions options = resolve_start(job, find_starter_facts(job, secret));
    explanation.start = explained_start(job, options);
    if (said.start.is_asked()) tell_hosts(explanation.table, said, options);
}

// If there is no job, what is known is printed before UsageError says why.
int run_explain_mode(Call& call) {
    const Said& said = call.line();
    Explanation explanation{
        .host = host_name(), .table = table_for(said), .options = said.told, .remarks = said.remarks};
    const auto& complaints = said.rdzv_conf.complaints;
    explanation.remarks.insert(explanation.remarks.end(), complaints.begin(), complaints.end());
    try {
        add_plan(explanation, said, call.secret());
    } catch (const UsageError& error) {
        explanation.refusal = as_said(said, error.what());
    }
    print(said.json ? explanation_json(explanation) : explanation_text(explanation));
    if (!explanation.refusal.empty()) throw UsageError(explanation.refusal);
    return 0;
}

}  // namespace

extern const Mode kExplainMode{[](Call& call) { return call.line().explain; }, run_explain_mode};

int show_dry_run(const LaunchOptions& options, bool as_json) {
    print(as_json ? workers_json(explained_workers(options, current_environment(), host_name()))
                  : dry_run_text(options, host_name()));
    return 0;
}

int show_start(const JobPlan& job, const StarterOptions& options) {
    const ExplainedStart start = explained_start(job, options);
    print(job.json ? start_json(start) : start_text(start));
    return 0;
}

}  // namespace app
}  // namespace ddprun
