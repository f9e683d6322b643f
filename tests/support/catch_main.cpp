#define CATCH_CONFIG_RUNNER
#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.hpp"

namespace {

// A name as a pattern that only it matches.
std::string pattern_of(const std::string& name) {
    std::string text = "\"";
    for (const char letter : name) {
        if (std::string("\\,\"[]").find(letter) != std::string::npos) text += '\\';
        text += letter;
    }
    return text + '"';
}

}  // namespace

// Takes what Catch2 takes; `--part K/N` at the end: of the cases that are wanted the first of N parts, for
// 1/N: each N-th.
int main(int argc, char** argv) {
    std::size_t part = 0, parts = 1;
    if (argc > 2 && std::string(argv[argc - 2]) == "--part") {
        if (std::sscanf(argv[argc - 1], "%zu/%zu", &part, &parts) != 2 || part < 1 || part > parts) return 2;
        --part;
        argc -= 2;
    }
    Catch::Session session;
    if (const int wrong = session.applyCommandLine(argc, argv); wrong != 0) return wrong;
    if (parts == 1) return session.run();
    Catch::Config& config = session.config();
    const auto wanted = Catch::filterTests(Catch::getAllTestCasesSorted(config), config.testSpec(), config);
    std::string names;
    for (std::size_t i = part; i < wanted.size(); i += parts)
        names += (names.empty() ? "" : ",") + pattern_of(wanted[i].name);
    if (names.empty()) return std::fprintf(stderr, "there is no part %zu\n", part + 1), 2;
    auto data = session.configData();
    data.testsOrTags = {std::move(names)};
    session.useConfigData(data);
    return session.run();
}
