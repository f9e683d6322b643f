// --detach: the launcher goes on in a session of its own while the shell has its prompt back.
//
// detach() forks: setsid, no terminal, stdin /dev/null, stdout and stderr one file. The parent stays until it is told
// that the workers run, or until the launcher has ended; it shows what the launcher itself says until then
// on its own stderr, no more and no less, and passes signals on. It is to be called while there is one thread only.
//
// DetachedJob is the feature of the detached process: it keeps the job's folder, answers ddpctl, and tells the one who
// started it that the workers run. If they never run, the folder is removed.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/feature.hpp"
#include "launcher/agent/launch_options.hpp"
#include "launcher/folder_claim.hpp"
#include "launcher/jobs/job_control.hpp"
#include "launcher/jobs/job_folder.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun::inline launch {

struct Detached {
    // The parent exits with this code now. 0: the workers run, and their job's id was printed.
    std::optional<int> exit_code;
    // The launcher has tell_started write to this.
    OwnedDescriptor starter;
};

// `output`: the file that the launcher's stdout and stderr become; made here, for its owner alone. Throws
// Error, then there is one process.
Detached detach(const std::filesystem::path& output);

// Lets the parent go, with the id it prints. It may have been killed; that is no trouble.
void tell_started(OwnedDescriptor starter, const std::string& id);

class DetachedJob : public Feature {
  public:
    // `folder` as make_starting_folder made it; `starter` is detach()'s. Throws Error.
    DetachedJob(std::filesystem::path folder, const LaunchOptions& options, std::vector<std::string> command,
                OwnedDescriptor starter);
    DetachedJob(const DetachedJob&) = delete;
    DetachedJob& operator=(const DetachedJob&) = delete;
    ~DetachedJob() override;

    bool wants_all_ranks() const override { return true; }
    void began(AgentControls& agent) override;
    void workers_run(const RoundReady& place) override;
    std::optional<std::string> ended(const JobResult& result) override;

  private:
    void write_record() const;
    SignalEffect effect_of(int signal) const;

    std::filesystem::path folder_;
    FolderClaim claim_;
    const LaunchOptions& options_;
    JobRecord record_;
    OwnedDescriptor starter_;
    bool published_ = false;
};

}  // namespace ddprun::inline launch
