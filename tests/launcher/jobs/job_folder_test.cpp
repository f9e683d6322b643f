#include "launcher/jobs/job_folder.hpp"
#include "launcher/jobs/job_record.hpp"
#include "launcher/jobs/jobs_place.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "launcher/folder_claim.hpp"
#include "launcher/process/process_table.hpp"
#include "rendezvous/base/error.hpp"
#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using std::chrono::hours;

JobRecord record_of(pid_t pid, std::int64_t start_unix_ms) {
    JobRecord record{.id = "id", .job_id = "id", .entry_name = "train.py", .directory = "/"};
    record.pid = pid;
    record.start_time = read_process_stat(pid).value().start_time;
    record.start_unix_ms = start_unix_ms;
    return record;
}

JobRecord dead_record(std::int64_t start_unix_ms) {
    JobRecord record = record_of(::getpid(), start_unix_ms);
    ++record.start_time;  // the number is another process's now
    return record;
}

void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

fs::path add_job(const fs::path& jobs, const std::string& id, const JobRecord& record) {
    fs::create_directory(jobs / id);
    write(jobs / id / "job.json", to_json(record));
    write(jobs / id / "output", "");
    return jobs / id;
}

void end_job(const fs::path& folder, int exit_code, hours ago = hours(0)) {
    write(folder / "result.json", R"({"exit_code":)" + std::to_string(exit_code) +
                                      R"(,"outcome":"failed","message":"","end_unix_ms":1,)"
                                      R"("restart_count":0,"max_restarts":0,"node_rank":0})");
    fs::last_write_time(folder / "result.json", fs::file_time_type::clock::now() - ago);
}

std::vector<std::string> sorted_names(const fs::path& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
}

Job job_named(const std::string& id) { return {.id = id, .folder = {}, .record = {}, .end = {}}; }

}  // namespace

TEST_CASE("a folder has its name only when the job has begun") {
    TemporaryFolder jobs;
    const fs::path starting = make_starting_folder(jobs.path());
    CHECK(fs::status(starting).permissions() == fs::perms::owner_all);
    CHECK(make_starting_folder(jobs.path()) != starting);
    write(starting / "output", "words");
    CHECK(list_jobs(jobs.path()).empty());
    const fs::path folder = publish_job_folder(starting, "none-1f");
    CHECK(folder == jobs.path() / "none-1f");
    CHECK(fs::exists(folder / "output"));
    remove_job_folder(starting);
    CHECK(fs::exists(folder / "output"));
    // No other job's folder is replaced.
    for (const char* name : {"none-1f-2", "none-1f-3"}) {
        const fs::path second = make_starting_folder(jobs.path());
        write(second / "output", "words");
        CHECK(publish_job_folder(second, "none-1f") == jobs.path() / name);
    }
    CHECK_THROWS_AS(publish_job_folder(jobs.path() / "missing", "none-1f"), Error);
    remove_job_folder(folder);
    CHECK_FALSE(fs::exists(folder));
    remove_job_folder("");
    CHECK_THROWS_WITH(make_starting_folder(jobs.path() / "missing"), Catch::Contains(kJobsVariable));
}

TEST_CASE("jobs run, have ended or are lost") {
    TemporaryFolder jobs;
    CHECK(list_jobs(jobs.path() / "missing").empty());
    add_job(jobs.path(), "d-runs", record_of(::getpid(), 400));
    end_job(add_job(jobs.path(), "c-ended", dead_record(300)), 7);
    // The launcher writes its result shortly before it ends.
    end_job(add_job(jobs.path(), "b-ends", record_of(::getpid(), 200)), 0);
    const fs::path lost = add_job(jobs.path(), "a-lost", dead_record(100));
    // The pid says nothing about the launcher of another PID namespace.
    const FolderClaim claim(add_job(jobs.path(), "e-elsewhere", dead_record(500)));
    fs::create_directory(jobs.path() / "destroyed");
    write(jobs.path() / "destroyed" / "job.json", "{");
    fs::create_directory_symlink(jobs.path() / "d-runs", jobs.path() / "link");
    write(jobs.path() / "file", "");
    make_starting_folder(jobs.path());

    const auto found = list_jobs(jobs.path());
    REQUIRE(found.size() == 6);
    const std::vector<std::pair<std::string, JobState>> expected{
        {"destroyed", JobState::lost}, {"a-lost", JobState::lost},    {"b-ends", JobState::ended},
        {"c-ended", JobState::ended},  {"d-runs", JobState::running}, {"e-elsewhere", JobState::running}};
    for (std::size_t i = 0; i < found.size(); ++i) {
        CHECK(found[i].id == expected[i].first);
        CHECK(found[i].state == expected[i].second);
    }
    CHECK_FALSE(found[0].record);
    CHECK(found[3].end->exit_code == 7);
    const auto touched =
        fs::last_write_time(lost / "output") - std::chrono::milliseconds(found[1].last_output_unix_ms);
    CHECK(std::chrono::file_clock::to_sys(touched).time_since_epoch() < std::chrono::milliseconds(1));
    CHECK(found[2].last_output_unix_ms == 0);
}

