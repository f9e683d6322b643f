// ddprun: starts a distributed program on this node as part of a job, and supervises it.
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <new>
#include <optional>
#include <system_error>

#include "apps/cli/option_values.hpp"
#include "apps/ddprun/dry_run.hpp"
#include "apps/ddprun/job_secret.hpp"
#include "apps/ddprun/launch_plan.hpp"
#include "launcher/agent/agent.hpp"
#include "launcher/agent/job_terms.hpp"
#include "launcher/agent/rank_limits.hpp"
#include "launcher/jobs/detach.hpp"
#include "launcher/jobs/detached_job.hpp"
#include "launcher/jobs/job_folder.hpp"
#include "launcher/jobs/jobs_place.hpp"
#include "launcher/output/log_folder.hpp"
#include "launcher/process/open_files.hpp"
#include "launcher/process/process_table.hpp"
#include "rendezvous/control/control_message.hpp"
#include "rendezvous/etcd/tls_context.hpp"
#include "rendezvous/system/error.hpp"
#include "rendezvous/system/standard_streams.hpp"

namespace {

// In the process that returns to the shell and in the launcher that goes on.
int run_detached(ddprun::LaunchOptions options, const std::vector<std::string>& words,
                 ddprun::LauncherLog& log) {
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
        // A launcher that was killed could not do it.
        if (*detached.exit_code != 0) remove_starting_folder(folder);
        return *detached.exit_code;
    }
    options.is_detached = true;
    std::vector<std::string> command{"ddprun"};
    command.insert(command.end(), words.begin(), words.end());
    DetachedJob job(folder, options, std::move(command), std::move(*room), std::move(detached.starter));
    return run_agent(options, log, &job);
}

// `exits_with_one` is what the user says of that, as soon as it is known.
int run(const std::string& called, const std::vector<std::string>& words, ddprun::LauncherLog& log,
        bool& exits_with_one) {
    using namespace ddprun;
    try {
        std::string secret = take_variable(kSecretVariable);
        const CommandLine line = parse_command_line(words, current_environment(),
                                                    std::filesystem::path(called).filename().string());
        exits_with_one = line.exits_with_one;
        if (line.show) return std::fputs(line.show->c_str(), stdout) < 0 ? kExitSystem : 0;
        if (line.makes_secret) return make_secret();
        log.set_verbosity(line.verbosity);
        const NodeFacts facts = find_node_facts(line, called);
        const PathFacts known = path_facts_of(line, facts);
        if (!line.log_file.empty()) {
            const std::string file = filled_path(line.log_file, known);
            if (const auto wrong = log.open_file(file, facts.host_name)) throw UsageError(*wrong);
        }
        for (const std::string& remark : line.remarks) log.info(remark);
        for (const std::string& name : line.unknown_signals)
            log.info("--signals-to-handle " + name + ": no signal that can be handled; passed over");
        if (line.address_assumed)
            log.info(
                "no --master-addr or --rdzv-endpoint: the nodes meet at 127.0.0.1, which other machines "
                "cannot reach");
        for (const std::string& complaint : line.rdzv_conf.complaints) log.warn(complaint);
        LaunchOptions options = resolve_launch(line, facts);
        if (!options.host_list.complaint.empty()) log.warn(options.host_list.complaint);
        for (const std::string& remark : options.placement_remarks) log.warn(remark);
        if (line.dry_run)
            return std::fputs(dry_run_text(options, host_name()).c_str(), stdout) < 0 ? kExitSystem : 0;
        // On loopback only this machine's processes call, and who they are the system says.
        const bool is_open = may_host(options) && leads_out(options.listen);
        options.key = find_job_key(line, secret, is_open, log);
        if (line.store_access == StoreAccess::door && line.nnodes > 1 && !options.key)
            throw UsageError("--store door: agents need a secret for that (--make-secret)");
        options.open_files = raise_open_files();
        if (const auto wrong = result_file_complaint(filled_path(options.result_file, known)))
            throw UsageError(*wrong);
        if (const auto wrong = log_dir_complaint(options.output)) throw UsageError(*wrong);
        if (options.etcd && options.etcd->tls) {
            if (const auto wrong = complaint_about(*options.etcd->tls)) throw UsageError(*wrong);
        }
        if (!sees_own_processes())
            log.warn(
                "/proc does not show this process (not mounted?): what workers start in sessions of their "
                "own can be "
                "neither found nor ended");
        if (const auto odd = local_rank_beyond_node(options)) log.info(*odd + "; passed over on this node");
        if (!options.interpreter.empty()) log.debug("the interpreter is " + options.interpreter);
        if (line.detach) return run_detached(options, words, log);
        return run_agent(options, log);
    } catch (const UsageError& error) {
        log.error(error.what());
        return kExitUsage;
    } catch (const boost::system::system_error& error) {
        log.error(error.what());
        return kExitSystem;
    } catch (const std::system_error& error) {
        log.error(error.what());
        return kExitSystem;
    } catch (const std::bad_alloc&) {
        log.error(
            "the system has no memory left for the launcher (see ulimit -v and the control group's limit)");
        return kExitSystem;
    } catch (const std::exception& error) {
        log.error(std::string("internal error: ") + error.what());
        return kExitInternal;
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
    ddprun::LauncherLog log;
    bool exits_with_one = false;
    const int code =
        run(argc > 0 ? argv[0] : "", {argv + std::min(argc, 1), argv + argc}, log, exits_with_one);
    // Of a job that has run, the agent has taken care; 2 is then a wrong command line's.
    return exits_with_one && code != 0 && code != ddprun::kExitUsage ? 1 : code;
}
