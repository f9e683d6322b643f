// KnownJobs are the jobs of this user on this node, as their folders and their launchers tell of them.
// Blocking, bounded.
#pragma once

#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "apps/ddpctl/job_text.hpp"
#include "launcher/jobs/job_folder.hpp"

namespace ddprun {
inline namespace app {

// LostJob: the launcher of the job has ended without a result, as one line. main ends with kExitUnavailable.
class LostJob : public std::runtime_error {
  public:
    explicit LostJob(const Job& job);
};

// Throws Error for a job that is suspended: its launcher gives no answers.
void refuse_suspended(const Job& job);

class KnownJobs {
  public:
    // Keeps `folder`, which is find_jobs_folder()'s.
    explicit KnownJobs(std::filesystem::path folder) : folder_(std::move(folder)) {}

    // Returns all jobs. Throws Error if the folder is not this user's alone; find() does, too.
    std::vector<Job> all() const;
    // Returns the job of this id. Throws UsageError if there is none.
    Job find(const std::string& id) const;
    // Returns the job of this id for what it has printed. Throws as find() does, and LostJob where nothing is
    // left of that.
    Job find_printed(const std::string& id) const;

    // Waits for the end of a launcher that is about to end, and returns what is left of its job then: nothing
    // where a job in the foreground has ended in order.
    std::optional<Job> after_end(const Job& job) const;
    // Waits likewise. Throws LostJob where the launcher leaves no result.
    void see_end(const Job& job) const;

    // Returns what the launcher says, if it runs and is not suspended. Throws Error where it does not answer.
    static std::optional<JobView> status_of(const Job& job);
    // Returns what is known of each of these jobs: their launchers are asked side by side.
    static std::vector<JobFacts> facts_of(const std::vector<Job>& jobs);
    // Returns the text of result.json, if it is there.
    static std::optional<std::string> result_of(const Job& job);

  private:
    std::filesystem::path folder_;
};

}  // namespace app
}  // namespace ddprun
