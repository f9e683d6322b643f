// list_text(), status_text() and the functions here make the texts that ddpctl shows of jobs. Pure; texts of
// other programs come out harmless for a terminal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/jobs/job_folder.hpp"
#include "launcher/view/job_view.hpp"

namespace ddprun {
inline namespace app {

// Returns "running", "suspended", "ended, exit code 3", "lost".
std::string state_text(const Job& job);

// Says of a suspended job what lets it go on, and what ends it, in one line.
std::string suspended_text(const Job& job);

// Returns "12s", "3m05s", "2h07m", "4d03h".
std::string age_text(std::int64_t milliseconds);

// Writes one line for each job below a heading.
std::string list_text(const std::vector<Job>& jobs, std::int64_t now_unix_ms);

// Writes one fact a line. `status`: what the launcher answered, if it runs.
std::string status_text(const Job& job, const std::optional<JobView>& status, std::int64_t now_unix_ms);

// ToldEvent: a line of --events, as a node has told it.
struct ToldEvent {
    int node = 0;
    std::int64_t unix_ms = 0;
    std::string line;  // JSON, without a newline
};
// Appends the events of these lines; what is no JSON is passed over.
void add_events(std::vector<ToldEvent>& events, std::string_view lines, int node);
// Writes an event of ddprun's own in one line: when, on which node, its name, its members; of torchrun's
// nothing.
std::string event_text(const ToldEvent& event, bool names_node);

struct JobFacts {
    Job job;
    std::optional<JobView> status;
    std::optional<std::string> result_file;  // the text of result.json
};

// Writes the job's JobView (schema 1) as one JSON object; of a job that has ended, as far as its files tell.
// Further members: exit_code, folder, last_output_unix_ms (of a lost job), and `job` and `result` as job.json
// and result.json have them, null where there is none.
std::string status_json(const JobFacts& facts);

// Writes an array of such objects, in which `nodes` is how many nodes there are, with further members:
// launcher_pid, age_s and verdict_kind.
std::string list_json(const std::vector<JobFacts>& jobs, std::int64_t now_unix_ms);

}  // namespace app
}  // namespace ddprun
