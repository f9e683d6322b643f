// ddpctl: lists, shows, follows and ends the jobs of this user on this node.
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <variant>

#include "apps/cli/option_values.hpp"
#include "apps/cli/print.hpp"
#include "apps/ddpctl/command_line.hpp"
#include "launcher/jobs/job_folder.hpp"
#include "launcher/jobs/jobs_place.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/system/own_process.hpp"

namespace ddprun {
inline namespace app {
namespace {

int run(std::vector<std::string> words) {
    const auto parsed = parse_control_command(std::move(words));
    if (const auto* text = std::get_if<std::string>(&parsed)) {
        print(*text);
        return 0;
    }
    return std::get<std::unique_ptr<Command>>(parsed)->run(
        KnownJobs(find_jobs_folder({current_environment(), ::geteuid()})));
}

int fail_with(int code, const std::exception& error, const char* what = "") {
    std::fprintf(stderr, "ddpctl: %s%s\n", what, error.what());
    return code;
}

}  // namespace

}  // namespace app
}  // namespace ddprun

int main(int argc, char** argv) {
    using namespace ddprun;
    open_missing_streams();
    try {
        return run({argv + 1, argv + argc});
    } catch (const UsageError& error) {
        return fail_with(kExitUsage, error);
    } catch (const LostJob& error) {
        return fail_with(kExitUnavailable, error);
    } catch (const boost::system::system_error& error) {
        return fail_with(kExitSystem, error);
    } catch (const std::exception& error) {
        return fail_with(kExitInternal, error, "internal error: ");
    }
}
