#include "launcher/plan/program.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Words = std::vector<std::string>;

Program chosen(const ProgramRequest& request) {
    auto result = choose_program(request);
    REQUIRE(std::holds_alternative<Program>(result));
    return std::get<Program>(result);
}

std::string refused(const ProgramRequest& request) {
    auto result = choose_program(request);
    REQUIRE(std::holds_alternative<std::string>(result));
    return std::get<std::string>(result);
}

std::string substituted(const std::string& argument, int local_rank) {
    return argv_for_worker({.argv = {"program", argument}, .entry_name = ""}, local_rank).at(1);
}

}  // namespace

TEST_CASE("which program a worker runs") {
    ProgramRequest request;
    request.arguments = {"-u", "", "--x=1"};

    SECTION("an executable runs as it is") {
        request.program = "build/bin/train";
        Program program = chosen(request);
        CHECK(program.argv == Words{"build/bin/train", "-u", "", "--x=1"});
        CHECK(program.kind == ProgramKind::other);
        CHECK(program.entry_name == "build/bin/train");
        request.file = {.is_binary = true, .real_name = "train"};
        CHECK(chosen(request).kind == ProgramKind::native);
    }
    SECTION("Python in the user's own words runs as it is") {
        request.program = "python3";
        Program program = chosen(request);
        CHECK(program.argv == Words{"python3", "-u", "", "--x=1"});
        CHECK(program.kind == ProgramKind::python);
        CHECK(program.entry_name == "python3");
    }
    SECTION("a name in .py runs under python3, unbuffered") {
        request.program = "dir/train.py";
        Program program = chosen(request);
        CHECK(program.argv == Words{"python3", "-u", "dir/train.py", "-u", "", "--x=1"});
        CHECK(program.kind == ProgramKind::by_python);
        CHECK(program.entry_name == "dir/train.py");
    }
    SECTION("--python makes any name a Python script") {
        request.program = "train";
        request.python = true;
        CHECK(chosen(request).argv == Words{"python3", "-u", "train", "-u", "", "--x=1"});
        CHECK(chosen(request).kind == ProgramKind::by_python);
    }
    SECTION("-m runs a module") {
        request.program = "pkg.train";
        request.module = true;
        Program program = chosen(request);
        CHECK(program.argv == Words{"python3", "-u", "-m", "pkg.train", "-u", "", "--x=1"});
        CHECK(program.kind == ProgramKind::by_python);
        CHECK(program.entry_name == "pkg.train");
    }
    SECTION("--no-python executes even a .py") {
        request.program = "./train.py";
        request.no_python = true;
        Program program = chosen(request);
        CHECK(program.argv == Words{"./train.py", "-u", "", "--x=1"});
        CHECK(program.kind == ProgramKind::other);
    }
    SECTION("names that only look like Python are executed") {
        for (const char* name : {"train.pyc", "py", "train.PY", "train.py.sh"}) {
            request.program = name;
            CHECK(chosen(request).kind == ProgramKind::other);
        }
    }
}

TEST_CASE("what is for Python is run by it, a path by its own code") {
    ProgramRequest request;
    request.program = "folder";
    request.arguments = {"x"};
    request.file.is_for_python = true;
    CHECK(chosen(request).argv == Words{"python3", "-u", "folder", "x"});
    request.no_python = true;
    CHECK(chosen(request).argv == Words{"folder", "x"});
    request.run_path = true;
    request.module = true;  // the stronger are both of --run-path
    const Program program = chosen(request);
    REQUIRE(program.argv.size() == 6);
    CHECK(program.argv.at(2) == "-c");
    CHECK_THAT(program.argv.at(3), Catch::Contains("runpy.run_path(sys.argv[0], run_name=\"__main__\")"));
    CHECK(Words(program.argv.begin() + 4, program.argv.end()) == Words{"folder", "x"});
    CHECK(program.kind == ProgramKind::by_python);
    CHECK(program.entry_name == "folder");
    CHECK(argv_for_worker(program, 1) == program.argv);
}

