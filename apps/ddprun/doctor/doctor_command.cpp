#include "apps/ddprun/doctor/doctor_command.hpp"

#include <algorithm>
#include <filesystem>

#include "apps/cli/print.hpp"
#include "apps/ddprun/command_line.hpp"
#include "launcher/agent/agent_link.hpp"
#include "launcher/doctor/diagnosis.hpp"
#include "launcher/output/log_folder.hpp"
#include "launcher/path_template.hpp"
#include "launcher/plan/program.hpp"
#include "rendezvous/net/local_addresses.hpp"

namespace ddprun::inline app {
namespace {

constexpr std::string_view kDoctorName = "doctor";
constexpr std::uint16_t kStaticPort = 29500;
constexpr std::uint16_t kC10dPort = 29400;

// The temporary files, those of a system without TMPDIR, the logs, and where the workers begin.
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

// Of the GPUs that workers may be started for, or one.
std::size_t likely_workers(const Environment& environment) {
    return static_cast<std::size_t>(std::max(1, find_devices(environment, find_gpus()).count));
}

}  // namespace

bool is_doctor_command(const std::vector<std::string>& words, const std::string& called) {
    return !words.empty() && words.front() == kDoctorName && called != kTorchrunName &&
           called != kLegacyLaunchName;
}

LookRequest doctor_request(const Environment& environment, const std::string& log_dir) {
    LookRequest request;
    request.environment = environment;
    request.host = host_name();
    request.workers = likely_workers(environment);
    request.ports = {{kStaticPort}, {kC10dPort}};
    request.folders = folders_asked(environment, log_dir);
    request.asks_name = true;
    const std::string* python = find_variable(environment, "PYTHON_EXEC");
    request.python = python_name(python != nullptr ? std::optional(*python) : std::nullopt);
    request.limit = kDoctorLimit;
    return request;
}

int run_doctor(const DoctorCall& call, const Environment& environment) {
    const NodeReport report = diagnose(look_around(doctor_request(environment, call.log_dir)));
    print(call.json ? to_json(report) : to_text(report));
    return state_of(report) == FindingState::problem ? kExitProblem : 0;
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
