#include "launcher/plan/program.hpp"

#include <filesystem>
#include <fstream>

#include "rendezvous/job/exit_status.hpp"
#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

void write_program(const fs::path& file, const std::string& text) {
    std::ofstream(file, std::ios::binary) << text;
}

}  // namespace

TEST_CASE("what lies there is for Python where nothing else could run it") {
    const TemporaryFolder folder;
    const auto at = [&folder](const char* name) { return (folder.path() / name).string(); };
    for (const char* name : {"package", "folder"}) fs::create_directory(at(name));
    write_program(at("package/__main__.py"), "");
    write_program(at("script"), "print(1)\n");
    write_program(at("empty"), "");
    for (const char* name : {"x.sh", "x.bash", "x.pl", "x.R", "x.js", "x.py", "x.txt"})
        write_program(at(name), "print(1)\n");
    for (const char* name : {"python", "py.sh"})
        write_program(at(name), "#!/usr/bin/env python3\nprint(1)\n");
    write_program(at("sh.py"), "#!/bin/sh\n");
    write_program(at("shell"), "#!/bin/sh\npython=3\n");
    write_program(at("binary"),
                  "\x7f"
                  "ELF\x02\x01");
    write_program(at("zip"), "PK\x03\x04....");
    write_program(at("zipapp"), "#!/usr/bin/python3\nPK\x03\x04....");
    const struct {
        const char* name;
        bool not_executable, executable;
    } rows[] = {
        {"package", true, true},   {"folder", false, false}, {"script", true, false},
        {"empty", true, false},    {"python", true, false},  {"shell", false, false},
        {"binary", false, false},  {"zip", true, true},      {"zipapp", true, false},
        {"nothing", false, false}, {"x.sh", false, false},   {"x.bash", false, false},
        {"x.pl", false, false},    {"x.R", false, false},    {"x.js", false, false},
        {"x.py", true, false},     {"x.txt", true, false},   {"py.sh", true, false},
        {"sh.py", false, false},
    };
    for (const auto& row : rows) {
        CAPTURE(row.name);
        CHECK(look_at_program(at(row.name), "").is_for_python == row.not_executable);
        CHECK(look_at_program(at(row.name), at(row.name)).is_for_python == row.executable);
    }
}

TEST_CASE("a command that is found on PATH is none of the folder's files") {
    CHECK_FALSE(look_at_program("no-such-file-here", "/usr/bin/no-such-file-here").is_for_python);
    CHECK_FALSE(look_at_program("", "").is_for_python);
}

TEST_CASE("what the system would run: a binary behind all links, or an interpreter and its argument") {
    using Words = std::vector<std::string>;
    const TemporaryFolder folder;
    const auto at = [&folder](const char* name) { return (folder.path() / name).string(); };
    write_program(at("binary-3.1"),
                  "\x7f"
                  "ELF\x02\x01");
    fs::create_symlink("binary-3.1", at("binary"));
    fs::create_symlink("binary", at("other"));
    for (const char* name : {"binary-3.1", "binary", "other"}) {
        for (const std::string& called : {at(name), std::string("found-on-PATH")}) {
            const ProgramFile file = look_at_program(called, at(name));
            CHECK(file.is_binary);
            CHECK(file.real_name == "binary-3.1");
            CHECK(file.interpreter.empty());
        }
    }
    CHECK_FALSE(look_at_program("gone", at("gone")).is_binary);
    CHECK_FALSE(look_at_program("folder", folder.path()).is_binary);
    const struct {
        const char* text;
        Words interpreter;
    } rows[] = {
        {"#!/bin/sh\nexec python3\n", {"/bin/sh"}},
        {"#! /usr/bin/env -S  python3 -u \nx", {"/usr/bin/env", "-S  python3 -u"}},
        {"#!/usr/bin/python3", {"/usr/bin/python3"}},
        {"#!\n", {""}},
        {"#!", {""}},
        {"echo\n#!/bin/sh", {}},
        {"", {}},
    };
    for (const auto& row : rows) {
        CAPTURE(row.text);
        write_program(at("script"), row.text);
        const ProgramFile file = look_at_program("command", at("script"));
        CHECK(file.interpreter == row.interpreter);
        CHECK_FALSE(file.is_binary);
        CHECK_FALSE(file.is_for_python);
        CHECK(file.real_name == "script");
    }
}

