#include "apps/ddprun/explain/explanation.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "apps/ddprun/explain/worker_environment.hpp"
#include "apps/ddprun/options/options.hpp"
#include "launcher/agent/worker_placement.hpp"
#include "launcher/cluster/cluster_text.hpp"
#include "launcher/cluster/host_list.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/start/host_slots.hpp"
#include "launcher/start/remote_shell.hpp"
#include "launcher/start/start_tree.hpp"
#include "rendezvous/system/split.hpp"

namespace ddprun::inline app {

namespace {

// What has decided a value: a sign in the environment, else the first of the options with a say that somebody has set.
std::string source_of(const CommandLine& line, const OptionRow& row, const ShownValue& shown) {
    const auto sign = line.decided_by.find(long_name(row));
    if (sign != line.decided_by.end()) return sign->second;
    for (const std::string& option : comma_separated(shown.by.empty() ? long_name(row) : shown.by)) {
        const auto origin = line.origins.find(option);
        if (origin == line.origins.end()) continue;
        return origin->second.name.empty() ? option : fmt::format("{} ({})", origin->second.name, option);
    }
    return "default";
}

// What no option decides alone.
void add_machine(const CommandLine& line, const NodeFacts& facts, std::vector<LaunchValue>& values) {
    const NodeDevices& devices = facts.hardware.devices;
    std::string names;
    for (const VisibleGpu& gpu : devices.gpus) names += (names.empty() ? ": " : ",") + gpu.name;
    values.push_back({"GPUs", fmt::format("{}{}", devices.count, names), devices.source});
    if (devices.count > 0 && !line.workers.empty()) {
        const bool by_kind = line.gpu_bind == GpuBind::automatic && !line.virtual_local_rank;
        const ShownValue shown{"", {}, "--virtual-local-rank,--gpu-bind,--like-torchrun"};
        values.push_back({"a worker sees", line.workers.front().sees_one_gpu ? "its own GPU" : "all of them",
                          by_kind ? "its kind of program" : source_of(line, {}, shown)});
    }
    values.push_back(
        {"CPUs", std::to_string(facts.hardware.usable_cpus), "affinity and quota of this process"});
    if (!line.interpreter.empty())
        values.push_back({"Python", line.interpreter, python_exec_of(facts) ? "PYTHON_EXEC" : "PATH"});
}

}  // namespace

std::vector<LaunchValue> launch_values(CommandLine plan, const NodeFacts& facts) {
    std::vector<LaunchValue> values;
    for (const OptionGroup& group : option_rows(plan)) {
        for (const OptionRow& row : group.rows) {
            for (const ShownValue& shown : row.shown) {
                if (std::string value = shown.value(); !value.empty())
                    values.push_back({shown.name, std::move(value), source_of(plan, row, shown)});
            }
        }
    }
    add_machine(plan, facts, values);
    return values;
}

namespace {

ExplainedAgent explained_agent(const StartPlan& plan, const StartNode& node) {
    ExplainedAgent agent{.node = node.rank,
                         .host = node.target,
                         .is_here = node.is_here,
                         .workers = {},
                         .slots = {},
                         .command = {"ddprun"}};
    if (node.workers != kUnsaidSlots)
        agent.workers = node.workers;
    else if (node.slots > 0)
        agent.slots = node.slots;
    for (std::string& word : shown_launcher_words(agent_words(plan, node, plan.master_port)))
        agent.command.push_back(std::move(word));
    return agent;
}

}  // namespace

ExplainedStart explained_start(const CommandLine& line, const StarterOptions& options) {
    ExplainedStart start{.decided = start_line(line, options),
                         .shell = shell_words(options.plan.rsh, {.target = "HOST", .line = "LINE"}),
                         .agents = {}};
    for (const StartNode& node : options.plan.nodes)
        start.agents.push_back(explained_agent(options.plan, node));
    return start;
}

void forget_one_node(ClusterTable& table) {
    for (const Fact fact : {Fact::nnodes, Fact::node_rank}) {
        const Claim* claim = chosen(table, fact);
        if (claim != nullptr && claim->belief == Belief::assumed) table.facts.erase(fact);
    }
    table.situation = Situation::agent_per_node;
}

void tell_hosts(ClusterTable& table, const CommandLine& line, const StarterOptions& options) {
    const char* flag = line.start.hosts.empty() ? "--hostfile" : "--hosts";
    const OptionOrigin& origin = line.origins.at(flag);
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

std::string start_text(const ExplainedStart& start) {
    std::string text;
    for (const ExplainedAgent& agent : start.agents) {
        std::string command;
        for (const std::string& word : agent.command) command += " " + word;
        text += fmt::format(
            "node {} on {}{}{}:{}\n", agent.node, harmless_line(agent.host), agent.is_here ? " (here)" : "",
            agent.slots ? fmt::format(", a worker for each GPU, or {} without", *agent.slots) : "",
            harmless_line(command, kMaxHostListText));
    }
    return text;
}

namespace {

std::string command_text(const std::vector<std::string>& argv) {
    std::string text;
    for (const std::string& word : argv) text += (text.empty() ? "" : " ") + word;
    return harmless_line(text);
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
                            command_text(argv_of_worker(options, {number, number, host})));
    }
    return text;
}
namespace {

std::string origin_name(const OptionOrigin& origin) {
    return origin.name.empty() ? "the command line" : harmless_line(origin.name);
}

std::string words_text(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
    return harmless_line(text);
}

std::string told_text(const std::string& option, const ToldValue& value) {
    std::vector<std::string> shown;
    for (const std::string& text : value.texts) shown.push_back(shown_option_value(option, text));
    const std::string text = words_text(shown);
    return fmt::format("{}by {}", text.empty() ? "" : text + " ", origin_name(value.origin));
}

class TextOf {
  public:
    void heading(const std::string& line) { text_ += line + "\n"; }
    void line(const std::string& line) { text_ += "  " + line + "\n"; }
    std::string take() { return std::move(text_); }

