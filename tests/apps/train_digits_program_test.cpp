#include <algorithm>
#include <string>
#include <vector>

#include "apps/train_digits/program.hpp"
#include "tests/apps/input_error_message.hpp"
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

Model small_model(std::size_t hidden) {
    const MlpShape shape{.inputs = 64, .hidden = hidden, .outputs = 10};
    return {.shape = shape, .parameters = initial_parameters(shape, 4)};
}

std::string refusal(const std::string& bytes) {
    return input_error_message([&] { decode_model(bytes, "m"); });
}

TEST_CASE("a model comes back as it was written", "[model]") {
    for (const std::size_t hidden : {1, 128, 4096}) {
        CAPTURE(hidden);
        const Model written = small_model(hidden);
        const Model model = decode_model(encode_model(written), "m");
        CHECK(model.shape == written.shape);
        CHECK(model.parameters == written.parameters);
    }
}

TEST_CASE("a change of any byte of a model is noticed, and one that is cut or goes on", "[model]") {
    const std::string good = encode_model(small_model(3));
    CHECK(good.starts_with("ddprun-digits-model 2 3 "));
    for (std::size_t at = 0; at < good.size(); ++at) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ 0x10);
        CAPTURE(at);
        REQUIRE(refusal(bad) == "m: not a model of train_digits, or damaged");
        REQUIRE_FALSE(refusal(good.substr(0, at)).empty());
    }
    CHECK_FALSE(refusal(good + "x").empty());
}

TEST_CASE("a model of an impossible size is refused", "[model]") {
    const std::string good = encode_model(small_model(3));
    const std::string rest = good.substr(good.find(' ', std::string("ddprun-digits-model 2 ").size()));
    for (const char* hidden : {"", "0", "4", "4097", "99999999999999999999", "-3", "03", "x"}) {
        CAPTURE(hidden);
        CHECK_FALSE(refusal(std::string("ddprun-digits-model 2 ") + hidden + rest).empty());
    }
    CHECK(refusal("ddprun-digits-model 2 3" + rest).empty());
    CHECK_FALSE(refusal("ddprun-digits-model 1 3" + rest).empty());
}

TEST_CASE("fingerprints are FNV-1a", "[model]") {
    struct Row {
        std::string text;
        std::uint64_t expected;
    };
    // From the reference test vectors of the algorithm's authors.
    const std::vector<Row> rows = {
        {"", 0xcbf29ce484222325}, {"a", 0xaf63dc4c8601ec8c}, {"foobar", 0x85944171f73967e8}};
    for (const Row& row : rows) CHECK(fingerprint_of(std::as_bytes(std::span(row.text))) == row.expected);
}

}  // namespace
}  // namespace ddprun