TEST_CASE("what is no job's is neither listed nor removed, however old it is") {
    TemporaryFolder jobs;
    const auto old = fs::file_time_type::clock::now() - hours(30 * 24);
    for (const char* name : {"src", ".git", ".starting-", ".starting-x", ".starting-longer1", "results"}) {
        fs::create_directory(jobs.path() / name);
        write(jobs.path() / name / "output", "words");
        write(jobs.path() / name / "result.json", "{}");
    }
    fs::create_directories(jobs.path() / "empty");
    fs::create_directories(jobs.path() / "record");
    write(jobs.path() / "record" / "job.json", R"({"name": "of another kind"})");
    for (const auto& entry : fs::directory_iterator(jobs.path())) fs::last_write_time(entry.path(), old);
    const auto before = sorted_names(jobs.path());
    remove_left_over(jobs.path());
    prune_jobs(jobs.path(), 0);
    CHECK(sorted_names(jobs.path()) == before);
    CHECK(fs::exists(jobs.path() / "src" / "output"));
    CHECK(fs::exists(jobs.path() / "record" / "job.json"));
    CHECK(list_jobs(jobs.path()).size() == 1);
}

TEST_CASE("of a job's folder goes what launchers put there, and nothing else") {
    TemporaryFolder jobs;
    TemporaryFolder elsewhere;
    write(elsewhere.path() / "output", "words");
    const fs::path folder = add_job(jobs.path(), "ended", dead_record(1));
    end_job(folder, 0);
    write(folder / ".ddprun-4711", "half of a result");
    fs::create_directory(folder / "mine");
    write(folder / "mine" / "output", "words");
    write(folder / "notes", "words");
    fs::create_symlink(elsewhere.path() / "output", folder / ".result");
    fs::create_directory_symlink(elsewhere.path(), folder / ".job");
    prune_jobs(jobs.path(), 0);
    CHECK(sorted_names(folder) == std::vector<std::string>{".job", ".result", "mine", "notes"});
    CHECK(fs::exists(folder / "mine" / "output"));
    CHECK(fs::exists(elsewhere.path() / "output"));
    remove_job_folder(elsewhere.path() / "missing");
    // A path that leads elsewhere is not followed.
    fs::create_directory_symlink(elsewhere.path(), jobs.path() / "link");
    remove_left_over(jobs.path());
    CHECK(fs::exists(elsewhere.path() / "output"));
}

TEST_CASE("a launcher is waited for by pid and start time") {
    TemporaryFolder jobs;
    Job job = job_named("none-1f");
    job.folder = jobs.path();
    CHECK_FALSE(open_launcher(job));
    job.record = dead_record(0);
    CHECK_FALSE(open_launcher(job));
    {
        const FolderClaim claim(jobs.path());
        CHECK(launcher_lives(job));
        CHECK_THROWS_WITH(open_launcher(job), Catch::Contains("none-1f runs in another PID namespace"));
    }
    int gate[2];
    REQUIRE(::pipe(gate) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
        char byte = 0;
        ::close(gate[1]);
        ::_exit(::read(gate[0], &byte, 1) == 0 ? 0 : 1);
    }
    job.record = record_of(child, 0);
    const auto launcher = open_launcher(job);
    REQUIRE(launcher);
    CHECK(launcher_lives(job));
    pollfd ended{launcher->get(), POLLIN, 0};
    CHECK(::poll(&ended, 1, 0) == 0);
    ::close(gate[0]);
    ::close(gate[1]);
    CHECK(::poll(&ended, 1, static_cast<int>(std::chrono::milliseconds(kHangGuard).count())) == 1);
    // Not reaped yet, and gone all the same.
    CHECK_FALSE(launcher_lives(job));
    CHECK_FALSE(open_launcher(job));
    ::waitpid(child, nullptr, 0);
    CHECK_FALSE(open_launcher(job));
}

