#include "apps/ddprun/modes/doctor_command.hpp"

#include <algorithm>
#include <optional>

#include "launcher/features/node_check.hpp"
#include "launcher/plan/program.hpp"
#include "rendezvous/system/machine.hpp"

namespace ddprun::inline app {
namespace {

// There will be a worker for each usable GPU, or one.
std::size_t likely_workers(const Environment& environment) {
    return static_cast<std::size_t>(std::max(1, find_devices(environment, find_gpus()).count));
}

}  // namespace

bool is_doctor_command(const std::vector<std::string>& words, const std::string& called) {
    return !words.empty() && words.front() == kDoctorWord && called != kTorchrunName &&
           called != kLegacyLaunchName;
}

bool is_doctors_job(const std::vector<std::string>& program) {
    return program.size() > 2 && program[0] == kThisProgram && program[1] == kDoctorWord &&
           program[2] == kNodeRoleFlag;
}

LookRequest doctor_request(const Environment& environment, const std::string& log_dir) {
    LookRequest request;
    request.environment = environment;
    request.host = host_name();
    request.workers = likely_workers(environment);
    request.ports = {{kDefaultMasterPort}, {kDefaultC10dPort}};
    request.folders = folders_asked(environment, log_dir);
    request.asks_name = true;
    const std::string* python = find_variable(environment, "PYTHON_EXEC");
    request.python = python_name(python != nullptr ? std::optional(*python) : std::nullopt);
    request.limit = kDoctorLimit;
    return request;
}

}  // namespace ddprun::inline app
