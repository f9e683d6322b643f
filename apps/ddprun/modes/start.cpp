#include "apps/ddprun/modes/mode.hpp"
#include "apps/ddprun/modes/run_file.hpp"
#include "apps/ddprun/plan/job_start.hpp"

namespace ddprun::inline app {

bool claims_start(Call& call) { return call.line().start.is_asked() || call.plan().line.start.is_asked(); }

int run_start_mode(Call& call) {
    return start_job(call, call.line().start.is_asked() ? call.line() : call.plan().line);
}

int start_job(Call& call, const CommandLine& line, const std::function<void(StarterOptions&)>& adjust) {
    StarterOptions options = resolve_start(line, find_starter_facts(line, call.secret()));
    if (line.output.files && !line.output.log_dir.empty())
        options.plan.run_record = run_record_of({call.called(), call.words(), {}});
    if (adjust) adjust(options);
    call.log().set_verbosity(line.verbosity);
    if (const std::string decided = start_line(line, options); !decided.empty()) call.log().info(decided);
    if (line.dry_run) return show_start(line, options);
    return run_starter(options);
}

}  // namespace ddprun::inline app