TEST_CASE("the legacy launch puts the local rank before the arguments") {
    ProgramRequest request;
    request.program = "train.py";
    request.arguments = {"--epochs", "3"};
    request.local_rank_option = "--local_rank";
    CHECK(argv_for_worker(chosen(request), 2) ==
          Words{"python3", "-u", "train.py", "--local_rank=2", "--epochs", "3"});
    request.module = true;
    request.program = "train";
    CHECK(argv_for_worker(chosen(request), 0) ==
          Words{"python3", "-u", "-m", "train", "--local_rank=0", "--epochs", "3"});
}

TEST_CASE("torchrun's rule for dollars holds for every argument where it is asked for") {
    ProgramRequest request;
    request.program = "train";
    request.arguments = {"$$", "$HOME", "$$local_rank", "$local_rank"};
    CHECK(argv_for_worker(chosen(request), 1) == Words{"train", "$$", "$HOME", "$local_rank", "1"});
    request.substitutes_all = true;
    CHECK(argv_for_worker(chosen(request), 1) == Words{"train", "$", "$HOME", "$local_rank", "1"});
}

TEST_CASE("PYTHON_EXEC chooses the interpreter, unless it is empty") {
    ProgramRequest request;
    request.program = "a.py";
    request.python_exec = "/opt/py/bin/python3.12";
    CHECK(chosen(request).argv == Words{"/opt/py/bin/python3.12", "-u", "a.py"});
    request.python_exec = "";
    CHECK(chosen(request).argv.front() == "python3");
}

TEST_CASE("a program that would start this launcher is not executed as it is") {
    ProgramRequest request{.program = "a", .no_python = true, .file = {.starts_launcher = true}};
    CHECK(refused(request) ==
          "--no-python: the first line of a names this launcher, which would start itself without end");
    request.run_path = true;
    CHECK(chosen(request).argv.front() == "python3");
}

TEST_CASE("the local rank is put into arguments as Python's string.Template does it") {
    const std::pair<const char*, const char*> table[] = {
        {"${local_rank}", "3"},
        {"$local_rank", "3"},
        {"--out=log_${local_rank}.txt", "--out=log_3.txt"},
        {"$local_rank/$local_rank", "3/3"},
        {"${local_rank}${local_rank}0", "330"},
        {"$local_rank.txt", "3.txt"},
        {"$local_rank-1", "3-1"},
        {"$local_rank2", "$local_rank2"},
        {"$local_rank_x", "$local_rank_x"},
        {"$local_ran", "$local_ran"},
        {"$LOCAL_RANK", "$LOCAL_RANK"},
        {"${LOCAL_RANK}", "${LOCAL_RANK}"},
        {"$$", "$$"},
        {"$$$", "$$$"},
        {"$$$$", "$$$$"},
        {"$$ $local_rank", "$ 3"},
        {"$$local_rank", "$local_rank"},
        {"$$$local_rank", "$3"},
        {"$${local_rank}", "${local_rank}"},
        {"${local_rank", "${local_rank"},
        {"${ local_rank}", "${ local_rank}"},
        {"${local_rank }", "${local_rank }"},
        {"${}", "${}"},
        {"$", "$"},
        {"a$", "a$"},
        {"$1", "$1"},
        {"${other}", "${other}"},
        {"$other$local_rank", "$other3"},
        {"", ""},
        {"line\nline $local_rank", "line\nline 3"},
    };
    for (auto [argument, expected] : table) {
        INFO(argument);
        CHECK(substituted(argument, 3) == expected);
    }
    CHECK(substituted("$local_rank", 12) == "12");
}

TEST_CASE("the executable itself is no argument, a script is one") {
    CHECK(argv_for_worker({.argv = {"./p$$local_rank", "$local_rank"}, .entry_name = ""}, 1) ==
          Words{"./p$$local_rank", "1"});
    ProgramRequest request;
    request.program = "train_${local_rank}.py";
    CHECK(argv_for_worker(chosen(request), 2) == Words{"python3", "-u", "train_2.py"});
}

}  // namespace ddprun
