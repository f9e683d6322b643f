#include <fmt/core.h>
#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <utility>
#include <variant>

#include "apps/cli/option_values.hpp"
#include "apps/ddprun/modes/mode.hpp"
#include "apps/ddprun/options/command_line.hpp"
#include "apps/ddprun/plan/job_secret.hpp"
#include "apps/ddprun/plan/job_start.hpp"
#include "apps/ddprun/plan/launch_plan.hpp"
#include "apps/ddprun/plan/program_input.hpp"
#include "launcher/agent/agent.hpp"
#include "launcher/agent/agent_link.hpp"
#include "launcher/agent/worker_placement.hpp"
#include "launcher/cluster/cluster_lines.hpp"
#include "launcher/features/known_job.hpp"
#include "launcher/features/started_agent.hpp"
#include "launcher/jobs/detach.hpp"
#include "launcher/jobs/job_folder.hpp"
#include "launcher/jobs/jobs_place.hpp"
#include "launcher/jobs/run_record.hpp"
#include "launcher/output/log_file.hpp"
#include "launcher/process/descriptors.hpp"
#include "launcher/process/process_table.hpp"
#include "launcher/secret_text.hpp"
#include "launcher/wall_clock.hpp"
#include "rendezvous/etcd/tls.hpp"
#include "rendezvous/system/machine.hpp"
#include "rendezvous/system/small_file.hpp"

