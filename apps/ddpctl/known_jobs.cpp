#include "apps/ddpctl/known_jobs.hpp"

#include "apps/cli/option_values.hpp"
#include "launcher/jobs/jobs_place.hpp"
#include "launcher/view/job_socket.hpp"
#include "rendezvous/system/small_file.hpp"

namespace ddprun {
inline namespace app {
namespace {

constexpr std::size_t kMaxResultShown = 64 << 20;

}  // namespace

std::vector<Job> KnownJobs::all() const {
    return is_private_folder(folder_) ? list_jobs(folder_) : std::vector<Job>();
}

Job KnownJobs::find(const std::string& id) const { return value_or_throw<UsageError>(find_job(all(), id)); }

std::optional<JobView> KnownJobs::status_of(const Job& job) {
    if (job.state != JobState::running) return std::nullopt;
    return ask_status(job.folder);
}

std::optional<std::string> KnownJobs::result_of(const Job& job) {
    const auto result = read_small_file(job.folder / "result.json", kMaxResultShown);
    return result.has_value() ? std::optional(*result) : std::nullopt;
}

}  // namespace app
}  // namespace ddprun
