// DetachedJob: what a launcher that was detached does besides its work: it keeps the job's folder, answers
// ddpctl, and tells the one who started it that the workers run.
//
// Made in the detached process before the agent, which it watches; outlives it. If the workers never run, the
// folder is removed.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/launch_options.hpp"
#include "launcher/folder_claim.hpp"
#include "launcher/jobs/job_control_server.hpp"
#include "launcher/jobs/job_record.hpp"
#include "launcher/jobs/reserved_file.hpp"
#include "launcher/watch/agent_watcher.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun::inline launch {

// Takes the room of the job's result in its folder, before the shell is let go. Throws Error.
ReservedFile reserve_result(const std::filesystem::path& folder);

class DetachedJob : public AgentWatcher {
  public:
    // `folder` as make_starting_folder made it; `room` is reserve_result()'s, `starter` detach()'s. Throws Error.
    DetachedJob(std::filesystem::path folder, const LaunchOptions& options, std::vector<std::string> command,
                ReservedFile room, OwnedDescriptor starter);
    DetachedJob(const DetachedJob&) = delete;
    DetachedJob& operator=(const DetachedJob&) = delete;
    ~DetachedJob() override;

    bool wants_all_ranks() const override { return true; }
    void began(const boost::asio::any_io_executor& executor, const AgentControls& controls) override;
    void workers_run(const RoundReady& place) override;
    std::optional<std::string> ended(const JobResult& result) override;

  private:
    [[noreturn]] void fail_record(const boost::system::error_code& error) const;
    SignalEffect effect_of(int signal) const;

    std::filesystem::path folder_;
    FolderClaim claim_;
    const LaunchOptions& options_;
    JobRecord record_;
    std::optional<ReservedFile> record_room_;
    ReservedFile room_;
    OwnedDescriptor starter_;
    bool published_ = false;
};

}  // namespace ddprun::inline launch
