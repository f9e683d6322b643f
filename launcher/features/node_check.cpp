#include "launcher/features/node_check.hpp"

#include <filesystem>
#include <utility>

#include "launcher/agent/agent_link.hpp"
#include "launcher/doctor/diagnosis.hpp"
#include "launcher/output/log_file.hpp"
#include "launcher/path_template.hpp"
#include "rendezvous/system/machine.hpp"

namespace ddprun {
inline namespace launch {

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

namespace {

class NodeCheck final : public Feature {
  public:
    NodeCheck(LauncherLog& log, LookRequest request) : log_(log), request_(std::move(request)) {}

    std::optional<std::string> unfit() override {
        std::optional<std::string> first;
        for (const Finding& finding : diagnose(look_around(request_)).findings) {
            if (finding.state == FindingState::warning) log_.debug("--check: " + line_of(finding));
            if (finding.state != FindingState::problem) continue;
            log_.error("--check: " + line_of(finding));
            if (!first) first = line_of(finding);
        }
        return first;
    }

  private:
    LauncherLog& log_;
    LookRequest request_;
};

}  // namespace

std::unique_ptr<Feature> make_node_check(const FeatureInputs& inputs) {
    const LaunchOptions& options = inputs.options;
    LookRequest request;
    request.environment = options.environment;
    request.host = host_name();
    request.workers = options.workers.size();
    const bool hosts = may_host(options) && options.hosting != Hosting::if_first && options.master_ports == 1;
    if (hosts && options.master.port != 0) request.ports = {{options.master.port, true}};
    request.folders = folders_asked(options.environment, options.output.files ? options.output.log_dir : "");
    return std::make_unique<NodeCheck>(inputs.log, std::move(request));
}

}  // namespace launch
}  // namespace ddprun