  private:
    std::string text_;
};

void add_options(TextOf& text, const std::vector<ToldOption>& options) {
    if (options.empty()) return;
    text.heading("Options");
    for (const ToldOption& option : options) {
        std::string line = fmt::format("{} {}", option.name, told_text(option.name, option.told.front()));
        for (std::size_t i = 1; i < option.told.size(); ++i) {
            if (option.told[i].texts != option.told.front().texts)
                line += "; not " + told_text(option.name, option.told[i]);
        }
        text.line(line);
    }
}

void add_start(TextOf& text, const ExplainedStart& start) {
    text.heading("The start");
    if (!start.decided.empty()) text.line(harmless_line(start.decided));
    text.line("other hosts: " + words_text(start.shell));
    const std::string lines = start_text(start);
    for (const std::string_view line : split_at(lines, '\n')) {
        if (!line.empty()) text.line(std::string(line));
    }
}

void add_worker(TextOf& text, const ExplainedWorker& worker) {
    text.heading(worker.rank ? fmt::format("Rank {}", *worker.rank)
                             : fmt::format("Local rank {}", worker.local_rank));
    text.line("runs: " + words_text(worker.command));
    if (!worker.place.empty()) text.line("on: " + harmless_line(worker.place));
    for (const EnvironmentChange& change : worker.changes) text.line(to_text(change));
}

}  // namespace

std::vector<ExplainedWorker> explained_workers(const LaunchOptions& options, const Environment& inherited,
                                               const std::string& host) {
    std::vector<ExplainedWorker> workers;
    const int count = static_cast<int>(options.workers.size());
    for (int local_rank = 0; local_rank < count; ++local_rank) {
        const WorkerPlan& plan = options.workers[static_cast<std::size_t>(local_rank)];
        workers.push_back({.local_rank = local_rank,
                           .rank = options.nnodes == 1 ? std::optional(local_rank) : std::nullopt,
                           .place = plan.place,
                           .cpus = plan.cpus,
                           .memory_node = plan.memory_node,
                           .command = argv_of_worker(options, {local_rank, local_rank, host}),
                           .changes = changes_of_worker(options, inherited, local_rank, host)});
    }
    return workers;
}

std::string explanation_text(const Explanation& explanation) {
    TextOf text;
    text.heading(fmt::format("What is told here, on {}", harmless_line(explanation.host)));
    for (const std::string& line : cluster_lines(explanation.table)) text.line(line);
    add_options(text, explanation.options);
    if (explanation.start) add_start(text, *explanation.start);
    if (!explanation.values.empty()) text.heading("The launch");
    for (const LaunchValue& value : explanation.values)
        text.line(harmless_line(fmt::format("{}: {} ({})", value.name, value.value, value.source)));
    if (!explanation.changes.empty()) text.heading("Each worker's environment, over the inherited one");
    for (const EnvironmentChange& change : explanation.changes) text.line(to_text(change));
    for (const ExplainedWorker& worker : explanation.workers) add_worker(text, worker);
    if (!explanation.remarks.empty()) text.heading("Remarks");
    for (const std::string& remark : explanation.remarks) text.line(harmless_line(remark));
    // The table's own stands at its end.
    if (explanation.refusal != explanation.table.refusal)
        text.heading("refused: " + harmless_line(explanation.refusal));
    return text.take();
}

}  // namespace ddprun::inline app
