#include "launcher/start/code_files.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kOther = 61234, kThird = 61235;

// Planted is a working directory where everybody may make names, and the way back from it.
class Planted {
  public:
    Planted() {
        fs::current_path(folder_.path());
        open(".");
    }
    ~Planted() { fs::current_path(before_); }

    static void open(const std::string& name) { REQUIRE(::chmod(name.c_str(), 01777) == 0); }

    void folder(const std::string& name, uid_t owner) {
        fs::create_directories(name);
        open(name);
        REQUIRE(::chown(name.c_str(), owner, owner) == 0);
    }

    void file(const std::string& name, uid_t owner) {
        const std::string path = folder_.file(name, "");
        REQUIRE(::chmod(path.c_str(), 0755) == 0);
        REQUIRE(::chown(path.c_str(), owner, owner) == 0);
    }

  private:
    TemporaryFolder folder_;
    fs::path before_ = fs::current_path();
};

std::optional<std::string> foreign_by(const StartPlan& plan, const FileOwners& owners = {}) {
    const auto found = foreign_file(code_files(plan, {}), owners);
    return found ? std::optional(found->first) : std::nullopt;
}

StartPlan plan_of(std::vector<std::string> program, Environment environment = {}) {
    return {.directory = "/", .environment = std::move(environment), .program = std::move(program)};
}

}  // namespace

TEST_CASE("another user's file is found by whatever leads to it", "[start]") {
    if (::geteuid() != 0) {
        WARN("skipped: needs root, to make another user's files");
        return;
    }
    Planted planted;
    for (const char* folder : {"lib", "pkg", "mod", "tools", "theirs", "data"})
        planted.folder(folder, std::string_view(folder) == "theirs" ? kOther : 0);
    for (const char* file :
         {"x.py", "p.so", "lib/numpy.py", "lib/libx.so.1", "lib/strict.pm", "pkg/__main__.py", "mod/sub.so",
          "mod/__init__.py", "tools/aim", "tools/sh", "data/set", "one.py", "runpy.py"})
        planted.file(file, kOther);
    planted.file("mine.py", 0);
    const struct {
        StartPlan plan;
        std::optional<std::string> foreign;
    } rows[] = {
        {plan_of({"python3", "x.py"}), "x.py"},
        {plan_of({"python3", "mine.py"}), std::nullopt},
        {plan_of({"python3", "mine.py", "pkg"}), "pkg/__main__.py"},
        {plan_of({"python3", "mine.py", "data", "theirs"}), std::nullopt},
        {plan_of({"python3", "theirs"}), "theirs"},
        {plan_of({"python3", "-m", "one"}), "./one.py"},
        {plan_of({"python3", "-m", "none"}), "./runpy.py"},
        {plan_of({"sh", "-c", "python3 -m mod.sub"}), "./mod/__init__.py"},
        {plan_of({"python3", "-c", "1"}, {{"PYTHONPATH", "/none:lib"}}), "lib/numpy.py"},
        {plan_of({"true"}, {{"LD_LIBRARY_PATH", "lib"}}), "lib/libx.so.1"},
        {plan_of({"true"}, {{"PERL5LIB", "lib"}}), "lib/libx.so.1"},
        {plan_of({"true"}, {{"LD_PRELOAD", "libz.so ./p.so"}}), "./p.so"},
        {plan_of({"true", "PYTHONHOME=theirs"}), "theirs"},
        {plan_of({"aim"}, {{"PATH", "/none:tools"}}), "tools/aim"},
        {plan_of({"./mine.py"}, {{"PATH", "/none:tools"}}), "tools/sh"},
        {plan_of({"./mine.py"}, {{"PATH", "/bin:/usr/bin:tools"}}), std::nullopt},
        {plan_of({"./mine.py"}, {{"WANDB_DIR", "theirs"}}), std::nullopt},
        {plan_of({"./mine.py"}, {{"HOME", "."}}), std::nullopt},
    };
    for (const auto& [plan, foreign] : rows) {
        CAPTURE(plan.program, plan.environment);
        CHECK(foreign_by(plan) == foreign);
        // What is so at the starter, too, the user has chosen.
        CHECK_FALSE(foreign_by(plan, owners_here(code_files(plan, {}))));
    }
    planted.folder(".local", kOther);
    CHECK(foreign_by(plan_of({"true"}, {{"HOME", "."}})) == "./.local");
    StartPlan clean = plan_of({"aim"});
    clean.clean_environment = true;
    CHECK(foreign_file(code_files(clean, {{"PATH", "tools"}, {"LD_PRELOAD", "p.so"}}), {})->first ==
          "tools/aim");
}

TEST_CASE("a file's owners are those that it had at the starter, or that its folder had", "[start]") {
    if (::geteuid() != 0) {
        WARN("skipped: needs root, to make another user's files");
        return;
    }
    Planted planted;
    planted.folder("theirs", kOther);
    for (const char* file : {"theirs/x.py", "data"}) planted.file(file, kOther);
    planted.file("x.py", 0);
    planted.file("theirs/y.py", kThird);
    const StartPlan plan = plan_of({"python3", "x.py", "theirs/x.py", "theirs/y.py", "theirs/later", "data"});
    const FileOwners owners = owners_here(code_files(plan, {}));
    CHECK(owners == FileOwners{{"data", {kOther}}, {"theirs", {kOther}}, {"theirs/y.py", {kThird}}});
    CHECK_FALSE(foreign_by(plan, owners));
    REQUIRE(::chown("x.py", kOther, kOther) == 0);
    CHECK(foreign_by(plan, owners) == "x.py");
    REQUIRE(::chown("x.py", 0, 0) == 0);
    REQUIRE(::chown("theirs/x.py", kThird, kThird) == 0);
    CHECK(foreign_by(plan, owners) == "theirs/x.py");
}

}  // namespace ddprun