TEST_CASE("a job is found by its id or by the beginning of it") {
    const std::vector<Job> jobs{job_named("none-12"), job_named("none-12.0"), job_named("none-123"),
                                job_named("other")};
    auto id_of = [&](const std::string& id) { return std::get<Job>(find_job(jobs, id)).id; };
    auto why_not = [&](const std::string& id) { return std::get<std::string>(find_job(jobs, id)); };
    CHECK(id_of("none-12") == "none-12");
    CHECK(id_of("none-123") == "none-123");
    CHECK(id_of("none-12.") == "none-12.0");
    CHECK(id_of("o") == "other");
    CHECK(why_not("none-1") == "'none-1' is the beginning of several ids: none-12, none-12.0, none-123");
    CHECK(why_not("x") == "no job 'x'; there are none-12, none-12.0, none-123, other");
    CHECK_THAT(why_not(""), Catch::Contains("no job ''"));
    CHECK(why_not("\x1b[31mx\n") == "no job 'x?'; there are none-12, none-12.0, none-123, other");
    // A program's whole name is that program's, with whatever number behind its signs.
    const std::vector<Job> programs{job_named("train-cea9"), job_named("train2-fb98"),
                                    job_named("train-x-0a1b"), job_named("eval-00ff"),
                                    job_named("eval-00ff-2")};
    CHECK(std::get<Job>(find_job(programs, "train")).id == "train-cea9");
    CHECK(std::get<Job>(find_job(programs, "train-x")).id == "train-x-0a1b");
    CHECK(std::get<std::string>(find_job(programs, "eval")) ==
          "'eval' is the beginning of several ids: eval-00ff, eval-00ff-2");
    CHECK(std::get<std::string>(find_job(programs, "tra")).find("several") != std::string::npos);
    // Of several the one that runs is meant; of several that run, none.
    std::vector<Job> alike = jobs;
    alike[1].state = JobState::running;
    CHECK(std::get<Job>(find_job(alike, "none-1")).id == "none-12.0");
    alike[2].state = JobState::running;
    CHECK_THAT(std::get<std::string>(find_job(alike, "none-1")), Catch::Contains("several"));
    CHECK(std::get<std::string>(find_job({}, "x")) == "no job 'x'; there is none at all");
    CHECK_THAT(std::get<std::string>(find_job(std::vector<Job>(50, job_named("a")), "x")),
               Catch::EndsWith("a and 40 more"));
}

TEST_CASE("of ended jobs only the newest are kept") {
    TemporaryFolder jobs;
    add_job(jobs.path(), "runs", record_of(::getpid(), 1));
    for (int i = 0; i < 6; ++i) {
        const fs::path folder = add_job(jobs.path(), "ended-" + std::to_string(i), dead_record(1));
        end_job(folder, 0, hours(i));
    }
    const fs::path lost = add_job(jobs.path(), "lost", dead_record(1));
    fs::last_write_time(lost / "output", fs::file_time_type::clock::now() - hours(1) - hours(1) / 2);
    prune_jobs(jobs.path(), 4);
    CHECK(sorted_names(jobs.path()) ==
          std::vector<std::string>{"ended-0", "ended-1", "ended-2", "lost", "runs"});
    prune_jobs(jobs.path());
    CHECK(sorted_names(jobs.path()).size() == 5);
    prune_jobs(jobs.path(), 0);
    CHECK(sorted_names(jobs.path()) == std::vector<std::string>{"runs"});
    prune_jobs(jobs.path() / "missing", 0);
}

TEST_CASE("what launchers left that died while they started is removed") {
    TemporaryFolder jobs;
    const auto started = [&](hours ago, const std::optional<JobRecord>& record) {
        const fs::path folder = make_starting_folder(jobs.path());
        if (record) write(folder / "job.json", to_json(*record));
        fs::last_write_time(folder, fs::file_time_type::clock::now() - ago);
        return folder;
    };
    const fs::path fresh = started(hours(0), std::nullopt);
    // Not claimed yet, or of another PID namespace: for some time nobody can know.
    const fs::path fresh_record = started(hours(0), dead_record(1));
    const fs::path old = started(hours(1), std::nullopt);
    const fs::path dead = started(hours(1), dead_record(1));
    const fs::path waits = started(hours(1), record_of(::getpid(), 1));
    const fs::path waits_elsewhere = started(hours(1), dead_record(1));
    const FolderClaim claim(waits_elsewhere);
    prune_jobs(jobs.path());
    for (const fs::path& kept : {fresh, fresh_record, waits, waits_elsewhere}) CHECK(fs::exists(kept));
    for (const fs::path& gone : {old, dead}) CHECK_FALSE(fs::exists(gone));
}

}  // namespace ddprun