namespace ddprun {
inline namespace app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTooLong = "the command line that has started all hosts is too long to be passed on";

// Records what this launcher was started with.
RunRecord own_record(const Call& call) {
    RunRecord record;
    record.program = fs::read_symlink("/proc/self/exe").string();
    record.called = call.called();
    record.words = masked_words(call.words());
    record.directory = fs::current_path().string();
    auto [names, values] = recorded_variables(current_environment());
    record.variables = std::move(names);
    record.environment = std::move(values);
    record.version = DDPRUN_VERSION;
    record.host = host_name();
    record.start_unix_ms = unix_time_now_ms();
    return record;
}

// Returns the record, or why there is none. An agent that a starter has started has the starter's own record,
// which may be empty: its own words would start that agent alone.
std::variant<RunRecord, std::string> record_of(Call& call) try {
    auto record = call.relay() ? parse_run_record(call.relay()->run_record) : own_record(call);
    if (!record) return kTooLong;
    return *std::move(record);
} catch (const fs::filesystem_error& error) {
    return error.what();
}

// Writes the record. Returns why it could not; empty: it is written.
std::string trouble_with(const fs::path& path, RunRecord record, const RunFolder& folder) {
    record.job_id = folder.job_id;
    record.node_rank = folder.node_rank;
    const auto error = replace_file(path, to_json(record));
    return error ? error.message() : "";
}

// Records for StartPlan what the starter was started with. Empty where that cannot be known.
std::string run_record_of(const Call& call) {
    try {
        return to_json(own_record(call));
    } catch (const fs::filesystem_error&) {
        return "";  // The agents that would write it say so.
    }
}

// Returns what writes run.json when the run's own folder below --log-dir has been made; nothing
// without --log-dir.
RunFolderWork run_file_work(const LaunchOptions& options, Call& call) {
    if (!options.output.files || options.output.log_dir.empty()) return {};
    return [made = record_of(call)](const RunFolder& folder) -> std::optional<std::string> {
        const fs::path path = fs::path(folder.path) / std::string(kRunFile);
        const auto* record = std::get_if<RunRecord>(&made);
        const std::string trouble =
            record != nullptr ? trouble_with(path, *record, folder) : std::get<std::string>(made);
        if (trouble.empty()) return {};
        return fmt::format("{} is not written: {}", path.string(), trouble);
    };
}

// Two processes return from detach(): the one that goes back to the shell, and the launcher that goes on.
int run_detached(const LaunchOptions& options, Call& call) {
    const auto jobs = make_jobs_folder({current_environment(), ::geteuid()});
    prune_jobs(jobs);
    const auto folder = make_starting_folder(jobs);
    Detached detached;
    std::optional<ReservedFile> room;
    try {
        room = reserve_result(folder);
        detached = detach(folder / "output");
    } catch (const std::exception&) {
        remove_job_folder(folder);
        throw;
    }
    if (detached.exit_code) {
        Features(call.features()->all()).at(&Feature::goes_on_elsewhere);
        // A launcher that was killed could not do it; a folder that has got its final name meanwhile stays.
        if (*detached.exit_code != 0) remove_job_folder(folder);
        return *detached.exit_code;
    }
    *options.features.of<KnownJobOptions>().detached = {folder, std::move(room), std::move(detached.starter)};
    return run_agent(options, call.log(), call.features()->all());
}

void tell_remarks(const JobPlan& job, LauncherLog& log) {
    const bool speaks = !job.part.shares_screen || job.node_rank <= 0;
    for (const std::string& remark : job.remarks)
        speaks ? log.info(as_said(job, remark)) : log.debug(as_said(job, remark));
    for (const std::string& name : job.unknown_signals)
        log.info(
            as_said(job, "--signals-to-handle " + name + ": no signal that can be handled; passed over"));
    if (job.address_assumed)
        log.info(
            "no --master-addr or --rdzv-endpoint: the nodes meet at 127.0.0.1, which other machines "
            "cannot reach");
    for (const std::string& complaint : job.rdzv_conf.complaints) log.info(as_said(job, complaint));
}

// Refuses what can be known to fail before anything starts. Throws UsageError.
void check_files(const LaunchOptions& options, const PathFacts& known) {
    if (const auto wrong = result_file_complaint(filled_path(options.result_file, known)))
        throw UsageError(*wrong);
    if (const auto wrong = log_dir_complaint(options.output)) throw UsageError(*wrong);
    if (options.etcd && options.etcd->tls) {
        if (const auto wrong = complaint_about(*options.etcd->tls)) throw UsageError(*wrong);
    }
}

// The others of the job can be told if it has a coordinator by now: etcd elects one among those that take
// part.
bool may_tell_others(const LaunchOptions& options) { return options.nnodes > 1 && !options.etcd; }

// A node that takes no part does not wait for the others as one does that works.
constexpr std::chrono::seconds kUnfitJoinTime{30};

int run_with(LaunchOptions options, Call& call) {
    return run_agent(std::move(options), call.log(), call.features()->all());
}

// Trust: how the agents of the job know each other, and by which way workers reach the store.
struct Trust {
    std::optional<SecretKey> key;
    StoreAccess store_access = StoreAccess::automatic;
    std::string advice;  // what is to be said of their lack of a secret
};

// How much of the stack below itself agree_on_trust() wipes.
constexpr std::size_t kKeyStack = std::size_t{32} * 1024;

Trust agree_on_trust(const JobPlan& job, const LaunchOptions& options, Call& call) {
    // Only this machine's processes call on loopback, and the system says who they are.
    const bool may_listen = may_host(options) || options.hosting == Hosting::if_here;
    const bool is_open = may_listen && leads_out(options.listen);
    const SitePolicy policy = agreed_policy(job);
    Trust trust{.store_access = job.store_access};
    trust.key = find_job_key(job, policy, call.secret(), is_open, trust.advice);
    // What has made the key may have left it there, and the guardian gets all of this process's memory.
    ::sodium_stackzero(kKeyStack);
    if (job.store_access == StoreAccess::door && job.nnodes > 1 && !trust.key)
        throw UsageError("--store door: agents need a secret for that (--make-secret)");
    if (job.store_access != StoreAccess::automatic) return trust;
    const bool is_sealed = wants_sealed_store(policy, trust.key && !options.is_started);
    trust.store_access = is_sealed ? StoreAccess::door : StoreAccess::direct;
    return trust;
}

// Returns what the agent carries out: the plan, and what is made at the start.
LaunchOptions agents_options(LaunchOptions plan, Trust& trust) {
    plan.key = std::exchange(trust.key, std::nullopt);
    plan.store_access = trust.store_access;
    plan.open_files = raise_open_files();
    return plan;
}

// What a cluster's environment has decided is one line, with what is worth a word besides.
void tell_of_launch(const JobPlan& job, const LaunchOptions& options, const std::string& advice,
                    LauncherLog& log) {
    if (!options.host_list.complaint.empty()) log.warn(options.host_list.complaint);
    const bool is_derived = job.part.is_derived;
    std::string derived = is_derived ? derived_line(job.table, options.master.port) : "";
    const bool is_one = is_derived && speaks_for_all(options);
    for (const std::string& remark : options.placement_remarks)
        is_one ? void(derived += "; " + remark) : log.warn(remark);
    if (!advice.empty() && is_one) derived += "; no secret (ddprun --make-secret makes one)";
    is_one && !options.placement_remarks.empty() ? log.warn(derived)
    : is_one                                     ? log.info(derived)
                                                 : log.debug(derived);
    is_one ? log.debug(advice) : log.info(advice);
}

// Ends a launch that has told nobody but its user.
int end_unstarted(const LaunchOptions& options, Call& call, int code, const std::string& why) {
    Features(call.features()->all()).at(&Feature::launch_failed, options.exits_with_one ? 1 : code, why);
    return code;
}

// A worker that started the very launcher that has started it, with the same words, would do so again, and
// each of its workers: a script that calls ddprun on itself, or a --wrap that stands in a file.
void refuse_endless_start(const Environment& environment) {
    if (!find_variable(environment, "DDPRUN_RUN_ID")) return;
    constexpr std::size_t kMaxWords = 4 * 1024 * 1024;
    const auto read = [](const fs::path& process) { return read_small_file(process / "cmdline", kMaxWords); };
    const auto own = read("/proc/self");
    auto at = read_process_stat(::getppid());
    for (; own && at && at->pid > 1; at = read_process_stat(at->parent)) {
        const fs::path process = fmt::format("/proc/{}", at->pid);
        std::error_code unknown;
        if (!fs::equivalent(process / "exe", "/proc/self/exe", unknown)) continue;
        if (const auto words = read(process); words && *words == *own)
            throw UsageError(fmt::format(
                "this is a worker of ddprun, process {}, that was started with the same words: its program starts the "
                "launcher again, without end",
                at->pid));
    }
}

// A node with a problem that --check has found only tells the others so, where they can be told.
int run_unfit(LaunchOptions options, const std::string& problem, Call& call) {
    if (!may_tell_others(options)) return end_unstarted(options, call, kExitSystem, problem);
    options.unfit = problem;
    options.join_timeout = std::min<std::chrono::milliseconds>(options.join_timeout, kUnfitJoinTime);
    run_with(std::move(options), call);
    return kExitSystem;
}

// Opens what features need of the system, so that what is wrong with it is said before anything starts, and
// returns the job with that in its features. Throws UsageError.
JobPlan with_opened_features(JobPlan job, const PathFacts& known, Call& call) {
    const EarlyFacts facts{.environment = call.environment(),
                           .paths = known,
                           .starts_nothing = job.dry_run,
                           .site_policy = [&job] { return agreed_policy(job); }};
    if (const auto wrong = open_features(job.features, facts)) throw UsageError(*wrong);
    if (const auto& relay = call.relay()) job.features.of<StartedAgentOptions>().line = relay->line;
    return job;
}

int launch(Call& call, const JobPlan& job, const NodeFacts& facts, const PathFacts& known) {
    LauncherLog& log = call.log();
    refuse_endless_start(call.environment());
    const LaunchOptions plan = resolve_launch(job, facts);
    call.features()->launch_known(plan, job);
    if (job.dry_run) {
        tell_of_launch(job, plan, "", log);
        return show_dry_run(plan, job.json);
    }
    if (plan.workers.size() > 1 || plan.nnodes > 1) {
        if (const std::string half = half_read_program(job); !half.empty()) log.info(half);
    }
    // First, since it may leave processes behind that hang, which need not have the key.
    const std::string problem = Features(call.features()->all()).unfit();
    Trust trust = agree_on_trust(job, plan, call);
    if (!problem.empty()) {
        tell_of_launch(job, plan, trust.advice, log);
        return run_unfit(agents_options(plan, trust), problem, call);
    }
    check_files(plan, known);
    // Of several nodes the others are to hear of it, too: the job fails of it.
    if (const auto fault = program_fault(job, facts); fault && plan.nnodes == 1) {
        log.error(fault->text);
        return end_unstarted(plan, call, fault->exit_code, fault->text);
    }
    tell_of_launch(job, plan, trust.advice, log);
    LaunchOptions options = agents_options(plan, trust);
    options.in_run_folder = run_file_work(options, call);
    if (!sees_own_processes())
        log.warn(
            "/proc does not show this process (not mounted?): what workers start in sessions of their own can "
            "be neither found nor ended");
    if (const auto odd = local_rank_beyond_node(plan)) log.info(*odd + "; passed over on this node");
    if (!plan.interpreter.empty()) log.debug("the interpreter is " + plan.interpreter);
    return job.detach ? run_detached(options, call) : run_with(std::move(options), call);
}

}  // namespace

