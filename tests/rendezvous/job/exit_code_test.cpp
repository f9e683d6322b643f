#include "rendezvous/job/exit_code.hpp"

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

// The lines of the table under `## Exit codes`.
std::vector<std::string> documented_rows() {
    std::ifstream file(DDPRUN_SOURCE_DIR "/apps/ddprun/README.md");
    std::vector<std::string> rows;
    bool inside = false;
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("## ")) inside = line == "## Exit codes";
        if (inside && line.starts_with("| ")) rows.push_back(line);
    }
    return rows;
}

}  // namespace

TEST_CASE("exit codes: every one is in the README with its meaning, and no other") {
    const auto rows = documented_rows();
    REQUIRE(rows.size() > 2);
    std::string all;
    for (const std::string& row : rows) all += row + "\n";
    std::set<std::string> known{"| code", "| the worker's"};
    for (const ExitCode& code : kExitCodes) {
        const std::string text(code.text), meaning(code.meaning);
        INFO(text << " " << meaning);
        const bool has_row = all.find("\n| " + text + " | " + meaning) != std::string::npos;
        const bool is_worker_s = all.find(text + " " + meaning) != std::string::npos;
        CHECK((has_row || is_worker_s));
        known.insert("| " + text);
    }
    for (const std::string& row : rows) {
        INFO(row);
        CHECK(known.count(row.substr(0, row.find(" |", 1))) == 1);
    }
}

TEST_CASE("exit codes: numbers and names are there once") {
    std::set<int> numbers;
    std::set<std::string_view> names;
    for (const ExitCode& code : kExitCodes) {
        CHECK(numbers.insert(code.number).second);
        CHECK(names.insert(code.name).second);
        CHECK((code.text == "128+n" || code.text == std::to_string(code.number)));
        CHECK_FALSE(code.elsewhere.empty());
    }
}

}  // namespace ddprun
