#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>

#include "apps/cli/print.hpp"
#include "apps/ddprun/modes/doctor_node.hpp"
#include "apps/ddprun/modes/mode.hpp"
#include "apps/ddprun/options/command_line.hpp"
#include "apps/ddprun/options/job_options.hpp"
#include "apps/ddprun/options/launcher_words.hpp"
#include "launcher/cluster/host_list.hpp"
#include "launcher/doctor/diagnosis.hpp"
#include "launcher/start/starter.hpp"

namespace ddprun {
inline namespace app {

namespace {

// A node that has waited that long for the others goes without them.
constexpr const char* kJoinTimeout = "--join-timeout=120";
constexpr std::array<const char*, 7> kJobOptions{"--gpu-bind=none", "--allow-different", "--no-python",
                                                 "--max-restarts=0", "--failover=off", "--resize=never",
                                                 // A doctor that hangs will not end by itself.
                                                 "--grace=2"};

std::vector<OptionGroup> node_groups(Said& said) {
    std::vector<OptionGroup> groups = option_rows(said);
    for (OptionGroup& group : groups) {
        std::erase_if(group.rows, [](const OptionRow& row) { return !row.has(kFindsNodes); });
    }
    std::erase_if(groups, [](const OptionGroup& group) { return group.rows.empty(); });
    return groups;
}

bool is_named(const std::string& word, std::string_view name) {
    return word.substr(0, word.find('=')) == name;
}

struct DoctorCall {
    bool json = false;
    std::string log_dir;                 // empty: not said
    std::vector<std::string> job_words;  // of a launch that finds the nodes; its program is put in later
    std::optional<std::string> show;     // --help and the like: print this and end with 0
};

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

// `words` begins with the command's name. Throws UsageError.
DoctorCall parse_doctor_call(const std::vector<std::string>& words, const Environment& environment,
                             const ToldFiles& files) {
    DoctorCall call;
    CLI::App app(
        "Looks at this node, or at all nodes of a job, and says what a job would miss: a line for each finding, behind\n"
        "ok, warning or problem. Of several nodes (--hosts, or called on each of them, as by srun) each one looks at\n"
        "itself and calls each other one; node 0 prints what all have found.",
        "ddprun doctor");
    Said unused;
    std::vector<OptionGroup> groups{
        {"",
         {{"--json", "", "As one JSON object", into(call.json)},
          {"--log-dir", "DIR",
           "The folder for logs that is to be looked at (that of the variables of --log-dir)",
           into(call.log_dir), kTorchruns | kPath}}}};
    // The file of --config may have any option of a launch in it.
    std::vector<OptionGroup> of_file = groups;
    const std::vector<OptionGroup> of_jobs = option_rows(unused);
    of_file.insert(of_file.end(), of_jobs.begin(), of_jobs.end());
    const std::vector<OptionGroup> of_nodes = node_groups(unused);
    groups.insert(groups.end(), of_nodes.begin(), of_nodes.end());
    app.footer("Exit codes: 0 without a problem, 1 with one, 2 for a wrong command line.");
    add_standard_options(app, DDPRUN_VERSION, "[OPTIONS]");
    LauncherWords split = split_words(app, groups, {words.begin() + 1, words.end()}, false);
    add_typed_rows(app, groups, split.typed);
    if (!split.program.empty())
        throw UsageError(
            fmt::format("doctor {}: no option, and doctor starts no program", split.program.front()));
    const std::vector<std::string> options = split.options;
    call.show = parse_words(app, groups, std::move(split.options), split.topic);
    if (call.show) return call;
    Environment logs_environment;
    for (const char* name : {"DDPRUN_LOG_DIR", "PET_LOG_DIR", "DDPRUN_CONFIG", "HOME"}) {
        if (const std::string* value = find_variable(environment, name)) logs_environment[name] = *value;
    }
    set_rows(of_file, told_options(app, of_file, logs_environment, files), logs_environment, split.typed);
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

// Takes the variables of those launch options out of this process's environment that have nothing to say
// about the nodes: no job of the user's is started here. Called while there are no other threads.
void forget_job_variables() {
    Said unused;
    for (const OptionGroup& group : option_rows(unused)) {
        for (const OptionRow& row : group.rows) {
            if (row.has(kFindsNodes)) continue;
            for (const std::string& name : comma_separated(variable_of(row) + "," + other_variables_of(row)))
                ::unsetenv(name.c_str());
        }
    }
}

// Returns the plan as that of doctor's job; of several nodes it begins also where some do not come. Pure,
// both.
JobPlan doctors_job(const DoctorCall& call, JobPlan job) {
    job.nproc_per_node = 1;
    job.program = program_of(call, job.nnodes, job.part.host_list.hosts);
    begin_with_any(job.elasticity, job.nnodes);
    return job;
}

StarterOptions doctors_start(const DoctorCall& call, StarterOptions options) {
    const int nodes = options.terms.nodes;
    for (StartNode& node : options.plan.nodes) node.workers = 1;
    options.plan.program = program_of(call, nodes, options.plan.host_names);
    if (nodes == 1 || options.terms.least < nodes) return options;
    options.plan.nnodes = fmt::format("1:{}", nodes);
    options.terms.least = 1;
    return options;
}

// Looks at this node alone and prints what it has found. Returns the exit code.
int run_doctor(const DoctorCall& call, const Environment& environment) {
    const NodeReport report = diagnose(look_around(doctor_request(environment, call.log_dir)));
    print(call.json ? to_json(report) : to_text(report));
    return state_of(report) == FindingState::problem ? kExitProblem : 0;
}

bool claims_doctor(Call& call) { return is_doctor_command(call.words(), call.name()); }

bool claims_doctor_node(Call& call) {
    return claims_doctor(call) && call.words().size() > 1 && call.words()[1] == kNodeRoleFlag;
}

int run_doctor_node_mode(Call& call) {
    wipe(call.secret());
    return run_doctor_node(call.words(), current_environment());
}

// The nodes are found as a launch finds them. One alone is looked at here; of several each is looked at by a
// worker there.
int run_doctor_mode(Call& call) {
    call.secret();
    const DoctorCall doctor = parse_doctor_call(call.words(), current_environment(), call.files());
    if (doctor.show) {
        show_text(*doctor.show);
        return 0;
    }
    forget_job_variables();
    call.read(doctor.job_words);
    const JobPlan& job = call.plan();
    if (job.starts_hosts()) {
        return start_job(call, job, [&doctor](StarterOptions options) {
            return doctors_start(doctor, std::move(options));
        });
    }
    if (job.nnodes == 1) {
        wipe(call.secret());
        return run_doctor(doctor, current_environment());
    }
    return run_launch(call, doctors_job(doctor, job));
}

}  // namespace

// One node's part in a doctor of several.
extern const Mode kDoctorNodeMode{claims_doctor_node, run_doctor_node_mode};
// `ddprun doctor`.
extern const Mode kDoctorMode{claims_doctor, run_doctor_mode};

}  // namespace app
}  // namespace ddprun
