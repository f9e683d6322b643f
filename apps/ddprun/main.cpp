// ddprun: starts a distributed program on this node as part of a job, and supervises it.
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <new>
#include <optional>
#include <system_error>

#include "apps/cli/option_values.hpp"
#include "apps/cli/print.hpp"
#include "apps/ddprun/adapted_task.hpp"
#include "apps/ddprun/cluster_facts.hpp"
#include "apps/ddprun/cluster_plan.hpp"
#include "apps/ddprun/doctor/doctor_command.hpp"
#include "apps/ddprun/doctor/doctor_node.hpp"
#include "apps/ddprun/explain/explain.hpp"
#include "apps/ddprun/job_secret.hpp"
#include "apps/ddprun/job_start.hpp"
#include "apps/ddprun/launch_plan.hpp"
#include "apps/ddprun/observers.hpp"
#include "apps/ddprun/run_file.hpp"
#include "launcher/agent/agent.hpp"
#include "launcher/agent/job_terms.hpp"
#include "launcher/agent/rank_limits.hpp"
#include "launcher/cluster/cluster_text.hpp"
#include "launcher/jobs/detach.hpp"
#include "launcher/jobs/detached_job.hpp"
#include "launcher/jobs/job_folder.hpp"
#include "launcher/jobs/jobs_place.hpp"
#include "launcher/output/log_folder.hpp"
#include "launcher/process/open_files.hpp"
#include "launcher/process/process_table.hpp"
#include "launcher/start/bootstrap.hpp"
#include "launcher/start/relay.hpp"
#include "launcher/start/started_agent.hpp"
#include "rendezvous/control/control_message.hpp"
#include "rendezvous/etcd/tls.hpp"
#include "rendezvous/system/error.hpp"
#include "rendezvous/system/standard_streams.hpp"
#include "rendezvous/system/whole_number.hpp"

