#include <algorithm>
#include <string>
#include <vector>

#include "apps/train_digits/options.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Arguments = std::vector<std::string>;

Options accepted(const Arguments& arguments) {
    const auto parsed = parse_options(arguments);
    if (const auto* end = std::get_if<CommandLineEnd>(&parsed)) FAIL("refused: " << end->text);
    return std::get<Options>(parsed);
}

CommandLineEnd ended(const Arguments& arguments) {
    const auto parsed = parse_options(arguments);
    REQUIRE(std::holds_alternative<CommandLineEnd>(parsed));
    return std::get<CommandLineEnd>(parsed);
}

TEST_CASE("every flag reaches its option", "[options]") {
    const Options options =
        accepted({"--data", "d.csv", "--epochs", "3", "--batch-size", "100", "--lr", "0.25", "--momentum",
                  "0.5", "--hidden", "7", "--seed", "18446744073709551615", "--save", "m", "--quiet"});
    CHECK(options.data == "d.csv");
    CHECK(options.plan.epochs == 3);
    CHECK(options.plan.batch_size == 100);
    CHECK(options.plan.learning_rate == 0.25f);
    CHECK(options.plan.momentum == 0.5f);
    CHECK(options.plan.hidden == 7);
    CHECK(options.plan.seed == UINT64_MAX);
    CHECK(options.save == "m");
    CHECK(options.evaluate.empty());
    CHECK(options.quiet);
    CHECK(accepted({"--data=d.csv", "--evaluate=m"}).evaluate == "m");
}

TEST_CASE("without flags the plan is the default one", "[options]") {
    const Options options = accepted({"--data", "d.csv"});
    CHECK(options.plan.epochs == TrainingPlan{}.epochs);
    CHECK(options.plan.batch_size == TrainingPlan{}.batch_size);
    CHECK(options.save.empty());
    CHECK_FALSE(options.quiet);
}

TEST_CASE("a wrong command line ends with 2 and one line that names flag and value", "[options]") {
    struct Row {
        Arguments arguments;
        std::vector<std::string> named;
    };
    const std::vector<Row> rows = {
        {{}, {"--data"}},
        {{"--epochs", "3"}, {"--data"}},
        {{"--data", "d", "--epochs", "0"}, {"--epochs", "'0'", "1 to 100000"}},
        {{"--data", "d", "--epochs", "-1"}, {"--epochs", "'-1'"}},
        {{"--data", "d", "--epochs", "100001"}, {"--epochs", "'100001'"}},
        {{"--data", "d", "--epochs", "three"}, {"--epochs", "'three'"}},
        {{"--data", "d", "--epochs", "3.5"}, {"--epochs", "'3.5'"}},
        {{"--data", "d", "--epochs", "99999999999999999999"}, {"--epochs", "'99999999999999999999'"}},
        {{"--data", "d", "--batch-size", "0"}, {"--batch-size", "'0'"}},
        {{"--data", "d", "--batch-size", "1000001"}, {"--batch-size", "'1000001'"}},
        {{"--data", "d", "--lr", "0"}, {"--lr", "'0'"}},
        {{"--data", "d", "--lr", "-0.1"}, {"--lr", "'-0.1'"}},
        {{"--data", "d", "--lr", "nan"}, {"--lr", "'nan'"}},
        {{"--data", "d", "--lr", "inf"}, {"--lr", "'inf'"}},
        {{"--data", "d", "--momentum", "1.5"}, {"--momentum", "'1.5'", "0 to 1"}},
        {{"--data", "d", "--hidden", "0"}, {"--hidden", "'0'"}},
        {{"--data", "d", "--hidden", "4097"}, {"--hidden", "'4097'", "1 to 4096"}},
        {{"--data", "d", "--seed", "-1"}, {"--seed", "'-1'"}},
        {{"--data", "d", "--save", "a", "--evaluate", "b"}, {"--save", "--evaluate"}},
        {{"--data", "d", "--sede", "1"}, {"--sede"}},
        {{"--data", "d", "stray"}, {"stray"}},
        {{"--data"}, {"--data"}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.arguments);
        const CommandLineEnd end = ended(row.arguments);
        CAPTURE(end.text);
        CHECK(end.exit_code == 2);
        CHECK(end.text.starts_with("train_digits: "));
        CHECK(std::count(end.text.begin(), end.text.end(), '\n') == 1);
        CHECK(end.text.back() == '\n');
        for (const std::string& name : row.named) CHECK(end.text.find(name) != std::string::npos);
    }
}

TEST_CASE("help and version are no errors", "[options]") {
    const CommandLineEnd help = ended({"--help"});
    CHECK(help.exit_code == 0);
    for (const char* flag : {"--data", "--epochs", "--batch-size", "--lr", "--momentum", "--hidden", "--seed",
                             "--save", "--evaluate", "--quiet", "Exit codes"}) {
        CAPTURE(flag);
        CHECK(help.text.find(flag) != std::string::npos);
    }
    const CommandLineEnd version = ended({"--version"});
    CHECK(version.exit_code == 0);
    CHECK(version.text.starts_with("train_digits "));
}

}  // namespace
}  // namespace ddprun
