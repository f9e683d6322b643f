// ddprun: starts a distributed program on this node as part of a job, and supervises it.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "apps/cli/option_values.hpp"
#include "apps/ddprun/launch_plan.hpp"
#include "launcher/agent/agent.hpp"
#include "launcher/agent/rank_limits.hpp"
#include "launcher/jobs/detach.hpp"
#include "launcher/jobs/detached_job.hpp"
#include "launcher/jobs/job_folder.hpp"
#include "launcher/output/log_folder.hpp"
#include "rendezvous/coordinator/control_message.hpp"
#include "rendezvous/system/error.hpp"

namespace {

// In the process that returns to the shell and in the launcher that goes on.
int run_detached(const ddprun::LaunchOptions& options, const std::vector<std::string>& words,
                 ddprun::Console& console) {
    using namespace ddprun;
    const auto jobs = jobs_folder(std::getenv("XDG_RUNTIME_DIR"), ::geteuid());
    make_private_folder(jobs);
    prune_jobs(jobs);
    const auto folder = make_starting_folder(jobs);
    Detached detached;
    try {
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
    std::vector<std::string> command{"ddprun"};
    command.insert(command.end(), words.begin(), words.end());
    DetachedJob job(folder, options, std::move(command), std::move(detached.starter));
    return Agent(options, console, &job).run();
}

int run(const std::vector<std::string>& words, ddprun::Console& console) {
    using namespace ddprun;
    try {
        const CommandLine line = parse_command_line(words, current_environment());
        if (line.show) return std::fputs(line.show->c_str(), stdout) < 0 ? kExitSystem : 0;
        for (const std::string& name : line.unknown_signals) {
            if (line.verbosity == Verbosity::quiet) break;
            console.say("--signals-to-handle " + name + ": no signal that can be handled; passed over");
        }
        const LaunchOptions options = resolve_launch(line, find_node_facts(line));
        std::string wrong = result_file_complaint(options.result_file);
        if (wrong.empty()) wrong = log_dir_complaint(options.output);
        if (!wrong.empty()) throw UsageError(wrong);
        if (const std::string odd = local_rank_beyond_node(options);
            !odd.empty() && line.verbosity != Verbosity::quiet)
            console.say(odd + "; passed over on this node");
        if (line.verbosity == Verbosity::verbose && !options.interpreter.empty())
            console.say("the interpreter is " + options.interpreter);
        if (line.detach) return run_detached(options, words, console);
        return Agent(options, console).run();
    } catch (const UsageError& error) {
        console.say(error.what());
        return kExitUsage;
    } catch (const boost::system::system_error& error) {
        console.say(error.what());
        return kExitSystem;
    } catch (const std::exception& error) {
        console.say(std::string("internal error: ") + error.what());
        return kExitInternal;
    }
}

}  // namespace

int main(int argc, char** argv) {
    // A reader that goes away (a closed terminal, `| head`) must not take the job with it.
    ::signal(SIGPIPE, SIG_IGN);
    // One beyond the limit of a file's size is an error of write.
    ::signal(SIGXFSZ, SIG_IGN);
    ddprun::Console console;
    return run({argv + 1, argv + argc}, console);
}
