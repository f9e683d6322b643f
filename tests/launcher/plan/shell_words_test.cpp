#include "launcher/plan/rank_command.hpp"

#include <random>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Words = std::vector<std::string>;

Words words_of(const std::string& text) { return std::get<Words>(split_shell_words(text)); }

}  // namespace

TEST_CASE("shell words") {
    struct Row {
        std::string text;
        Words words;
    };
    const Row rows[] = {
        {"", {}},
        {" \t\n ", {}},
        {"gdb --args", {"gdb", "--args"}},
        {"  a   b  ", {"a", "b"}},
        {"'a b' c", {"a b", "c"}},
        {R"("a b"c'd e')", {"a bcd e"}},
        {R"('' "" x)", {"", "", "x"}},
        {R"(a\ b)", {"a b"}},
        {R"(\'\"\\)", {"'\"\\"}},
        {R"('a\')", {"a\\"}},
        {R"("\"\\\$\`")", {"\"\\$`"}},
        {R"("\n\a")", {"\\n\\a"}},
        {"\"a\\\nb\"", {"ab"}},
        {"a\\\nb", {"ab"}},
        {"\\\n", {}},
        {R"(gdb -ex "set \$x = 'y'" --args)", {"gdb", "-ex", "set $x = 'y'", "--args"}},
        {"$HOME *.cpp a|b #c ~ ;", {"$HOME", "*.cpp", "a|b", "#c", "~", ";"}},
    };
    for (const Row& row : rows) {
        INFO(row.text);
        CHECK(words_of(row.text) == row.words);
    }
}

TEST_CASE("shell words: what is not closed is said") {
    CHECK(std::get<std::string>(split_shell_words("a 'b")) == "the quote ' is not closed");
    CHECK(std::get<std::string>(split_shell_words("a \"b'")) == "the quote \" is not closed");
    CHECK(std::get<std::string>(split_shell_words("\"a\\\"")) == "the quote \" is not closed");
    CHECK(std::get<std::string>(split_shell_words("a\\")) == "nothing follows the backslash at its end");
}

TEST_CASE("shell words: what needs no quotes has none") {
    CHECK(join_shell_words({"env", "A=b", "", "a b", "it's", "$x"}) == R"(env A=b '' 'a b' 'it'\''s' '$x')");
}

TEST_CASE("shell words: whatever was quoted comes back") {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::string characters = "ab '\"\\$`\n\t%;";
    for (int repeat = 0; repeat < 500; ++repeat) {
        Words words(1 + random() % 4);
        for (std::string& word : words) {
            for (auto left = random() % 8; left > 0; --left) word += characters[random() % characters.size()];
        }
        const std::string text = join_shell_words(words);
        INFO(text);
        REQUIRE(words_of(text) == words);
    }
}

}  // namespace ddprun