namespace {

// In the process that returns to the shell and in the launcher that goes on.
int run_detached(ddprun::LaunchOptions options, const std::vector<std::string>& words,
                 ddprun::Observers& observers, ddprun::LauncherLog& log) {
    using namespace ddprun;
    const auto jobs = make_jobs_folder({current_environment(), ::geteuid()});
    prune_jobs(jobs);
    const auto folder = make_starting_folder(jobs);
    Detached detached;
    std::optional<ReservedFile> room;
    try {
        room = reserve_result(folder);
        detached = detach(folder / "output");
    } catch (const std::exception&) {
        remove_starting_folder(folder);
        throw;
    }
    if (detached.exit_code) {
        observers.forget();
        // A launcher that was killed could not do it.
        if (*detached.exit_code != 0) remove_starting_folder(folder);
        return *detached.exit_code;
    }
    options.is_detached = true;
    std::vector<std::string> command{"ddprun"};
    command.insert(command.end(), words.begin(), words.end());
    DetachedJob job(folder, options, std::move(command), std::move(*room), std::move(detached.starter));
    std::vector<AgentWatcher*> watchers = observers.all();
    watchers.insert(watchers.begin(), &job);
    return run_agent(options, log, watchers);
}

// An error's value may have a line break in it.
std::string one_line(std::string text) {
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
}

void tell_remarks(const ddprun::CommandLine& line, ddprun::LauncherLog& log) {
    for (const std::string& remark : line.remarks) log.info(as_said(line, remark));
    for (const std::string& name : line.unknown_signals)
        log.info(
            as_said(line, "--signals-to-handle " + name + ": no signal that can be handled; passed over"));
    if (line.address_assumed)
        log.info(
            "no --master-addr or --rdzv-endpoint: the nodes meet at 127.0.0.1, which other machines "
            "cannot reach");
    for (const std::string& complaint : line.rdzv_conf.complaints) log.info(as_said(line, complaint));
}

// What can be known to fail before anything starts. Throws UsageError.
void check_files(const ddprun::LaunchOptions& options, const ddprun::PathFacts& known) {
    using namespace ddprun;
    if (const auto wrong = result_file_complaint(filled_path(options.result_file, known)))
        throw UsageError(*wrong);
    if (const auto wrong = log_dir_complaint(options.output)) throw UsageError(*wrong);
    if (options.etcd && options.etcd->tls) {
        if (const auto wrong = complaint_about(*options.etcd->tls)) throw UsageError(*wrong);
    }
}

// For --check. The first problem, if there are any; all have been said then.
std::string problem_by_check(const ddprun::LaunchOptions& options, ddprun::LauncherLog& log) {
    using namespace ddprun;
    std::string first;
    for (const Finding& finding : check_node(options).findings) {
        if (finding.state == FindingState::warning) log.debug("--check: " + line_of(finding));
        if (finding.state != FindingState::problem) continue;
        log.error("--check: " + line_of(finding));
        if (first.empty()) first = line_of(finding);
    }
    return first;
}

// The others of the job are told where it has a coordinator by now: etcd elects one among those that take part.
bool may_tell_others(const ddprun::LaunchOptions& options) { return options.nnodes > 1 && !options.etcd; }

// A node that takes no part does not wait for the others as one does that works.
constexpr std::chrono::seconds kUnfitJoinTime{30};

// What a relay that has started this agent hands it.
struct FromRelay {
    ddprun::OwnedDescriptor line;
    int slots = 0;
    std::string hosts;
    std::string run_record;  // RunStart's
};

std::optional<FromRelay> take_from_relay() {
    using namespace ddprun;
    const std::string started = take_variable(kStartedVariable);
    if (started.empty()) return std::nullopt;
    return FromRelay{take_relay_line(), whole_number<int>(started).value_or(0),
                     take_variable(kStartedHostsVariable), take_variable(kStartedRunVariable)};
}

struct Launch {
    const std::string& called;
    const std::vector<std::string>& words;
    const ddprun::ClusterPlan& plan;
    const ddprun::NodeFacts& facts;
    const ddprun::PathFacts& known;
    std::string& secret;
    std::optional<FromRelay> relay;
};

int run_with(ddprun::LaunchOptions options, Launch& given, ddprun::Observers& observers,
             ddprun::LauncherLog& log) {
    using namespace ddprun;
    std::vector<AgentWatcher*> watchers = observers.all();
    std::optional<StartedAgent> started;
    if (given.relay) {
        started.emplace(std::move(given.relay->line), options.node_rank == 0,
                        options.elasticity.is_elastic());
        watchers.push_back(&*started);
    }
    return run_agent(std::move(options), log, watchers);
}

int launch(Launch given, ddprun::Observers& observers, ddprun::LauncherLog& log) {
    using namespace ddprun;
    const CommandLine& line = given.plan.line;
    LaunchOptions options = resolve_launch(line, given.facts);
    if (is_doctors_job(line.program)) options.entry_name = "ddprun doctor";
    if (given.plan.is_derived) {
        const std::string derived = derived_line(given.plan.table, options.master.port);
        speaks_for_all(line) ? log.info(derived) : log.debug(derived);
    }
    observers.launch_known(options, line.rdzv_backend);
    if (!options.host_list.complaint.empty()) log.warn(options.host_list.complaint);
    for (const std::string& remark : options.placement_remarks) log.warn(remark);
    if (line.dry_run) return show_dry_run(options, line.json);
    // On loopback only this machine's processes call, and who they are the system says.
    const bool may_listen = may_host(options) || options.hosting == Hosting::if_here;
    const bool is_open = may_listen && leads_out(options.listen);
    options.key = find_job_key(line, given.secret, is_open, log);
    if (line.store_access == StoreAccess::door && line.nnodes > 1 && !options.key)
        throw UsageError("--store door: agents need a secret for that (--make-secret)");
    if (line.store_access == StoreAccess::automatic) {
        const bool is_sealed = wants_sealed_store(agreed_auth(line), options.key && !line.is_started);
        options.store_access = is_sealed ? StoreAccess::door : StoreAccess::direct;
    }
    if (line.check) options.unfit = problem_by_check(options, log);
    const bool is_unfit = !options.unfit.empty();
    if (is_unfit && !may_tell_others(options)) {
        observers.fails(options.exits_with_one ? 1 : kExitSystem, options.unfit);
        return kExitSystem;
    }
    options.open_files = raise_open_files();
    if (is_unfit) {
        options.join_timeout = std::min<std::chrono::milliseconds>(options.join_timeout, kUnfitJoinTime);
        run_with(std::move(options), given, observers, log);
        return kExitSystem;
    }
    check_files(options, given.known);
    RunStart start{given.called, given.words, {}};
    if (given.relay) start.record = given.relay->run_record;
    options.in_run_folder = run_file_work(options, start);
    if (!sees_own_processes())
        log.warn(
            "/proc does not show this process (not mounted?): what workers start in sessions of their "
            "own can be neither found nor ended");
    if (const auto odd = local_rank_beyond_node(options)) log.info(*odd + "; passed over on this node");
    if (!options.interpreter.empty()) log.debug("the interpreter is " + options.interpreter);
    if (line.detach) return run_detached(options, given.words, observers, log);
    return run_with(std::move(options), given, observers, log);
}

// In place of this process, without an agent; `called` as in node_facts.hpp.
[[noreturn]] void run_adapted(const ddprun::ClusterPlan& plan, const std::string& called) {
    using namespace ddprun;
    const Environment variables = task_variables(plan);
    const CommandLine line = adapted_line(plan, variables);
    const LaunchOptions options = resolve_launch(line, find_node_facts(line, called));
    Environment environment = options.environment;
    for (const auto& [name, value] : variables) environment[name] = value;
    become_task(options.workers.at(static_cast<std::size_t>(local_rank_of(variables))).argv, environment);
}

int show(const std::string& text) {
    ddprun::print(text);
    return 0;
}

// With --hosts, or on all hosts of an allocation.
int start_job(const ddprun::CommandLine& line, const ddprun::RunStart& start, const std::string& secret,
              const std::optional<ddprun::DoctorCall>& doctor, ddprun::LauncherLog& log) {
    using namespace ddprun;
    StarterOptions options = resolve_start(line, find_starter_facts(line, secret));
    if (line.output.files && !line.output.log_dir.empty()) options.plan.run_record = run_record_of(start);
    if (doctor) become_doctors_job(*doctor, options);
    log.set_verbosity(line.verbosity);
    if (const std::string decided = start_line(line, options); !decided.empty()) log.info(decided);
    if (line.dry_run) return show_start(line, options);
    return run_starter(options);
}

// What Asio says of a descriptor that could not be had names its own parts, and no remedy.
std::string sentence_of(const boost::system::system_error& error) {
    const std::string remedy = ddprun::open_files_remedy(error.code().value());
    if (error.code() != boost::system::errc::too_many_files_open) return error.what();
    if (dynamic_cast<const ddprun::Error*>(&error) == nullptr)
        return "no descriptor is left for the launcher" + remedy + ": " + error.code().message();
    const std::string text = error.what();
    return text.find(remedy) == std::string::npos ? text + remedy : text;
}

// `exits_with_one` is what the user says of that, as soon as it is known.
int run(const std::string& called, const std::vector<std::string>& words, ddprun::LauncherLog& log,
        bool& exits_with_one) {
    using namespace ddprun;
    const auto start = std::chrono::steady_clock::now();
    std::optional<Observers> observers;
    CommandLine said;
    const auto end_by = [&](const std::string& why, int code) {
        log.error(why);
        if (observers) observers->fails(exits_with_one && code != kExitUsage ? 1 : code, why);
        return code;
    };
    try {
        std::string secret = take_variable(kSecretVariable);
        const std::string name = std::filesystem::path(called).filename().string();
        std::optional<DoctorCall> doctor;
        if (is_doctor_command(words, name)) {
            if (is_doctor_node(words)) return run_doctor_node(words, current_environment());
            doctor = parse_doctor_call(words, current_environment());
            if (doctor->show) return show(*doctor->show);
            forget_job_variables();
        }
        std::optional<FromRelay> relay = take_from_relay();
        said = parse_command_line(doctor ? doctor->job_words : words, current_environment(), name);
        if (is_doctors_job(said.program)) said.told_exit_code = kExitProblem;
        if (relay) become_started(said, relay->slots, relay->hosts);
        exits_with_one = said.exits_with_one;
        if (said.show) return show(*said.show);
        if (said.makes_secret) return make_secret();
        if (said.explain) return explain_launch(said, called, secret);
        if (said.start.is_asked()) return start_job(said, {called, words, {}}, secret, doctor, log);
        ClusterPlan plan = plan_cluster(said, find_cluster_view(current_environment()));
        if (plan.line.start.is_asked()) return start_job(plan.line, {called, words, {}}, secret, doctor, log);
        if (doctor && plan.line.nnodes == 1) return run_doctor(*doctor, current_environment());
        if (doctor) become_doctors_job(*doctor, plan.line);
        if (said.adapt && !said.dry_run) run_adapted(plan, called);
        const CommandLine& line = plan.line;
        log.set_verbosity(line.verbosity);
        const NodeFacts facts = find_node_facts(line, called);
        const PathFacts known = path_facts_of(line, facts);
        if (!line.log_file.empty()) {
            const std::string file = filled_path(line.log_file, known);
            if (const auto wrong = log.open_file(file, facts.host_name)) throw UsageError(*wrong);
        }
        observers.emplace(line, known, current_environment(), start, log);
        tell_remarks(line, log);
        return launch({called, words, plan, facts, known, secret, std::move(relay)}, *observers, log);
    } catch (const UsageError& error) {
        return end_by(one_line(as_said(said, error.what())), kExitUsage);
    } catch (const boost::system::system_error& error) {
        return end_by(sentence_of(error), kExitSystem);
    } catch (const std::system_error& error) {
        return end_by(error.what(), kExitSystem);
    } catch (const std::bad_alloc&) {
        log.error(
            "the system has no memory left for the launcher (see ulimit -v and the control group's limit)");
        return kExitSystem;
    } catch (const std::exception& error) {
        return end_by(std::string("internal error: ") + error.what(), kExitInternal);
    }
}

}  // namespace

int main(int argc, char** argv) {
    ddprun::open_missing_streams();
    // Its threads hardly ever allocate at once; a heap for each costs a start more than they ever save.
    ::mallopt(M_ARENA_MAX, 1);
    // A reader that goes away (a closed terminal, `| head`) must not take the job with it.
    ::signal(SIGPIPE, SIG_IGN);
    // One beyond the limit of a file's size is an error of write.
    ::signal(SIGXFSZ, SIG_IGN);
    if (argc > 1 && argv[1] == ddprun::kRelayFlag) return ddprun::run_relay({argv + 2, argv + argc});
    ddprun::LauncherLog log;
    bool exits_with_one = false;
    const int code =
        run(argc > 0 ? argv[0] : "", {argv + std::min(argc, 1), argv + argc}, log, exits_with_one);
    // Of a job that has run, the agent has taken care; 2 is then a wrong command line's.
    return exits_with_one && code != 0 && code != ddprun::kExitUsage ? 1 : code;
}
