#include "apps/ddprun/modes/doctor_command.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "launcher/agent/agent_link.hpp"
#include "launcher/doctor/diagnosis.hpp"
#include "launcher/output/log_file.hpp"
#include "launcher/path_template.hpp"
#include "launcher/plan/program.hpp"
#include "rendezvous/system/machine.hpp"

namespace ddprun::inline app {
namespace {

// Doctor looks at the folder for temporary files, at /tmp for programs that ignore TMPDIR, at the folder for logs, and at the
// current folder, where the workers begin.
std::vector<FolderQuestion> folders_asked(const Environment& environment, const std::string& log_dir) {
    const std::string temporary = temporary_folder(environment);
    std::vector<FolderQuestion> folders{{"temporary files", temporary}};
    if (std::filesystem::path(temporary).lexically_normal() != "/tmp")
        folders.push_back({"temporary files of programs without TMPDIR", "/tmp"});
    if (!log_dir.empty() && log_dir != "/dev/null") {
        const std::string place = fixed_part(log_dir).string();
        folders.push_back({"logs", place.empty() ? "." : place, true, true});
    }
    std::error_code ignored;
    const std::filesystem::path current = std::filesystem::current_path(ignored);
    folders.push_back({"current folder", current.empty() ? "." : current.string(), false});
    return folders;
}

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

NodeReport check_node(const LaunchOptions& options) {
    LookRequest request;
    request.environment = options.environment;
    request.host = host_name();
    request.workers = options.workers.size();
    const bool hosts = may_host(options) && options.hosting != Hosting::if_first && options.master_ports == 1;
    if (hosts && options.master.port != 0) request.ports = {{options.master.port, true}};
    request.folders = folders_asked(options.environment, options.output.files ? options.output.log_dir : "");
    request.limit = kCheckLimit;
    return diagnose(look_around(request));
}

}  // namespace ddprun::inline app
