// ddprun: starts a distributed program on this node as part of a job, and supervises it.
#include <signal.h>

#include <cstdio>

#include "apps/ddprun/launch_plan.hpp"
#include "launcher/agent.hpp"
#include "launcher/log_folder.hpp"
#include "rendezvous/control_message.hpp"
#include "rendezvous/error.hpp"

namespace {

int run(const std::vector<std::string>& words, ddprun::Console& console) {
    using namespace ddprun;
    try {
        const CommandLine line = parse_command_line(words);
        if (line.show) return std::fputs(line.show->c_str(), stdout) < 0 ? kExitSystem : 0;
        if (const std::string wrong = log_dir_complaint(line.output); !wrong.empty()) throw UsageError(wrong);
        for (const std::string& name : line.unknown_signals) {
            if (line.verbosity == Verbosity::quiet) break;
            console.say("--signals-to-handle " + name + ": no signal that can be handled; passed over");
        }
        Agent agent(resolve_launch(line, find_node_facts()), console);
        return agent.run();
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
    ddprun::Console console;
    return run({argv + 1, argv + argc}, console);
}
