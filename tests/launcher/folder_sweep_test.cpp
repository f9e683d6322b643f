#include "launcher/folder_claim.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "launcher/output/log_file.hpp"
#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using std::chrono::hours;

// A folder among the temporary files, with these files in it, last touched so long ago.
fs::path left(const fs::path& temporary, const std::string& name, const std::vector<std::string>& files,
              hours ago = hours(25), int mode = 0700) {
    const fs::path folder = temporary / name;
    fs::create_directory(folder);
    ::chmod(folder.c_str(), static_cast<mode_t>(mode));
    for (const std::string& file : files) {
        fs::create_directories((folder / file).parent_path());
        std::ofstream(folder / file) << "{}";
    }
    fs::last_write_time(folder, fs::file_time_type::clock::now() - ago);
    return folder;
}

std::set<std::string> names_in(const fs::path& folder) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
    return names;
}

}  // namespace

TEST_CASE("sweep: old folders of dead launchers go unless they hold logs") {
    TemporaryFolder temporary;
    const fs::path& there = temporary.path();
    left(there, "ddprun_empty1", {});
    left(there, "ddprun_error1", {"attempt_0_1_error.json", "attempt_0_3_error.json"});
    left(there, "ddprun_error2", {"none_aB3dE6/attempt_0/0/error.json"});
    const std::set<std::string> gone = names_in(there);

    left(there, "ddprun_young1", {"attempt_0_1_error.json"}, hours(23));
    left(there, "ddprun_logs01",
         {"none_aB3dE6/attempt_0/0/stdout.log", "none_aB3dE6/attempt_0/0/error.json"});
    left(there, "ddprun_other1", {"notes.txt"});
    left(there, "ddprun_shared", {}, hours(25), 0755);
    left(there, "ddprun_backups", {});
    left(there, "ddprun_back-1", {});
    left(there, "mkdtemp_aB3dE6", {});
    fs::create_directory_symlink(left(there, "target", {}), there / "ddprun_link01");
    const fs::path lives = left(there, "ddprun_lives1", {"attempt_0_1_error.json"});
    const FolderClaim claim(lives);
    fs::create_symlink("/", left(there, "ddprun_linked", {}) / "error.json");
    fs::last_write_time(there / "ddprun_linked", fs::file_time_type::clock::now() - hours(25));
    std::set<std::string> kept = names_in(there);
    for (const std::string& name : gone) kept.erase(name);

    sweep_temporary_folders(there);
    CHECK(names_in(there) == kept);
    sweep_temporary_folders(there / "missing");
}

TEST_CASE("sweep: bounded, whatever there is") {
    TemporaryFolder temporary;
    for (int i = 0; i < 40; ++i) left(temporary.path(), "ddprun_" + std::to_string(100'000 + i), {});
    sweep_temporary_folders(temporary.path());
    CHECK(names_in(temporary.path()).size() == 32);
    sweep_temporary_folders(temporary.path(), {.bytes_of_list = 200});
    CHECK(names_in(temporary.path()).size() < 32);
    CHECK(names_in(temporary.path()).size() >= 27);
    const std::size_t before = names_in(temporary.path()).size();
    sweep_temporary_folders(temporary.path(), {.max_folders_seen = 2});
    CHECK(names_in(temporary.path()).size() == before - 2);
    sweep_temporary_folders(temporary.path(), {.max_folders_removed = 100});
    CHECK(names_in(temporary.path()).empty());
    const fs::path many =
        left(temporary.path(), "ddprun_many01", {"0_error.json", "1_error.json", "2_error.json"});
    sweep_temporary_folders(temporary.path(), {.max_entries_inside = 2});
    CHECK(fs::exists(many));
}

TEST_CASE("sweep: a launcher's own folder is claimed, and its end sweeps") {
    TemporaryFolder temporary;
    left(temporary.path(), "ddprun_error1", {"attempt_0_1_error.json"});
    fs::path own;
    {
        LogFolder logs(OutputPlan(), temporary.path());
        own = logs.round({.run_id = "none"}, 0);
        CHECK(claim_on(own) == ClaimState::held);
        std::ofstream(logs.error_file(own.string(), 0)) << "{}";
        CHECK(names_in(temporary.path()).size() == 2);
    }
    CHECK(names_in(temporary.path()) == std::set<std::string>{own.filename()});
    CHECK(claim_on(own) == ClaimState::free);
}

}  // namespace ddprun
