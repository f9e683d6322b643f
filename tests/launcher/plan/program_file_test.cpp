#include "launcher/plan/program_file.hpp"

#include <filesystem>
#include <fstream>

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
    write_program(at("python"), "#!/usr/bin/env python3\nprint(1)\n");
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
        {"package", true, true}, {"folder", false, false},  {"script", true, false},  {"empty", true, false},
        {"python", true, false}, {"shell", false, false},   {"binary", false, false}, {"zip", true, true},
        {"zipapp", true, false}, {"nothing", false, false},
    };
    for (const auto& row : rows) {
        CAPTURE(row.name);
        CHECK(is_for_python(at(row.name), "") == row.not_executable);
        CHECK(is_for_python(at(row.name), at(row.name)) == row.executable);
    }
}

TEST_CASE("a command that is found on PATH is none of the folder's files") {
    CHECK_FALSE(is_for_python("no-such-file-here", "/usr/bin/no-such-file-here"));
    CHECK_FALSE(is_for_python("", ""));
}

}  // namespace ddprun
