#include "rendezvous/job/exit_status.hpp"

#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

struct ExitCode {
    int number;
    std::string_view text;     // of the number
    std::string_view name;     // for programs
    std::string_view meaning;  // as README begins it
    std::string_view elsewhere;
};

// torchrun ends with 1 wherever a worker failed or its own machinery did.
constexpr ExitCode kExitCodes[] = {
    {0, "0", "success", "every worker on every node ended with 0", "the same in bash and torchrun"},
    {kExitUsage, "2", "usage", "wrong command line", "the same in bash and torchrun"},
    {kExitUnavailable, "69", "unavailable", "the nodes did not come together in time, or a node was lost",
     "EX_UNAVAILABLE of sysexits.h; torchrun: 1"},
    {kExitInternal, "70", "internal", "an internal error of ddprun", "EX_SOFTWARE; torchrun: 1"},
    {kExitSystem, "71", "system", "the system refused", "EX_OSERR; torchrun: 1"},
    {kExitPreempted, "75", "preempted", "after a signal that ends the job",
     "EX_TEMPFAIL, by which schedulers requeue; torchrun: 1"},
    {kExitNotAdmitted, "77", "not_admitted", "not admitted", "EX_NOPERM; torchrun: 1"},
    {kExitOverdue, "124", "overdue", "ranks were ended because they ran on",
     "as timeout of coreutils; torchrun: none"},
    {kExitNotExecutable, "126", "not_executable", "not executable", "the same in bash; torchrun: 1"},
    {kExitNotFound, "127", "not_found", "program not found", "the same in bash; torchrun: 1"},
    {kExitSignalBase, "128+n", "signalled", "ended by signal n", "the same in bash; torchrun: 1"},
};

// The lines of the table under `## Exit codes`.
std::vector<std::string> documented_rows() {
    std::ifstream file(DDPRUN_SOURCE_DIR "/apps/ddprun/manual/failures.md");
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
