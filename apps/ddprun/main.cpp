// ddprun: starts a distributed program on this node as part of a job, and supervises it.
#include <malloc.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <system_error>

#include "apps/cli/option_values.hpp"
#include "apps/cli/print.hpp"
#include "apps/ddprun/modes/mode.hpp"
#include "apps/ddprun/plan/adapted_task.hpp"
#include "apps/ddprun/plan/job_secret.hpp"
#include "apps/ddprun/plan/program_input.hpp"
#include "launcher/process/descriptors.hpp"
#include "launcher/start/relay.hpp"
#include "launcher/start/remote_shell.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/secure/secret.hpp"
#include "rendezvous/system/own_process.hpp"
#include "rendezvous/system/quiet_thread.hpp"

// Each is defined in a file of modes/.
namespace ddprun {
inline namespace app {
extern const Mode kDoctorNodeMode, kDoctorMode, kExplainMode, kStartMode, kLaunchMode;
}  // namespace app
}  // namespace ddprun

namespace {

int make_secret(ddprun::Call&) {
    const auto path = ddprun::users_secret_file();
    if (const auto wrong = ddprun::make_secret_file(path))
        throw ddprun::UsageError("--make-secret: " + *wrong);
    std::printf("%s\n", path.c_str());
    return 0;
}

using ddprun::Call;

// A process of a start on several hosts that reaches further ones.
constexpr ddprun::Mode kRelayMode{
    [](Call& call) { return !call.words().empty() && call.words().front() == ddprun::kRelayFlag; },
    [](Call& call) {
        return ddprun::run_relay({call.words().begin() + 1, call.words().end()});
    }};

// --help, --version and the documentation.
constexpr ddprun::Mode kTextMode{[](Call& call) { return call.line().show.has_value(); },
                                 [](Call& call) {
                                     ddprun::show_text(*call.line().show);
                                     return 0;
                                 }};

constexpr ddprun::Mode kSecretMode{[](Call& call) { return call.line().makes_secret; }, make_secret};

// --adapt: this process becomes the one worker that a process launcher has started it for.
constexpr ddprun::Mode kTaskMode{[](Call& call) { return call.line().adapt && !call.line().dry_run; },
                                 [](Call& call) -> int {
                                     const ddprun::AdaptedTask task =
                                         ddprun::find_adapted_task(ddprun::with_read_program(call.plan()));
                                     if (!task.fault) ddprun::become_task(task);
                                     call.log().error(task.fault->text);
                                     return task.fault->exit_code;
                                 }};

// The first that claims a call runs it.
constexpr const ddprun::Mode* kModes[] = {
    &kRelayMode,           &ddprun::kDoctorNodeMode, &ddprun::kDoctorMode, &kTextMode,          &kSecretMode,
    &ddprun::kExplainMode, &ddprun::kStartMode,      &kTaskMode,           &ddprun::kLaunchMode};

// An error's value may have a line break in it.
std::string one_line(std::string text) {
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
}

// Asio's text about a descriptor that could not be had names its own parts, and no remedy.
std::string sentence_of(const boost::system::system_error& error) {
    const std::string remedy = ddprun::limit_remedy(error.code().value());
    if (error.code() != boost::system::errc::too_many_files_open) return error.what();
    if (dynamic_cast<const ddprun::Error*>(&error) == nullptr)
        return "no descriptor is left for the launcher" + remedy + ": " + error.code().message();
    const std::string text = error.what();
    return text.find(remedy) == std::string::npos ? text + remedy : text;
}

int run(ddprun::Call& call) {
    using namespace ddprun;
    const auto end_by = [&call](const std::string& why, int code) {
        code == kExitUsage && !call.speaks_for_node() ? call.log().debug(why) : call.log().error(why);
        const bool is_one = call.exits_with_one() && code != kExitUsage;
        if (auto& features = call.features())
            Features(features->all()).at(&Feature::launch_failed, is_one ? 1 : code, why);
        return code;
    };
    try {
        const auto* mode = std::find_if(std::begin(kModes), std::end(kModes),
                                        [&call](const Mode* one) { return one->claims(call); });
        return (*mode)->run(call);
    } catch (const UsageError& error) {
        return end_by(one_line(call.said(error.what())), kExitUsage);
    } catch (const boost::system::system_error& error) {
        return end_by(sentence_of(error), kExitSystem);
    } catch (const std::system_error& error) {
        return end_by(error.what(), kExitSystem);
    } catch (const std::bad_alloc&) {
        call.log().error(
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
    // A write beyond the limit of a file's size is then an error of write.
    ::signal(SIGXFSZ, SIG_IGN);
    // What has started the launcher may have blocked the signals by which it is told to end.
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ddprun::LauncherLog log;
    ddprun::Call call(argc > 0 ? argv[0] : "", {argv + std::min(argc, 1), argv + argc}, log);
    const int code = run(call);
    ddprun::block_signals();
    // The agent has taken care of a job that has run; 2 is then a wrong command line's.
    return call.exits_with_one() && code != 0 && code != ddprun::kExitUsage ? 1 : code;
}
