// --detach: the launcher goes on in a session of its own while the shell has its prompt back.
//
// detach() forks: setsid, no terminal, stdin /dev/null, stdout and stderr one file. The parent stays until it is told
// that the workers run, or until the launcher has ended; it shows what the launcher itself says until then
// on its own stderr, no more and no less, and passes signals on. It is to be called while there is one thread only.
//
// DetachedJob is the feature of the detached process: it keeps the job's folder, answers ddpctl, and tells the one who
// started it that the workers run. If they never run, the folder is removed; if something else removes it later, it is made anew.
#pragma once

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/agent/feature.hpp"
#include "launcher/agent/launch_options.hpp"
#include "launcher/folder_claim.hpp"
#include "launcher/jobs/job_folder.hpp"
#include "launcher/view/routes.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun::inline launch {

struct Detached {
    // In the parent: the code to exit with now. 0: the workers run, and their job's id was printed.
    std::optional<int> exit_code;
    // In the launcher: where tell_started is to write to.
    OwnedDescriptor starter;
};

// `output`: the file that the launcher's stdout and stderr become; made here, for its owner alone. Throws
// Error, then there is one process.
Detached detach(const std::filesystem::path& output);

// Lets the parent go, with the id it prints. It may have been killed; that is no trouble.
void tell_started(OwnedDescriptor starter, const std::string& id);

// A small file whose room on the disk is taken before it is needed, so that a disk that is full by then does not matter. It
// has another name until it is written. It blocks, shortly, and is used by one thread.
class ReservedFile {
  public:
    // Makes the file, for its owner alone, with room for so many bytes. Throws Error, and leaves nothing then.
    ReservedFile(const std::filesystem::path& path, std::size_t bytes);

    // Room for so many bytes in all, if there is that much; else it stays as it is.
    void grow(std::size_t bytes);

    // Writes the text, syncs it to the disk and gives the file, which is at `now`, its name. More text than there is
    // room for may find some.
    boost::system::error_code become(const std::filesystem::path& now, const std::filesystem::path& name,
                                     std::string_view text);

  private:
    OwnedDescriptor file_;
};

// Takes the room of the job's result in its folder, before the shell is let go. Throws Error.
ReservedFile reserve_result(const std::filesystem::path& folder);

class DetachedJob : public Feature {
  public:
    // `folder` as make_starting_folder made it; `room` is reserve_result()'s, `starter` detach()'s. Throws Error.
    DetachedJob(std::filesystem::path folder, const LaunchOptions& options, std::vector<std::string> command,
                ReservedFile room, OwnedDescriptor starter);
    DetachedJob(const DetachedJob&) = delete;
    DetachedJob& operator=(const DetachedJob&) = delete;
    ~DetachedJob() override;

    bool wants_all_ranks() const override { return true; }
    void began(AgentControls& agent) override;
    void workers_run(const RoundReady& place) override;
    std::optional<std::string> ended(const JobResult& result) override;

  private:
    [[noreturn]] void fail_record(const boost::system::error_code& error) const;
    SignalEffect effect_of(int signal) const;
    void serve();
    void watch();
    void make_anew();

    std::filesystem::path folder_;
    FolderClaim claim_;
    const LaunchOptions& options_;
    JobRecord record_;
    std::optional<ReservedFile> record_room_;
    ReservedFile room_;
    std::size_t room_size_ = 0;  // of the result, once it is known how many ranks it tells of
    OwnedDescriptor starter_;
    AgentControls* agent_ = nullptr;  // until the job is over
    bool published_ = false;
};

}  // namespace ddprun::inline launch
