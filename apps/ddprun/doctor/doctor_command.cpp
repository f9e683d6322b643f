#include "apps/ddprun/doctor/doctor_command.hpp"

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

#include "apps/cli/print.hpp"
#include "apps/ddprun/options/launcher_words.hpp"
#include "apps/ddprun/options/options.hpp"
#include "launcher/agent/agent_link.hpp"
#include "launcher/cluster/host_list.hpp"
#include "launcher/doctor/diagnosis.hpp"
#include "launcher/output/log_file.hpp"
#include "launcher/path_template.hpp"
#include "launcher/plan/program.hpp"
#include "rendezvous/system/machine.hpp"

namespace ddprun::inline app {
namespace {

// This is the program itself, wherever it lies, or has lain: what a relay has shipped is removed by then.
constexpr const char* kThisProgram = "/proc/self/exe";
constexpr std::string_view kDoctorWord = "doctor";

// A node that has waited that long for the others goes without them.
constexpr const char* kJoinTimeout = "--join-timeout=120";
constexpr std::array<const char*, 7> kJobOptions{"--gpu-bind=none", "--allow-different", "--no-python",
                                                 "--max-restarts=0", "--failover=off", "--resize=never",
                                                 // A doctor that hangs will not end by itself.
                                                 "--grace=2"};

std::vector<OptionGroup> node_groups(CommandLine& line) {
    std::vector<OptionGroup> groups = option_rows(line);
    for (OptionGroup& group : groups) {
        std::erase_if(group.rows, [](const OptionRow& row) { return !row.has(kFindsNodes); });
        for (OptionRow& row : group.rows)
            row.marks &= ~kCommon;  // doctor has so few that --help shows them all
    }
    std::erase_if(groups, [](const OptionGroup& group) { return group.rows.empty(); });
    return groups;
}

bool is_named(const std::string& word, std::string_view name) {
    return word.substr(0, word.find('=')) == name;
}

std::vector<std::string> program_of(const DoctorCall& call, int nodes,
                                    const std::vector<std::string>& hosts = {}) {
    std::vector<std::string> program{kThisProgram, std::string(kDoctorWord), std::string(kNodeRoleFlag),
                                     fmt::format("--of={}", nodes)};
    if (hosts.size() == static_cast<std::size_t>(nodes))
        program.push_back("--hosts=" + compressed_hosts(hosts));
    if (call.json) program.emplace_back("--json");
    if (!call.log_dir.empty()) program.push_back("--log-dir=" + call.log_dir);
    return program;
}

// The report tells of a node that does not come, and still shows the others.
void begin_with_any(Elasticity& elasticity, int nodes) {
    if (nodes > 1 && !elasticity.is_elastic()) elasticity.min_nodes = 1;
}

// Doctor looks at the folder for temporary files, at /tmp for programs that ignore TMPDIR, at the folder for logs, and at the
// current folder, where the workers begin.
std::vector<FolderQuestion> folders_asked(const Environment& environment, const std::string& log_dir) {
    const std::string temporary = temporary_folder(environment);
    std::vector<FolderQuestion> folders{{"temporary files", temporary}};
    if (std::filesystem::path(temporary).lexically_normal() != "/tmp")
        folders.push_back({"temporary files of programs without TMPDIR", "/tmp"});
    if (!log_dir.empty() && log_dir != "/dev/null") {
        const std::string place = fixed_part(log_dir).string();
        folders.push_back({"logs", place.empty() ? "." : place, true, true});
    }
    std::error_code ignored;
    const std::filesystem::path current = std::filesystem::current_path(ignored);
    folders.push_back({"current folder", current.empty() ? "." : current.string(), false});
    return folders;
}

// There will be a worker for each usable GPU, or one.
std::size_t likely_workers(const Environment& environment) {
    return static_cast<std::size_t>(std::max(1, find_devices(environment, find_gpus()).count));
}

}  // namespace

bool is_doctor_command(const std::vector<std::string>& words, const std::string& called) {
    return !words.empty() && words.front() == kDoctorWord && called != kTorchrunName &&
           called != kLegacyLaunchName;
}

bool is_doctor_node(const std::vector<std::string>& words) {
    return words.size() > 1 && words[1] == kNodeRoleFlag;
}

DoctorCall parse_doctor_call(const std::vector<std::string>& words, const Environment& environment) {
    DoctorCall call;
    CLI::App app(
        "Looks at this node, or at all nodes of a job, and says what a job would miss: a line for each finding, behind\n"
        "ok, warning or problem. Of several nodes (--hosts, or called on each of them, as by srun) each one looks at\n"
        "itself and calls each other one; node 0 prints what all have found.",
        "ddprun doctor");
    CommandLine unused;
    std::vector<OptionGroup> groups{
        {"",
         {{"--json", "", "As one JSON object", into(call.json)},
          {"--log-dir", "DIR",
           "The folder for logs that is to be looked at (that of the variables of --log-dir)",
           into(call.log_dir), kTorchruns}}}};
    const std::vector<OptionGroup> own = groups;
    const std::vector<OptionGroup> of_nodes = node_groups(unused);
    groups.insert(groups.end(), of_nodes.begin(), of_nodes.end());
    app.footer("Exit codes: 0 without a problem, 1 with one, 2 for a wrong command line.");
    add_standard_options(app, DDPRUN_VERSION, "[OPTIONS]");
    LauncherWords split = split_words(app, groups, {words.begin() + 1, words.end()});
    add_typed_rows(app, groups, split.typed);
    if (!split.program.empty())
        throw UsageError(
            fmt::format("doctor {}: no option, and doctor starts no program", split.program.front()));
    const std::vector<std::string> options = split.options;
    call.show = parse_words(app, groups, std::move(split.options), split.topic);
    if (call.show) return call;
    Environment of_logs;
    for (const char* name : {"DDPRUN_LOG_DIR", "PET_LOG_DIR"}) {
        if (const std::string* value = find_variable(environment, name)) of_logs[name] = *value;
    }
    take_values(app, own, of_logs, split.typed);
    for (const std::string& word : options) {
        if (!is_named(word, "--json") && !is_named(word, "--log-dir")) call.job_words.push_back(word);
    }
    const bool waits_as_told = std::any_of(options.begin(), options.end(), [](const std::string& word) {
        return is_named(word, "--join-timeout");
    });
    if (!waits_as_told) call.job_words.emplace_back(kJoinTimeout);
    call.job_words.insert(call.job_words.end(), kJobOptions.begin(), kJobOptions.end());
    call.job_words.emplace_back("--");
    const std::vector<std::string> program = program_of(call, 1);
    call.job_words.insert(call.job_words.end(), program.begin(), program.end());
    return call;
}

void forget_job_variables() {
    CommandLine unused;
    for (const OptionGroup& group : option_rows(unused)) {
        for (const OptionRow& row : group.rows) {
            if (row.has(kFindsNodes)) continue;
            for (const std::string& name : comma_separated(variable_of(row) + "," + other_variables_of(row)))
                ::unsetenv(name.c_str());
        }
    }
}

void become_doctors_job(const DoctorCall& call, CommandLine& line) {
    line.nproc_per_node = "1";
    line.workers_by_gpus = false;
    line.program = program_of(call, line.nnodes, line.host_list.hosts);
    begin_with_any(line.elasticity, line.nnodes);
}

void become_doctors_job(const DoctorCall& call, StarterOptions& options) {
    const int nodes = options.terms.nodes;
    for (StartNode& node : options.plan.nodes) node.workers = 1;
    options.plan.program = program_of(call, nodes, options.plan.host_names);
    if (nodes == 1 || options.terms.least < nodes) return;
    options.plan.nnodes = fmt::format("1:{}", nodes);
    options.terms.least = 1;
}

bool is_doctors_job(const std::vector<std::string>& program) {
    return program.size() > 2 && program[0] == kThisProgram && program[1] == kDoctorWord &&
           program[2] == kNodeRoleFlag;
}

LookRequest doctor_request(const Environment& environment, const std::string& log_dir) {
    LookRequest request;
    request.environment = environment;
    request.host = host_name();
    request.workers = likely_workers(environment);
    request.ports = {{kDefaultMasterPort}, {kDefaultC10dPort}};
    request.folders = folders_asked(environment, log_dir);
    request.asks_name = true;
    const std::string* python = find_variable(environment, "PYTHON_EXEC");
    request.python = python_name(python != nullptr ? std::optional(*python) : std::nullopt);
    request.limit = kDoctorLimit;
    return request;
}

int run_doctor(const DoctorCall& call, const Environment& environment) {
    const NodeReport report = diagnose(look_around(doctor_request(environment, call.log_dir)));
    print(call.json ? to_json(report) : to_text(report));
    return state_of(report) == FindingState::problem ? kExitProblem : 0;
}

NodeReport check_node(const LaunchOptions& options) {
    LookRequest request;
    request.environment = options.environment;
    request.host = host_name();
    request.workers = options.workers.size();
    const bool hosts = may_host(options) && options.hosting != Hosting::if_first && options.master_ports == 1;
    if (hosts && options.master.port != 0) request.ports = {{options.master.port, true}};
    request.folders = folders_asked(options.environment, options.output.files ? options.output.log_dir : "");
    request.limit = kCheckLimit;
    return diagnose(look_around(request));
}

}  // namespace ddprun::inline app
