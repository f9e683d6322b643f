#include "launcher/plan/program_words.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("the words that say which program a command is") {
    const struct {
        Words words, program;
    } rows[] = {
        {{"./train", "--out", "x"}, {"./train"}},
        {{"train.py", "--out", "x"}, {"train.py"}},
        {{"python3", "train.py", "x"}, {"python3", "train.py"}},
        {{"python3", "-u", "-X", "dev", "train.py", "-m"}, {"python3", "train.py"}},
        {{"python3", "-um", "pkg.train", "x"}, {"python3", "-m", "pkg.train"}},
        {{"python3.12", "-c", "print(1)", "x"}, {"python3.12", "-c", "print(1)"}},
        {{"env", "A=B", "python3", "-", "x"}, {"python3", "-"}},
        {{"bash", "-o", "pipefail", "run.sh", "x"}, {"bash", "run.sh"}},
        {{"sh", "-ec", "python3 train.py x"}, {"sh", "-c", "python3", "train.py"}},
        {{"sh", "-c", "exit 3"}, {"sh", "-c", "exit"}},
        {{"sh", "-c", "a 'b"}, {"sh", "-c", "a 'b"}},
        {{"numactl", "-N", "1", "python3", "train.py", "x"}, {"numactl", "python3", "train.py"}},
        {{"nice", "-n", "3", "./train", "x"}, {"nice", "./train"}},
        {{"nice", "./train", "--hooks", "/scratch/1/h.sh"}, {"nice", "./train"}},
        {{"flock", "./lock", "python3", "train.py"}, {"flock", "python3", "train.py"}},
        {{"nice", "/opt/train", "x"}, {"nice"}},
        {{"strace", "-o", "./trace.1", "./train", "x"}, {"strace", "./train"}},
        {{"nsys", "profile", "-o", "./rep", "python3", "train.py"}, {"nsys", "python3", "train.py"}},
        {{"time", "-v", "./train", "x.py"}, {"time", "./train"}},
        {{"bash", "-c", "OUT=/1 ./train x"}, {"bash", "-c", "./train"}},
        {{"bash", "-c", "A=1"}, {"bash", "-c", "A=1"}},
        {{"env", "-i"}, {"env", "-i"}},
    };
    for (const auto& [words, program] : rows) {
        CAPTURE(words);
        CHECK(program_words(words) == program);
    }
}

TEST_CASE("the word by which people know a program") {
    const struct {
        Words words;
        std::string name;
    } rows[] = {{{"python3", "train.py", "x"}, "train.py"},
                {{"/a/train"}, "/a/train"},
                {{"python3", "-m", "pkg.train"}, "pkg.train"},
                {{"python3", "-", "x"}, "python3"},
                {{"python3", "/dev/fd/63"}, "python3"},
                {{"-"}, ""},
                {{"python3", "-c", "import time"}, "python3"},
                {{"bash", "-c", "python3 train.py 1 && true"}, "train.py"},
                {{"bash", "-c", "A=1 ./train --x"}, "./train"},
                {{"bash", "-c", "python3 -c 'import time'"}, "python3"},
                {{"bash", "-c", "source venv/bin/activate; python3 train.py"}, "bash"},
                {{"env", "A=1", "bash", "-lc", "echo begin; ./train"}, "bash"},
                {{"sh", "-c", "(./train)"}, "sh"},
                {{"sh", "-c", "# what it does\n./train"}, "sh"},
                {{"sh", "-c", "\"$HOME/train\""}, "sh"},
                {{"bash", "run.sh"}, "run.sh"}};
    for (const auto& [words, name] : rows) {
        CAPTURE(words);
        CHECK(known_name(program_words(words)) == name);
    }
}

TEST_CASE("the same program spelled otherwise is one to nodes that compare it") {
    const struct {
        Words words, compared;
    } rows[] = {
        {{"./train.py"}, {"train.py"}},
        {{"/usr/bin/true"}, {"true"}},
        {{"/a/venv/bin/python3.11", "-u", "/data/a/train.py", "x"}, {"python", "train.py"}},
        {{"python", "train.py"}, {"python", "train.py"}},
        {{"python3", "-m", "pkg.train"}, {"python", "-m", "pkg.train"}},
        {{"python3", "-c", "print(1/2)"}, {"python", "-c", "print(1/2)"}},
        {{"pypy3", "app/"}, {"pypy", "app"}},
        {{"/bin/bash", "-c", "/usr/bin/python3 ./train.py x"}, {"bash", "-c", "python", "train.py"}},
        {{"numactl", "-N", "1", "/v/bin/python3", "/a/train.py"}, {"numactl", "python", "train.py"}},
        {{"perl5.36", "x"}, {"perl5.36"}},
        {{"/"}, {""}},
    };
    for (const auto& [words, compared] : rows) {
        CAPTURE(words);
        CHECK(without_places(program_words(words)) == compared);
    }
    CHECK(without_places({"/a/x", ":", "./y", "--program", "b/z"}) == Words{"x", ":", "y", "--program", "z"});
}