TEST_CASE("what cannot be executed has a reason and a shell's code, as far as a look tells") {
    const TemporaryFolder folder;
    const auto at = [&folder](const char* name) { return (folder.path() / name).string(); };
    write_program(at("fine"), "#!/bin/sh\n");
    write_program(at("odd"), "#!/no/such/sh -e\n");
    write_program(at("windows"), "#!/bin/sh\r\n");
    fs::create_directory(at("folder"));
    const auto fault = [](const std::string& name, const std::string& executable) {
        const ProgramFile file = look_at_program(name, executable);
        return file.fault ? std::to_string(file.fault->exit_code) + " " + file.fault->text : "none";
    };
    CHECK(fault(at("fine"), at("fine")) == "none");
    CHECK(fault(at("fine"), "") ==
          "126 it is not executable; chmod +x makes it so; or type /bin/sh " + at("fine"));
    CHECK(fault(at("odd"), at("odd")) ==
          "126 its interpreter /no/such/sh, which its first line names: no such file");
    CHECK_THAT(fault(at("windows"), at("windows")),
               Catch::StartsWith("126 its first line names '/bin/sh' and a carriage return, "));
    CHECK_THAT(fault(at("folder"), ""), Catch::StartsWith("126 it is a directory"));
    CHECK(fault(at("nothing"), "") == "127 no such file");
    CHECK(fault("no-such-file-here", "") == "127 not found on PATH");
    CHECK(look_at_program(at("nothing"), "").unreadable);
    for (const std::string& name : {at("fine"), at("folder"), std::string("-"), std::string("-c")})
        CHECK_FALSE(look_at_program(name, "").unreadable);
    const auto chosen = [&](const ProgramRequest& request) {
        return std::get<Program>(choose_program(request));
    };
    const ProgramFile missing{.unreadable = ProgramFault{"no such file", kExitNotFound}};
    CHECK(chosen({.program = "t.py", .file = missing}).argv == std::vector<std::string>{"./t.py"});
    CHECK(chosen({.program = "t.py", .file = missing}).fault->text == "no such file");
    CHECK_FALSE(chosen({.program = "pkg.t.py", .module = true, .file = missing}).fault);
    CHECK_FALSE(chosen({.program = "t.py", .file = missing, .python_exec = "./in_container"}).fault);
    CHECK_FALSE(chosen({.program = "t.py", .file = look_at_program(at("fine"), "")}).fault);
}

TEST_CASE("a first line that names a launcher is for Python, by whatever way it gets there") {
    const TemporaryFolder folder;
    const std::string at = (folder.path() / "script").string();
    const std::string link = (folder.path() / "launch-it").string();
    fs::create_symlink("/proc/self/exe", link);
    const auto look = [&](const std::string& line, const std::string& called = "") {
        write_program(at, line + "\nprint(1)\n");
        return look_at_program(called.empty() ? at : called, at);
    };
    for (const std::string& line :
         {std::string("#!/usr/bin/env -S ddprun --nproc-per-node=1"), std::string("#!ddprun"),
          std::string("#! /opt/bin/torchrun --x"), "#!" + link,
          std::string("#!/usr/bin/env -SA=B ddprun-launch"), std::string("#!/usr/bin/env -S uv run ddprun"),
          std::string("#!/usr/bin/env -S python -m torch.distributed.run")}) {
        CAPTURE(line);
        CHECK(look(line).starts_launcher);
        CHECK(look(line).is_for_python);
        CHECK(look(line).python_path.empty());
        CHECK(look(line, "script").python_path == at);
        CHECK(look_at_program(at, "").is_for_python);
    }
    for (const char* line :
         {"#!/bin/sh", "#!/opt/ddprun/bin/julia", "#!/usr/bin/env my-ddprun", "#!/usr/bin/python3"}) {
        CAPTURE(line);
        CHECK_FALSE(look(line).starts_launcher);
        CHECK_FALSE(look(line).is_for_python);
    }
    // The word alone makes no Python of a file that cannot be executed.
    write_program(at, "#!/opt/python-tools/bin/julia\n");
    CHECK_FALSE(look_at_program(at, "").is_for_python);
    write_program(at, "#!/usr/bin/env -S uv run --script python3\n");
    CHECK(look_at_program(at, "").is_for_python);
}

TEST_CASE("a carriage return that is a part of the interpreter's name, and one that is not") {
    const TemporaryFolder folder;
    const std::string at = (folder.path() / "script").string();
    const auto look = [&](const std::string& line) {
        write_program(at, line + "\r\n");
        return look_at_program(at, at);
    };
    const auto lost = [&](const std::string& line) -> std::string {
        const auto fault = look(line).fault;
        if (!fault || fault->text.find("a carriage return") == std::string::npos) return {};
        const auto begin = fault->text.find('\'') + 1;
        return fault->text.substr(begin, fault->text.find('\'', begin) - begin);
    };
    CHECK(lost("#!/bin/bash") == "/bin/bash");
    CHECK(lost("#! /bin/bash") == "/bin/bash");
    CHECK(lost("#!/bin/bash ").empty());
    CHECK(lost("#!/usr/bin/env bash") == "bash");
    CHECK(lost("#!/bin/bash -e").empty());
    CHECK(lost("#!/usr/bin/env -S perl -w").empty());
    CHECK(lost("echo").empty());
    for (const char* line : {"#!/usr/bin/python3", "#!/usr/bin/env python3"}) {
        CHECK(look(line).is_for_python);
    }
    CHECK_FALSE(look("#!/usr/bin/env -S python3 -u").is_for_python);
}

}  // namespace ddprun
