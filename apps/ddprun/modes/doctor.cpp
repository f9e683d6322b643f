#include "apps/cli/print.hpp"
#include "apps/ddprun/doctor/doctor_command.hpp"
#include "apps/ddprun/doctor/doctor_node.hpp"
#include "apps/ddprun/modes/mode.hpp"

namespace ddprun::inline app {

bool claims_doctor_node(Call& call) { return claims_doctor(call) && is_doctor_node(call.words()); }

int run_doctor_node_mode(Call& call) {
    call.secret();
    return run_doctor_node(call.words(), current_environment());
}

bool claims_doctor(Call& call) { return is_doctor_command(call.words(), call.name()); }

// The nodes are found as a launch finds them. One alone is looked at here; of several each is looked at by a worker there.
int run_doctor_mode(Call& call) {
    call.secret();
    const DoctorCall doctor = parse_doctor_call(call.words(), current_environment());
    if (doctor.show) {
        show_text(*doctor.show);
        return 0;
    }
    forget_job_variables();
    call.read(doctor.job_words);
    const auto adjust = [&doctor](StarterOptions& options) { become_doctors_job(doctor, options); };
    if (call.line().start.is_asked()) return start_job(call, call.line(), adjust);
    CommandLine& line = call.plan().line;
    if (line.start.is_asked()) return start_job(call, line, adjust);
    if (line.nnodes == 1) return run_doctor(doctor, current_environment());
    become_doctors_job(doctor, line);
    return run_launch_mode(call);
}

}  // namespace ddprun::inline app
