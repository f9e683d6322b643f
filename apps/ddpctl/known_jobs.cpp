#include "apps/ddpctl/known_jobs.hpp"

#include <fmt/core.h>
#include <poll.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "apps/cli/option_values.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/jobs/jobs_place.hpp"
#include "launcher/view/job_socket.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/system/small_file.hpp"

namespace ddprun {
inline namespace app {
namespace {

constexpr std::size_t kMaxResultShown = 64 << 20;
// Between the last word of a launcher and its end lies what it has to tidy up.
constexpr std::chrono::milliseconds kLeavingTimeout{20'000};
// How often a claim is looked at.
constexpr std::chrono::milliseconds kClaimPause{20};
// More than the 2 s after which a launcher tells what it knows without the other nodes.
constexpr std::chrono::milliseconds kListTimeout{5'000};

bool can_answer(const Job& job) { return job.state == JobState::running && !job.is_suspended; }

}  // namespace

LostJob::LostJob(const Job& job)
    : std::runtime_error(
          fmt::format("job {} is lost: its launcher ended without a result{}", harmless_line(job.id),
                      is_in_foreground(job) ? ", and of a job in the foreground no output is left" : "")) {}

void refuse_suspended(const Job& job) {
    if (job.is_suspended) fail(Errc::refused, suspended_text(job));
}

std::vector<Job> KnownJobs::all() const {
    return is_private_folder(folder_) ? list_jobs(folder_) : std::vector<Job>();
}

Job KnownJobs::find(const std::string& id) const { return value_or_throw<UsageError>(find_job(all(), id)); }

Job KnownJobs::find_printed(const std::string& id) const {
    Job job = find(id);
    if (job.state == JobState::lost && is_in_foreground(job)) throw LostJob(job);
    return job;
}

std::optional<Job> KnownJobs::after_end(const Job& job) const {
    try {
        if (const auto launcher = open_launcher(job)) {
            pollfd ended{launcher->get(), POLLIN, 0};
            while (::poll(&ended, 1, static_cast<int>(kLeavingTimeout.count())) < 0 && errno == EINTR) {
            }
        }
    } catch (const Error&) {
        // Of a launcher in another PID namespace the claim tells.
    }
    const auto deadline = std::chrono::steady_clock::now() + kLeavingTimeout;
    for (;;) {
        std::optional<Job> left;
        for (Job& now : all()) {
            if (now.id == job.id && now.record == job.record) left = std::move(now);
        }
        const bool is_over = !left || left->state != JobState::running;
        if (is_over || std::chrono::steady_clock::now() >= deadline) return left;
        // The guardian of a launcher that was killed holds its claim until the workers have ended, and no
        // event tells that a claim has become free.
        std::this_thread::sleep_for(kClaimPause);
    }
}

void KnownJobs::see_end(const Job& job) const {
    const auto left = after_end(job);
    if (left && left->state == JobState::lost) throw LostJob(*left);
}

std::optional<JobView> KnownJobs::status_of(const Job& job) {
    if (!can_answer(job)) return std::nullopt;
    return ask_status(job.folder);
}

std::vector<JobFacts> KnownJobs::facts_of(const std::vector<Job>& jobs) {
    std::vector<JobFacts> facts;
    std::vector<std::filesystem::path> asked;
    for (const Job& job : jobs) {
        facts.push_back({job, std::nullopt, result_of(job)});
        if (can_answer(job)) asked.push_back(job.folder);
    }
    auto views = ask_statuses(asked, kListTimeout);
    auto view = views.begin();
    for (JobFacts& one : facts) {
        if (can_answer(one.job)) one.status = std::move(*view++);
    }
    return facts;
}

std::optional<std::string> KnownJobs::result_of(const Job& job) {
    const auto result = read_small_file(job.folder / "result.json", kMaxResultShown);
    return result.has_value() ? std::optional(*result) : std::nullopt;
}

}  // namespace app
}  // namespace ddprun
