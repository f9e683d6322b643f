#include "launcher/plan/program.hpp"
#include "launcher/plan/program_words.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Words = std::vector<std::string>;

const ProgramFile kNothing = {};

ProgramFile binary(const std::string& real_name) { return {.is_binary = true, .real_name = real_name}; }

ProgramFile script(Words interpreter) {
    return {.interpreter = std::move(interpreter), .real_name = "script"};
}

}  // namespace

TEST_CASE("program kind: words that start Python, also behind env") {
    const Words rows[] = {
        {"python", "train.py"},
        {"python3"},
        {"/usr/bin/python3.11", "-m", "train"},
        {"python3.13t", "x"},
        {"python3-dbg"},
        {"pypy3", "x.py"},
        {"env", "python3", "x.py"},
        {"/usr/bin/env", "-i", "python", "x.py"},
        {"env", "-", "A=B", "python3"},
        {"env", "-u", "X", "A=B", "C=", "python3"},
        {"env", "-uX", "--unset=Y", "--unset", "Z", "--chdir", "/", "-C", "/tmp", "python3"},
        {"env", "-iu", "X", "-v0", "--default-signal=PIPE", "--argv0=x", "-a", "y", "--", "A=B", "python3"},
        {"env", "-S", "A=B python3 -u", "x.py"},
        {"env", "-vS", "python3 -u"},
        {"env", "-Spython3 -u x.py"},
        {"env", "--split-string=-i python3 -u"},
        {"env", "--split-string", "-S 'python3 x'"},
        {"env", "A=B", "/usr/bin/env", "C=D", "python3"},
    };
    for (const Words& words : rows) {
        CAPTURE(words);
        CHECK(runs_python(words));
        CHECK(kind_of(words, binary("env")) == ProgramKind::python);
        CHECK(kind_of(words, kNothing) == ProgramKind::python);
    }
    const Words others[] = {
        {},
        {"env"},
        {"env", "A=B"},
        {"env", "-u"},
        {"env", "-u", "python3"},
        {"env", "-u", "python3", "x"},
        {"env", "-C", "python3"},
        {"env", "-S"},
        {"env", "-S", ""},
        {"env", "-S", "'python3"},
        {"env", "--", "x=python3"},
        {"env", "./train", "python3"},
        {"pythonic"},
        {"python_solver"},
        {"my-python3"},
        {"python3/train"},
        {"nice", "python3"},
        {""},
    };
    for (const Words& words : others) {
        CAPTURE(words);
        CHECK_FALSE(runs_python(words));
    }
}

TEST_CASE("program kind: a file is Python by its first line, or by what a link leads to") {
    CHECK(kind_of({"./trainer", "x"}, binary("python3.11")) == ProgramKind::python);
    CHECK(kind_of({"./tool"}, script({"/usr/bin/python3"})) == ProgramKind::python);
    CHECK(kind_of({"./tool"}, script({"/usr/bin/env", "python3"})) == ProgramKind::python);
    CHECK(kind_of({"./tool"}, script({"/usr/bin/env", "-S python3 -u"})) == ProgramKind::python);
    CHECK(kind_of({"./tool"}, script({"/usr/bin/env", "-S uv run --script"})) == ProgramKind::other);
    CHECK(kind_of({"./tool"}, script({"/bin/sh"})) == ProgramKind::other);
    CHECK(kind_of({"./tool"}, script({""})) == ProgramKind::other);
}

TEST_CASE("program kind: only a binary that starts nothing else is native") {
    for (const char* name :
         {"train", "./train", "/opt/solver-2.1", "r2d2", "time_steps", "nodes", "bash_like"}) {
        CAPTURE(name);
        CHECK(kind_of({name, "--epochs", "3"}, binary("train")) == ProgramKind::native);
        CHECK(kind_of({name}, kNothing) == ProgramKind::other);
    }
    for (const char* name : {"bash",       "/bin/sh",    "zsh",       "busybox", "perl5.36.0",   "lua5.4",
                             "ruby3.1",    "node18",     "R",         "java",    "julia",        "env",
                             "nice",       "numactl",    "taskset",   "timeout", "nohup",        "gdb",
                             "valgrind",   "nsys",       "rocprofv3", "uv",      "/opt/bin/uvx", "conda",
                             "micromamba", "accelerate", "torchrun",  "mpirun",  "apptainer",    "podman",
                             "sudo",       "ddprun"}) {
        CAPTURE(name);
        CHECK(kind_of({name, "./train"}, binary("train")) == ProgramKind::other);
        const std::string real(std::string(name).substr(std::string(name).rfind('/') + 1));
        CHECK(kind_of({"./train"}, binary(real)) == ProgramKind::other);
    }
}

TEST_CASE("program kind: a binary that is given Python to run is a wrapper, whatever its name") {
    CHECK(kind_of({"./site-run", "-n", "python3", "x"}, binary("site-run")) == ProgramKind::other);
    CHECK(kind_of({"./site-run", "--", "/opt/py/bin/python"}, binary("site-run")) == ProgramKind::other);
    CHECK(kind_of({"./site-run", "train.py"}, binary("site-run")) == ProgramKind::other);
    CHECK(kind_of({"./site-run", "./run.sh"}, binary("site-run")) == ProgramKind::other);
    CHECK(kind_of({"./site-run", "/bin/bash", "-c", "x"}, binary("site-run")) == ProgramKind::other);
    CHECK(kind_of({"mpiexec.hydra", "./x"}, binary("mpiexec.hydra")) == ProgramKind::other);
    CHECK(kind_of({"./train", "--name", "pythonic", "x.pyc"}, binary("train")) == ProgramKind::native);
}

}  // namespace ddprun
