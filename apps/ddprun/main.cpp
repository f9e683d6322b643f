// ddprun: starts a distributed program on this node as part of a job, and supervises it.
#include <malloc.h>
#include <signal.h>

#include <algorithm>
#include <new>
#include <system_error>

#include "apps/cli/option_values.hpp"
#include "apps/ddprun/modes/mode.hpp"
#include "launcher/process/open_files.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/system/error.hpp"
#include "rendezvous/system/own_process.hpp"

namespace {

// The first that claims a call runs it.
constexpr ddprun::Mode kModes[] = {{ddprun::claims_relay, ddprun::run_relay_mode},
                                   {ddprun::claims_doctor_node, ddprun::run_doctor_node_mode},
                                   {ddprun::claims_doctor, ddprun::run_doctor_mode},
                                   {ddprun::claims_show, ddprun::run_show_mode},
                                   {ddprun::claims_secret, ddprun::run_secret_mode},
                                   {ddprun::claims_explain, ddprun::run_explain_mode},
                                   {ddprun::claims_start, ddprun::run_start_mode},
                                   {ddprun::claims_adapt, ddprun::run_adapt_mode},
                                   {ddprun::claims_launch, ddprun::run_launch_mode}};

// An error's value may have a line break in it.
std::string one_line(std::string text) {
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
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

int run(ddprun::Call& call) {
    using namespace ddprun;
    const auto end_by = [&call](const std::string& why, int code) {
        call.log().error(why);
        const bool is_one = call.exits_with_one() && code != kExitUsage;
        if (auto& features = call.features()) features->fails(is_one ? 1 : code, why);
        return code;
    };
    try {
        const auto* mode = std::find_if(std::begin(kModes), std::end(kModes),
                                        [&call](const Mode& one) { return one.claims(call); });
        return mode->run(call);
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
    ddprun::LauncherLog log;
    ddprun::Call call(argc > 0 ? argv[0] : "", {argv + std::min(argc, 1), argv + argc}, log);
    const int code = run(call);
    // The agent has taken care of a job that has run; 2 is then a wrong command line's.
    return call.exits_with_one() && code != 0 && code != ddprun::kExitUsage ? 1 : code;
}
