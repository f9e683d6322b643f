// ddpctl: lists, shows, follows and ends the jobs that `ddprun --detach` started, of this user on this node, and starts a run
// again that `ddprun --log-dir` has recorded.
#include <unistd.h>

#include <cstdio>

#include "apps/cli/option_values.hpp"
#include "apps/ddpctl/commands.hpp"
#include "launcher/jobs/job_folder.hpp"
#include "rendezvous/control/control_message.hpp"
#include "rendezvous/system/error.hpp"
#include "rendezvous/system/standard_streams.hpp"

namespace {

int fail_with(int code, const std::exception& error, const char* what = "") {
    std::fprintf(stderr, "ddpctl: %s%s\n", what, error.what());
    return code;
}

}  // namespace

int main(int argc, char** argv) {
    using namespace ddprun;
    open_missing_streams();
    try {
        const auto command = parse_control_command({argv + 1, argv + argc});
        return run_control_command(command, find_jobs_folder({current_environment(), ::geteuid()}));
    } catch (const UsageError& error) {
        return fail_with(kExitUsage, error);
    } catch (const boost::system::system_error& error) {
        return fail_with(kExitSystem, error);
    } catch (const std::exception& error) {
        return fail_with(kExitInternal, error, "internal error: ");
    }
}