int run_launch(Call& call, JobPlan plan) {
    call.log().set_verbosity(plan.verbosity);
    JobPlan read = call.relay() ? with_starters_program(std::move(plan), call.relay()->program)
                                : with_read_program(std::move(plan));
    const NodeFacts facts = find_node_facts(read);
    const PathFacts known = path_facts_of(read, facts);
    if (!read.log_file.empty()) {
        const std::string file = filled_path(read.log_file, known);
        if (const auto wrong = call.log().open_file(file, facts.host_name)) throw UsageError(*wrong);
    }
    std::vector<std::string> command{"ddprun"};
    command.insert(command.end(), call.words().begin(), call.words().end());
    call.features().emplace(call.start(), std::move(command), call.log());
    const JobPlan job = with_opened_features(std::move(read), known, call);
    tell_remarks(job, call.log());
    const std::string unread = job.detach ? unread_input(job) : "";
    if (!unread.empty()) call.log().info(unread);
    return launch(call, job, facts, known);
}

extern const Mode kLaunchMode{[](Call&) { return true; },
                              [](Call& call) { return run_launch(call, call.plan()); }};

// A job on several hosts, named by --hosts or by the allocation that this process is in.
extern const Mode kStartMode{[](Call& call) { return call.plan().starts_hosts(); },
                             [](Call& call) { return start_job(call, call.plan()); }};

int start_job(Call& call, JobPlan plan, const std::function<StarterOptions(StarterOptions)>& adjust) {
    const JobPlan job = with_read_program(std::move(plan));
    const StarterFacts facts = find_starter_facts(job, call.secret());
    wipe(call.secret());
    StarterOptions options = resolve_start(job, facts);
    if (job.output.files && !job.output.log_dir.empty()) options.plan.run_record = run_record_of(call);
    if (adjust) options = adjust(std::move(options));
    call.log().set_verbosity(job.verbosity);
    // It may yet be a program of those hosts.
    if (facts.may_be_host) call.log().warn(parted_hosts(job));
    if (const std::string decided = start_line(job, options); !decided.empty()) call.log().info(decided);
    if (job.dry_run) return show_start(job, options);
    // What writes to a pipe may not have begun yet.
    const auto tell_unread = [&] {
        const std::string unread = adjust ? "" : unread_input(job);
        if (!unread.empty()) call.log().info(as_said(job, unread));
        return !unread.empty();
    };
    const bool is_told = tell_unread();
    const int code = run_starter(options);
    if (!is_told) tell_unread();
    return code;
}

}  // namespace app
}  // namespace ddprun
