#include <string>
#include <vector>

#include "apps/train_digits/program.hpp"
#include "tests/apps/input_error_message.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Arguments = std::vector<std::string>;

TEST_CASE("every flag reaches its option", "[options]") {
    const Options options = parse_options({"--data", "d.csv", "--epochs", "3", "--batch-size", "100", "--lr",
                                           "0.25", "--momentum", "0.5", "--hidden", "7", "--seed",
                                           "1000000000", "--save", "m", "--quiet"});
    CHECK(options.data == "d.csv");
    CHECK(options.plan.epochs == 3);
    CHECK(options.plan.batch_size == 100);
    CHECK(options.plan.learning_rate == 0.25f);
    CHECK(options.plan.momentum == 0.5f);
    CHECK(options.plan.hidden == 7);
    CHECK(options.plan.seed == 1'000'000'000);
    CHECK(options.save == "m");
    CHECK(options.quiet);
    CHECK(options.help.empty());
    CHECK(parse_options({"--data=d.csv"}).data == "d.csv");
}

TEST_CASE("without flags the plan is the default one", "[options]") {
    const Options options = parse_options({"--data", "d.csv"});
    CHECK(options.plan.epochs == TrainingPlan{}.epochs);
    CHECK(options.plan.batch_size == TrainingPlan{}.batch_size);
    CHECK(options.save.empty());
    CHECK_FALSE(options.quiet);
}

TEST_CASE("a wrong command line is one line that names flag and value", "[options]") {
    struct Row {
        Arguments arguments;
        std::vector<std::string> named;
    };
    const std::vector<Row> rows = {
        {{}, {"--data"}},
        {{"--epochs", "3"}, {"--data"}},
        {{"--data", "d", "--epochs", "0"}, {"--epochs", "0", "1 to 100000"}},
        {{"--data", "d", "--epochs", "-1"}, {"--epochs", "-1"}},
        {{"--data", "d", "--epochs", "100001"}, {"--epochs", "100001"}},
        {{"--data", "d", "--epochs", "three"}, {"--epochs", "three"}},
        {{"--data", "d", "--epochs", "3.5"}, {"--epochs", "3.5"}},
        {{"--data", "d", "--epochs", "99999999999999999999"}, {"--epochs", "99999999999999999999"}},
        {{"--data", "d", "--batch-size", "0"}, {"--batch-size", "0"}},
        {{"--data", "d", "--batch-size", "1000001"}, {"--batch-size", "1000001"}},
        {{"--data", "d", "--lr", "0"}, {"--lr", "0"}},
        {{"--data", "d", "--lr", "-0.1"}, {"--lr", "-0.1"}},
        {{"--data", "d", "--lr", "fast"}, {"--lr", "fast"}},
        {{"--data", "d", "--lr", "0.1x"}, {"--lr", "0.1x"}},
        {{"--data", "d", "--lr", "nan"}, {"--lr", "nan"}},
        {{"--data", "d", "--lr", "inf"}, {"--lr", "inf", "1e+30"}},
        {{"--data", "d", "--momentum", "1.5"}, {"--momentum", "1.5", "0 to 1"}},
        {{"--data", "d", "--hidden", "0"}, {"--hidden", "0"}},
        {{"--data", "d", "--hidden", "4097"}, {"--hidden", "4097", "1 to 4096"}},
        {{"--data", "d", "--seed", "-1"}, {"--seed", "-1"}},
        {{"--data", "d", "--seed", "1000000001"}, {"--seed", "1000000001"}},
        {{"--data", "d", "--sede", "1"}, {"--sede"}},
        {{"--data", "d", "stray"}, {"stray"}},
        {{"--data"}, {"--data"}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.arguments);
        const std::string message = input_error_message([&] { parse_options(row.arguments); });
        CAPTURE(message);
        CHECK_FALSE(message.empty());
        CHECK(message.find('\n') == std::string::npos);
        for (const std::string& name : row.named) CHECK(message.find(name) != std::string::npos);
    }
}

TEST_CASE("help names every flag and asks for nothing else", "[options]") {
    const std::string help = parse_options({"--help"}).help;
    for (const char* flag : {"--data", "--epochs", "--batch-size", "--lr", "--momentum", "--hidden", "--seed",
                             "--save", "--quiet"}) {
        CAPTURE(flag);
        CHECK(help.find(flag) != std::string::npos);
    }
}

}  // namespace
}  // namespace ddprun