TEST_CASE("whose program is read from a descriptor") {
    const struct {
        Words words;
        std::string word;
        int descriptor = 0;
    } rows[] = {{{"-", "x"}, "-"},
                {{"/dev/stdin"}, "/dev/stdin"},
                {{"/dev/fd/63", "x"}, "/dev/fd/63", 63},
                {{"python3"}, ""},
                {{"python3", "-u", "-"}, "-"},
                {{"python3", "/proc/self/fd/7"}, "/proc/self/fd/7", 7},
                {{"env", "-i", "A=B", "bash", "-s", "x"}, ""},
                {{"numactl", "-N", "0", "python3", "-"}, "-"},
                {{"perl", "-", "x"}, "-"},
                {{"bash", "--rcfile", "x", "-"}, "-"},
                {{"bash", "+e"}, ""},
                {{"uv", "run", "-"}, "-"},
                {{"coverage", "run", "-"}, "-"},
                {{"awk", "-f", "-"}, "-"},
                {{"fish"}, ""},
                {{"perl5.36"}, ""},
                {{"/opt/julia-1.10/bin/julia"}, ""},
                {{"nsys", "profile", "-o", "./rep", "python3", "-"}, "-"},
                {{"nice", "bash"}, ""},
                {{"bash", "-c", "cd x && python3 -"}, "-"},
                {{"sh", "-ec", "ulimit -c 0; A=B exec python3 -u - | tee log"}, "-"},
                {{"nice", "bash", "-c", "cat x | wc || bash -c 'true && python3'"}, ""}};
    for (const auto& [words, word, descriptor] : rows) {
        CAPTURE(words);
        const auto input = program_input(words);
        REQUIRE(input);
        CHECK(input->word == word);
        CHECK(input->descriptor == descriptor);
        // A text's commands stand between blanks.
        CHECK(input->in_text == (words.back().find(' ') != std::string::npos));
    }
    for (const Words& words : {Words{"train.py", "-"},
                               {"cat", "-"},
                               {"python3", "train.py", "-"},
                               {"python3", "-m", "x"},
                               {"python3", "-V"},
                               {"python3", "--version"},
                               {"bash", "--help"},
                               {"bash", "-c", "cat", "-"},
                               {"bash", "-c", "cat x | python3 -"},
                               {"bash", "-c", "python3 - < x.py"},
                               {"bash", "-c", "python3 - <<E\nprint(1)\nE"},
                               {"bash", "-c", "cd x && python3 train.py -"},
                               {"bash", "-c", "echo 'x"},
                               {"bash", "-c"},
                               {"bash", "run.sh"},
                               {"numactl", "-s"},
                               {"su", "-", "alice"},
                               {"curl", "run", "-"},
                               {"tar", "-f", "-"},
                               {"nice", "./train", "--shell", "bash"},
                               {"timeout", "5", "./train", "--lang", "python"},
                               {"awk"},
                               {"./node"},
                               {"build/bin/julia"},
                               {"/opt/lua5"},
                               {"/dev/fd/x"},
                               {"/dev/null"}}) {
        CAPTURE(words);
        CHECK_FALSE(program_input(words));
    }
}

TEST_CASE("the commands of a shell's text read what no redirection and no pipe gives them") {
    const auto input = [](const char* text) { return program_input({"nice", "bash", "-c", text}); };
    const std::pair<const char*, const char*> read[] = {
        {"python3 > log.$RANK", ""},
        {"true;python3>log", ""},
        {"python3 2>&1 | tee x", ""},
        {"bash 2>&1 &>> log", ""},
        {"A=1 exec 3< x python3 -u - > log 2>&- >| y", "-"},
        {"cat | cat - | python3 -", "-"},
        {"# text (of lines)\ncd x\n\npython3 # the program", ""},
        {"source /dev/stdin", "/dev/stdin"},
        {". /dev/stdin && true", "/dev/stdin"}};
    for (const auto& [text, word] : read) {
        CAPTURE(text);
        REQUIRE(input(text));
        CHECK(input(text)->word == word);
        CHECK((input(text)->in_text && !input(text)->is_unsure));
    }
    for (const char* text :
         {"python3 -<x.py", "python3 0<&3", "python3 <<< 'print(1)'", "python3 & true",
          "echo '|' python3; echo \"a; python3\"", "cat > x.$RANK", "source env.sh; python3 train.py",
          "X=$(date); python3 < train.py", "X=$(date); echo \"print(1)\" | python3 -", "X=$(cat); echo $X",
          "eval \"$(conda hook)\"; python3 train.py", "while read x; do python3 train.py $x; done"}) {
        CAPTURE(text);
        CHECK_FALSE(input(text));
    }
}

TEST_CASE("a text of more than simple commands may run what is read") {
    for (const char* text :
         {"echo $(python3 -)", "eval \"$(cat)\"", "bash <(cat)", "export A=$(hostname); python3 -",
          "for i in 1 2; do A=1 python3 -; done", "{ python3 - 2>&1; } > log", "(python3 2>&1) | tee x",
          "if true; then exec bash; fi", "X=`date`; cat | python3", "(source /dev/stdin)"}) {
        CAPTURE(text);
        const auto input = program_input({"nice", "bash", "-c", text});
        REQUIRE(input);
        CHECK((input->in_text && input->is_unsure));
    }
}

}  // namespace ddprun
