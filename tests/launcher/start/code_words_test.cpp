#include "launcher/start/code_words.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Words = std::vector<std::string>;

// "modules /a /b": where a value is used, and its folders.
Words told(const std::vector<CodeVariable>& variables) {
    constexpr const char* kPlaces[] = {"words", "commands", "modules", "libraries", "folders", "home"};
    Words texts;
    for (const CodeVariable& variable : variables) {
        std::string text = kPlaces[static_cast<int>(variable.place)];
        for (const std::string& folder : folders_in(variable)) text += " " + folder;
        texts.push_back(text);
    }
    return texts;
}

}  // namespace

TEST_CASE("what a command's words may name has a bound, and nothing is passed over", "[start]") {
    Words words{"--wrap=0:valgrind './tool'", "train"};
    const auto few = names_in(words);
    for (const char* name : {"train", "valgrind", "./tool"}) CHECK(few.contains(name));
    const auto named = names_in({"sh", "-c", "X=${X:-/t/a}; . $X; . /t/{b,}", "make", "-f/t/rules"});
    for (const char* name : {"/t/a", "/t/", "b", "/t/rules"}) CHECK(named.contains(name));
    for (std::size_t i = few.size(); i < kMaxNamedFiles; ++i) words.push_back(std::to_string(i));
    CHECK(names_in(words).size() == kMaxNamedFiles);
    words.emplace_back("one-more");
    CHECK_THROWS_WITH(names_in(words), Catch::Contains("has over 65536 words"));
}

TEST_CASE("modules are named behind -m, also in texts and behind other letters", "[start]") {
    const struct {
        Words words, modules;
    } rows[] = {
        {{"python3", "-m", "mod", "-m"}, {"mod"}},
        {{"python3", "-um", "a.b"}, {"a.b"}},
        {{"python3", "-mmod"}, {"mod"}},
        {{"sh", "-c", "cd x; exec python3 -u -m 'a.b' y"}, {"a.b"}},
        {{"--wrap=0:python3 -m debugpy x.py"}, {"debugpy"}},
        {{"python3", "-m", "one", "-m", "two"}, {"one", "two"}},
        {{"python3", "x.py", "--m", "mod", "-Wm", "y"}, {}},
        {{"tool", "-m", "/a/b"}, {}},
    };
    for (const auto& [words, modules] : rows) {
        CAPTURE(words);
        CHECK(modules_in(words) == modules);
    }
}

TEST_CASE("variables that decide which code runs are those of the table, by whatever way they are set",
          "[start]") {
    CHECK(told(code_variables({{"LD_PRELOAD", "/a.so"},
                               {"HOME", "/h"},
                               {"PATH", "/a::/b"},
                               {"PYTHONPATH", "/lib:"},
                               {"LD_LIBRARY_PATH", "/a;/b:/c"},
                               {"PERL5LIB", ""},
                               {"RUBYLIB", "/r"},
                               {"WANDB_DIR", "/x"},
                               {"PATHS", "/x"}},
                              {})) == Words{"home /h", "libraries /a /b /c", "words /a.so",
                                            "commands /a . /b", "modules /lib .", "folders /r"});
    const struct {
        std::string word;
        Words variables;
    } rows[] = {
        {"--env=PYTHONPATH=/a:/b", {"modules /a /b"}},
        {"PYTHONPATH=/a", {"modules /a"}},
        {"--env-rank=0:LD_PRELOAD=/a.so", {"words /a.so"}},
        {"exec env PYTHONHOME='/a' LD_AUDIT=/b.so x",
         {"folders '/a' LD_AUDIT=/b.so x", "folders /a", "words /b.so x", "words /b.so"}},
        {"--data=/PYTHONPATH=/a", {}},
        {"MY_PYTHONPATH=/a", {}},
        {"PYTHONPATH", {}},
    };
    for (const auto& [word, variables] : rows) {
        CAPTURE(word);
        CHECK(told(code_variables({}, {word})) == variables);
    }
    for (const char* name : {"LD_AUDIT", "BASH_ENV", "ENV", "PYTHONSTARTUP", "PYTHONHOME", "PYTHONUSERBASE",
                             "PERL5OPT", "NODE_OPTIONS", "LUA_PATH_5_4", "CUDA_INJECTION64_PATH"})
        CHECK(code_variables({{name, "x"}}, {}).size() == 1);
}

TEST_CASE("which entries of a folder may be a module or a library", "[start]") {
    for (const char* entry : {"mod", "mod.py", "mod.cpython-311.pyc", "mod.cpython-311-x86_64-linux-gnu.so"})
        CHECK(is_of_module(entry, {"mod"}));
    for (const char* entry : {"mode", "mode.py", ".mod", "a.mod"}) CHECK_FALSE(is_of_module(entry, {"mod"}));
    for (const char* entry : {"a.py", "a.pyc", "a.abi3.so", "__pycache__"}) CHECK(may_be_module(entry));
    for (const char* entry : {"a", "a.txt", "py"}) CHECK_FALSE(may_be_module(entry));
    for (const char* entry : {"libc.so.6", "x.so", "glibc-hwcaps"}) CHECK(may_be_library(entry));
    for (const char* entry : {"lib", "libx.a"}) CHECK_FALSE(may_be_library(entry));
    for (const char* module : {"__main__", "importlib", "runpy"})
        CHECK(modules_before_program().contains(module));
}

}  // namespace ddprun
