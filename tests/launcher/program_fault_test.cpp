#include "launcher/program_fault.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <filesystem>

#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/other_user.hpp"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

std::string told(const std::optional<ProgramFault>& fault) {
    return fault ? std::to_string(fault->exit_code) + " " + fault->text : "none";
}

// Whoever is root may enter every folder.
template <typename Act>
bool holds_for_plain_user(Act holds) {
    const auto act = [&] { return holds() ? 0 : 1; };
    return (can_be_other_user() ? as_other_user(act) : act()) == 0;
}

}  // namespace

TEST_CASE("what is not found says why, and 127 only where nothing is there") {
    const TemporaryFolder folder;
    const auto at = [&folder](const std::string& name) { return (folder.path() / name).string(); };
    folder.file("plain", "");
    fs::create_symlink("gone", at("dangling"));
    fs::create_symlink("circle", at("circle"));
    CHECK(told(missing_fault(at("plain"))) == "none");
    CHECK(told(missing_fault(at("nothing"))) == "127 no such file");
    CHECK(told(missing_fault(at("far/away"))) == "127 no such file");
    CHECK(told(missing_fault("")) == "127 no such file");
    CHECK(told(missing_fault(at("dangling"))) == "127 it is a link to gone, which is not there");
    CHECK(told(missing_fault(at("circle"))) == "126 its links lead in a circle");
    CHECK(told(missing_fault(at("plain/x"))) == "126 " + at("plain") + " is no folder");
    CHECK(told(missing_fault(at("plain/"))) == "126 " + at("plain") + " is no folder");
    CHECK(told(missing_fault(at(std::string(300, 'x')))) == "126 its name is longer than the system takes");
}

TEST_CASE("a folder that may not be entered is named, also behind a link") {
    const TemporaryFolder folder;
    const auto at = [&folder](const std::string& name) { return (folder.path() / name).string(); };
    fs::create_directory(at("closed"));
    folder.file("closed/x", "", 0755);
    folder.file("secret", "", 0);
    fs::create_symlink("closed/x", at("link"));
    REQUIRE(::chmod(at("closed").c_str(), 0) == 0);
    REQUIRE(::chmod(folder.path().c_str(), 0755) == 0);
    const std::string refused = "126 permission denied: the folder " + at("closed") + " may not be entered";
    for (const std::string& name : {at("closed/x"), at("link"), at("closed/far/away"), at("link/x")}) {
        CAPTURE(name);
        CHECK(holds_for_plain_user([&] { return told(missing_fault(name)) == refused; }));
        CHECK(holds_for_plain_user([&] { return told(execution_fault(name)) == refused; }));
    }
    CHECK(holds_for_plain_user(
        [&] { return told(reading_fault(at("secret"))) == "126 permission denied: it may not be read"; }));
    CHECK(holds_for_plain_user(
        [&] { return told(reading_fault(at("closed"))) == "126 permission denied: it may not be entered"; }));
    CHECK(holds_for_plain_user([&] { return told(missing_fault(at("secret"))) == "none"; }));
    REQUIRE(::chmod(at("closed").c_str(), 0700) == 0);
}

TEST_CASE("a file that cannot be executed gets the advice that helps") {
    const struct {
        UnfitFile file;
        std::string text;
    } rows[] = {
        {{.name = "./train"}, "it is not executable; chmod +x makes it so"},
        {{.name = "./x.sh", .runner = "bash"},
         "it is not executable; chmod +x makes it so; or type bash ./x.sh"},
        {{.name = "x.sh", .runner = "bash"},
         "not found on PATH, and not executable here; chmod +x makes it so, for ./x.sh; or type bash x.sh"},
        {{.name = "./x.pl", .runner = "perl", .runs_by_itself = false},
         "it is not executable, and no first line (#!) names what runs it; type perl ./x.pl"},
        {{.name = "./my x.pl", .runner = "perl", .runs_by_itself = false},
         "it is not executable, and no first line (#!) names what runs it; type perl FILE"},
        {{.name = "./train", .is_ours = false}, "it is not executable, and only its owner can make it so"},
        {{.name = "./x.sh", .runner = "sh", .is_ours = false},
         "it is not executable, and only its owner can make it so; type sh ./x.sh"},
        {{.name = "./train", .is_noexec = true}, "its file system is mounted noexec; put it elsewhere"},
        {{.name = "./x.sh", .runner = "bash", .is_noexec = true},
         "its file system is mounted noexec; type bash ./x.sh"},
        {{.name = "./train", .is_read_only = true},
         "it is not executable, and its file system is mounted read-only; put it elsewhere"},
        {{.name = "./x.sh", .runner = "bash", .is_read_only = true},
         "it is not executable, and its file system is mounted read-only; type bash ./x.sh"}};
    for (const auto& [file, text] : rows) CHECK(told(fault_of(file)) == "126 " + text);
}

TEST_CASE("a file is looked at with its owner, its mount, its first line and its ending") {
    const TemporaryFolder folder;
    const auto made = [&folder](const std::string& name) { return folder.file(name, ""); };
    const auto fault = [](const std::string& name, const std::string& runner = {}) {
        return told(execution_fault(name, runner));
    };
    CHECK(fault(made("train")) == "126 it is not executable; chmod +x makes it so");
    const std::string shell = made("x.sh"), perl = made("x.pl");
    CHECK(fault(shell) == "126 it is not executable; chmod +x makes it so; or type bash " + shell);
    CHECK(fault(perl) ==
          "126 it is not executable, and no first line (#!) names what runs it; type perl " + perl);
    CHECK(fault(perl, "perl -w") ==
          "126 it is not executable; chmod +x makes it so; or type perl -w " + perl);
    CHECK(fault(folder.path()) == "126 it is a directory");
    CHECK(fault("/dev/null") == "126 it is no file that can be executed");
    CHECK(fault("no-such-name") == "127 not found on PATH");
    REQUIRE(::chmod(folder.path().c_str(), 0755) == 0);
    if (can_be_other_user())
        CHECK(holds_for_plain_user([&] {
            return fault(shell).find("only its owner can make it so; type bash") != std::string::npos;
        }));
    struct statvfs mount {};
    if (::statvfs("/proc/version", &mount) == 0 && (mount.f_flag & ST_NOEXEC) != 0)
        CHECK(fault("/proc/version") == "126 its file system is mounted noexec; put it elsewhere");
}

}  // namespace ddprun
