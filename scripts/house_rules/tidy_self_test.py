"""Tests of tidy.py: for every rule trees that break it, each with the words the complaint must have, and trees that do not."""

import tidy
import tidy_language
import tidy_names
import tidy_ratchets
from tidy_cpp import code_only, functions, namespace_variables
from tidy_wings import WINGS

LONG_BODY = "    work();\n" * 70
IN_LAUNCH = "namespace ddprun {\ninline namespace launch {\n%s\n}  // namespace launch\n}  // namespace ddprun\n"
IN_NAMESPACE = "namespace ddprun {\n%s\n}  // namespace ddprun\n"
MARK = "TO" + "DO"
FIGURES = {count: figure for count, _, figure in tidy_ratchets.RATCHETS}
FUNCTIONS = "".join(f"    void f{i}() {{}}\n" for i in range(4))
TWO_CLASSES = IN_NAMESPACE % f"class A%d {{\n{FUNCTIONS}}};\nclass B%d {{\n{FUNCTIONS}}};"

# (rule, tree, words of its complaint or None when the tree is in order)
CASES = (
    (tidy.file_length, {"launcher/agent/agent.cpp": "\n" * 501}, "501 lines"),
    (tidy.formatted_messages, {"apps/x.cpp": 'auto a = "rank " + std::to_string(f(1));\n'}, "fmt::format"),
    (tidy.formatted_messages, {"apps/x.cpp": 'auto a = std::to_string(f(1)) + " ms";\n'}, "fmt::format"),
    (tidy.formatted_messages, {"apps/x.cpp": 'auto a = folder / std::to_string(1); auto b = "a" + to_string(c);\n'}, None),
    (tidy.one_descriptor, {"launcher/x.cpp": "class Descriptor {\n};\n"}, "class Descriptor"),
    (tidy.one_descriptor, {"rendezvous/system/x.hpp": "class OwnedDescriptor {\n};\n", "launcher/x.hpp": "class OwnedDescriptor;\n"}, None),
    (tidy.file_length, {"launcher/agent/agent.cpp": "\n" * 500, "README.md": "\n" * 900}, None),
    (tidy.function_length, {"launcher/agent/agent.cpp": IN_NAMESPACE % ("void Agent::run() {\n" + LONG_BODY + "}")}, "Agent::run: 72 lines"),
    (tidy.function_length, {"launcher/agent/agent.cpp": IN_NAMESPACE % ("void Agent::run() {\n" + LONG_BODY[12 * 2:] + "}")}, None),
    (tidy.function_length, {"scripts/x.py": "def main():\n" + "    work()\n" * 71}, "main: 72 lines"),
    (tidy.include_direction, {"launcher/a.cpp": '#include "collectives/b.hpp"\n', "collectives/b.hpp": ""}, "launcher/ must not include"),
    (tidy.include_direction, {"collectives/a.cpp": '#include "launcher/b.hpp"\n', "launcher/b.hpp": ""}, "collectives/ must not include"),
    (tidy.include_direction, {"rendezvous/a.cpp": '#include "apps/b.hpp"\n', "apps/b.hpp": ""}, "rendezvous/ must not include"),
    (tidy.include_direction, {"rendezvous/a.cpp": '#include "b.hpp"\n', "rendezvous/b.hpp": ""}, "from the repo root"),
    (tidy.include_direction, {"launcher/a.cpp": '#include "rendezvous/b.hpp"\n', "rendezvous/b.hpp": ""}, None),
    (tidy.wing_direction, {"launcher/output/a.cpp": '#include "launcher/agent/b.hpp"\n', "launcher/agent/b.hpp": ""}, "launcher/output must not include launcher/agent"),
    (tidy.wing_direction, {"collectives/tcp/a.cpp": '#include "collectives/communicator.hpp"\n', "collectives/communicator.hpp": ""}, "must not include collectives"),
    (tidy.wing_direction, {"launcher/attic/a.cpp": ""}, "is no wing"),
    (tidy.wing_direction, {"launcher/guardian/a.cpp": ""}, "may include launcher/process, and does not"),
    (tidy.wing_direction, {"launcher/output/a.cpp": '#include "launcher/process/b.hpp"\n#include "launcher/d.hpp"\n#include "rendezvous/net/c.hpp"\n',
                           "launcher/process/b.hpp": '#include "launcher/d.hpp"\n#include "launcher/look/f.hpp"\n', "launcher/look/f.hpp": "",
                           "launcher/d.hpp": "", "rendezvous/net/c.hpp": '#include "rendezvous/system/e.hpp"\n', "rendezvous/system/e.hpp": ""}, None),
    (tidy.no_circles, {"launcher/a.hpp": "", "launcher/a.cpp": '#include "launcher/b.hpp"\n', "launcher/b.hpp": "", "launcher/b.cpp": '#include "launcher/a.hpp"\n'}, "in a circle: launcher/a, launcher/b"),
    (tidy.no_circles, {"launcher/jobs/a.hpp": '#include "launcher/agent/b.hpp"\n', "launcher/agent/b.hpp": "",
                       "launcher/agent/c.hpp": '#include "launcher/jobs/d.hpp"\n', "launcher/jobs/d.hpp": ""}, "in a circle: launcher/agent, launcher/jobs"),
    (tidy.no_circles, {"launcher/a.hpp": "", "launcher/a.cpp": '#include "launcher/a.hpp"\n#include "launcher/b.hpp"\n', "launcher/b.hpp": ""}, None),
    (tidy.folder_size, {f"launcher/agent/a{i}.hpp": "" for i in range(31)}, "31 files"),
    (tidy.folder_size, {f"launcher/agent/a{i}.hpp": "" for i in range(30)}, None),
    (tidy.folder_size, {f"tests/launcher/a{i}.cpp": "" for i in range(41)}, "41 files"),
    (tidy.folder_size, {f"tests/launcher/a{i}.cpp": "" for i in range(40)}, None),
    (tidy.library_home, {"launcher/a.cpp": "#include <CLI/CLI.hpp>\n"}, "<CLI/CLI.hpp> may only"),
    (tidy.library_home, {"launcher/a.hpp": "#include <spdlog/spdlog.h>\n"}, "<spdlog/spdlog.h> may only"),
    (tidy.library_home, {"rendezvous/a.cpp": "#include <boost/process/v2.hpp>\n"}, "may only"),
    (tidy.library_home, {"tests/launcher/a_test.cpp": "#include <catch2/catch.hpp>\n"}, "may only"),
    (tidy.library_home, {"apps/a.cpp": "#include <CLI/CLI.hpp>\n", "launcher/a.cpp": "#include <spdlog/spdlog.h>\n"}, None),
    (tidy.public_headers, {"collectives/CMakeLists.txt": "install(FILES communicator.hpp DESTINATION x)",
                           "collectives/communicator.hpp": "#include <boost/asio.hpp>\n"}, "not boost/asio.hpp"),
    (tidy.public_headers, {"collectives/CMakeLists.txt": "target_sources(a PUBLIC FILE_SET HEADERS FILES communicator.hpp)",
                           "collectives/communicator.hpp": '#include "rendezvous/store/store.hpp"\n'}, "not rendezvous/store/store.hpp"),
    (tidy.public_headers, {"collectives/CMakeLists.txt": "install(FILES gone.hpp DESTINATION x)"}, "does not exist"),
    (tidy.public_headers, {"collectives/CMakeLists.txt": "install(FILES a.hpp b.h DESTINATION x)", "collectives/b.h": "#include <stddef.h>\n",
                           "collectives/a.hpp": '#include <span>\n#include "collectives/b.h"\n'}, None),
    (tidy.pragma_once, {"launcher/a.hpp": "// #pragma once\n"}, "no #pragma once"),
    (tidy.pragma_once, {"launcher/a.hpp": "#pragma once\n", "launcher/a.cpp": ""}, None),
    (tidy.using_in_header, {"launcher/a.hpp": "using namespace std;\n"}, "using namespace"),
    (tidy.using_in_header, {"launcher/a.hpp": "using std::string;\n", "launcher/a.cpp": "using namespace std;\n"}, None),
    (tidy.left_over_marks, {"launcher/a.cpp": f"// {MARK}: later\n"}, MARK),
    (tidy.left_over_marks, {"scripts/a.sh": "mktemp -d /tmp/" + "X" * 6 + "\n"}, None),
    (tidy.machine_names, {"README.md": "cd /ro" + "ot/ddprun\n"}, "names a machine's path"),
    (tidy.machine_names, {"scripts/a.sh": "curl https://pyp" + "i.org/simple\n"}, "names a machine's path"),
    (tidy.machine_names, {"README.md": "see network/root/x, ${HOME}/work/y and /tmp/job\n"}, None),
    (tidy.pages, {"README.md": "x" * 9000}, "9000 bytes"),
    (tidy.pages, {"apps/a/b.md": "x" * 25_001}, "25001 bytes"),
    (tidy.pages, {"apps/a/b.md": "x" * 25_000}, None),
    (tidy.dead_links, {"README.md": "[a](apps/a.md)"}, "links to apps/a.md"),
    (tidy.dead_links, {"launcher/README.md": "[a](../apps/b.hpp)", "apps/a.hpp": ""}, "links to ../apps/b.hpp"),
    (tidy.dead_links, {".github/A.md": "[`a`](../app)", "apps/a.hpp": ""}, "links to ../app"),
    (tidy.dead_links, {"apps/a.md": "[a](../README.md#flags)", "README.md": "## Exit codes\n"}, "links to ../README.md#flags"),
    (tidy.dead_links, {"apps/a.md": "[a](#b)\n```sh\n# b\n```\n"}, "links to #b"),
    (tidy.dead_links, {"apps/a.md": "[a](b.md#exit-codes-of-x) [b](#c) [d](e.png) [f](https://g.h/i.md) [j](../apps)\n# C\n"
                                    "`[k](l.md)`\n```cpp\n[&](int m) {}\n```\n", "apps/b.md": "## Exit codes of `x`\n"}, None),
    (tidy.dead_names, {"README.md": "`agent/b.cpp`", "launcher/agent/a.cpp": "", "launcher/agent/ab.cpp": ""}, "names agent/b.cpp"),
    (tidy.dead_names, {"README.md": "`a.cpp` `../agent/a.cpp` `NAME.cpp` `b_*.cpp` b.cpp", "launcher/agent/a.cpp": ""}, None),
    (tidy.layout, {"docs/a.md": ""}, "top level"),
    (tidy.layout, {"launcher/util/a.hpp": ""}, "a util/ folder"),
    (tidy.layout, {"launcher/a.hpp": "", ".ci/run": "", "LICENSE": "", "tests/helpers/stub.cpp": ""}, None),
    (tidy.registered, {"tests/launcher/a_test.cpp": "", "tests/launcher/CMakeLists.txt": "# a_test.cpp\n"}, "in no CMake target"),
    (tidy.registered, {"tests/launcher/a_test.py": "", "tests/launcher/CMakeLists.txt": "extra_a_test.py\n"}, "in no CMake target"),
    (tidy.registered, {"launcher/a.cpp": "", "launcher/CMakeLists.txt": "b.cpp\n"}, "in no CMake target"),
    (tidy.registered, {"apps/one/a.cpp": "", "apps/CMakeLists.txt": "two/a.cpp a.cpp\n"}, "in no CMake target"),
    (tidy.registered, {"tests/launcher/a_test.cpp": "", "tests/CMakeLists.txt": "x(launcher/a_test.cpp)\n", "scripts/b.py": "",
                       "tests/helpers/b.cpp": "", "tests/apps/CMakeLists.txt": "x(${PROJECT_SOURCE_DIR}/tests/helpers/b.cpp)"}, None),
    (tidy.hidden_tests, {"tests/launcher/a_test.cpp": 'TEST_CASE("a", "[.]") {}\n'}, "hidden test case"),
    (tidy.hidden_tests, {"tests/launcher/a_test.cpp": '// TEST_CASE("a", "[b]") {}\n'}, "commented out"),
    (tidy.hidden_tests, {"tests/launcher/a_test.cpp": 'TEST_CASE("a.", "[b]") {}\n'}, None),
    (tidy.reasoned_sleeps, {"tests/a_test.cpp": "\nstd::this_thread::sleep_for(1s);\n"}, "a sleep without"),
    (tidy.reasoned_sleeps, {"tests/a_test.cpp": "// No event says when.\n" + "\n" * 20 + "sleep(1);  // A while.\n"}, "a sleep without"),
    (tidy.reasoned_sleeps, {"tests/a_test.py": "x = 1\ntime.sleep(1)\n"}, "a sleep without"),
    (tidy.reasoned_sleeps, {"tests/a_test.sh": "true\n  sleep 1\n"}, "a sleep without"),
    (tidy.reasoned_sleeps, {"tests/a_test.cpp": "// No event says\n// when.\nwhile (x) {\n    sleep(1);\n}\n"}, None),
    (tidy.global_state, {"launcher/a.cpp": IN_NAMESPACE % "std::atomic<bool> stop{false};"}, "stop"),
    (tidy.global_state, {"launcher/a.cpp": IN_NAMESPACE % "static int count = 0;"}, "static int count"),
    (tidy.global_state, {"launcher/a.cpp": IN_NAMESPACE % "int next() {\n    static int last = 0;\n    return ++last;\n}"}, "static int last"),
    (tidy.global_state, {"launcher/a.cpp": IN_NAMESPACE % "constexpr int kMax = 3;\nconst std::map<int, int> kMap = {{1, 2}};\nint f(int a = 3);"
                         "\nclass A {\n    int a_ = 0;\n    static int b();\n    template <class T>\n    static int c(T) { return 1; }\n};\nvoid g() { static const int one = 1; }"}, None),
    (tidy.global_state, {"launcher/a.cpp": IN_NAMESPACE % "struct A {};\nBOOST_DESCRIBE_STRUCT(A, (),\n    ())\ntemplate <>\nstruct B<A> {\n    static A out();\n};"}, None),
    (tidy.environment_reads, {"launcher/a.cpp": 'auto x = std::getenv("X");\n'}, "getenv belongs"),
    (tidy.environment_reads, {"apps/a.cpp": 'auto x = std::getenv("X");\n', "launcher/a.cpp": "// getenv() is for apps.\n"}, None),
    (tidy.pure_cores, {"launcher/a.hpp": "#pragma once\n// Pure: a table.\n", "launcher/a.cpp": "#include <boost/asio.hpp>\n"}, "says it is pure"),
    (tidy.pure_cores, {"launcher/a.hpp": "#pragma once\n// Pure: a table.\nauto x = std::chrono::steady_clock::now();\n"}, "uses steady_clock::now"),
    (tidy.pure_cores, {"launcher/a.hpp": "#pragma once\n// A table. Pure.\n", "launcher/a.cpp": "auto a = ::open(path, 0);\n"}, "uses ::open("),
    (tidy.pure_cores, {"launcher/a.hpp": "#pragma once\n// A table. Pure but for read().\n", "launcher/a.cpp": "auto a = ::open(path, 0);\n"}, None),
    (tidy.pure_cores, {"launcher/a.hpp": "#pragma once\n// Pure but for read().\n", "launcher/a.cpp": "auto a = getenv(name);\n"}, "uses getenv("),
    (tidy.ratchets, {f"launcher/a{i}.cpp": "namespace {\n}\nnamespace {\n}\n" for i in range(FIGURES[tidy_ratchets.seams] + 1)}, "sources with two anonymous namespaces"),
    (tidy.ratchets, {f"launcher/a{i}.hpp": TWO_CLASSES % (2 * i, 2 * i + 1) for i in range(FIGURES[tidy_ratchets.crowded_headers] + 1)}, "headers with two classes"),
    (tidy.ratchets, {f"launcher/a{i}.cpp": "\n" * 701 for i in range(FIGURES[tidy_ratchets.long_units] + 1)}, "units over 700 lines"),
    (tidy.ratchets, {"launcher/a.cpp": ("x" * 111 + "\n") * (FIGURES[tidy_ratchets.wide_lines] + 1)}, "launcher/a.cpp:1 (111 columns)"),
    (tidy.ratchets, {"launcher/b.hpp": "#include <boost/asio.hpp>\n",
                     **{f"launcher/a{i}.hpp": '#pragma once\n// Pure.\n#include "launcher/b.hpp"\n' for i in range(FIGURES[tidy_ratchets.reached_libraries] + 1)}}, "at second hand"),
    (tidy.ratchets, {"launcher/a.hpp": IN_LAUNCH % "".join(f"class A{i} : public B {{\nfriend class C;\n}};\n" for i in range(5)),
                     "launcher/a.cpp": IN_LAUNCH % ("void B::f() {}\n" * 30 + "void C::f() {}\n" * 11)}, "A0: 41 functions with its bases' and friends'"),
    (tidy.ratchets, {"launcher/a.hpp": "// Throws. It is none.\n// They go.\n"}, "2 sentences of headers that begin with a pronoun"),
    (tidy.ratchets, {"launcher/a.hpp": "int a = 0;  // of a rank whose node is lost\n" * (FIGURES[tidy_language.persons] + 1)}, "pronouns of persons"),
    (tidy.ratchets, {"launcher/a.hpp": "// How long the other one waits.\ninline constexpr int kLimit = 1;\n" * (FIGURES[tidy_language.unnamed] + 1)}, "do not name what is declared"),
    (tidy.ratchets, {"launcher/a.hpp": "// kLimit: seconds.\ninline constexpr int kLimit = 1;\n// Returns it.\nint f(int a);\n// F is a type.\nclass F {\n"}, None),
    (tidy.ratchets, {tidy_ratchets.HERE: ""}, "lower the figure"),
    (tidy.ratchets, {"launcher/a.hpp": TWO_CLASSES % (1, 2), "launcher/a.cpp": "namespace {\n}\n"}, None),
    (tidy.pure_cores, {"launcher/a.hpp": "#pragma once\n// Pure: a table.\n", "launcher/b.cpp": "#include <boost/asio.hpp>\n"}, None),
    (tidy.listed_sources, {"launcher/CMakeLists.txt": "file(GLOB sources *.cpp)\n"}, "by hand"),
    (tidy.listed_sources, {"launcher/CMakeLists.txt": "add_library(a a.cpp)  # no file(GLOB\n"}, None),
    (tidy.room_namespace, {"launcher/a.hpp": "namespace ddprun {\ninline namespace job {\nclass A {\n};\n}\n}\n"}, "this room's namespace is ddprun::inline launch"),
    (tidy.room_namespace, {"collectives/tcp/a.cpp": "namespace ddprun {\nvoid f() {}\n}\n"}, "ddprun::inline detail"),
    (tidy.room_namespace, {"rendezvous/net/a.hpp": "namespace ddprun {\ninline namespace base {\n}\n}  // namespace bass\n"}, "does not begin here: bass"),
    (tidy.room_namespace, {"launcher/a.hpp": "namespace ddprun::inline launch {\nclass A {\n};\n}\n"}, "open each namespace by itself"),
    (tidy.room_namespace, {"launcher/a.hpp": "namespace ddprun {\ninline namespace base {\nclass B;\n}\n}\nnamespace ddprun {\ninline namespace launch {\nclass A {\n};\n"
                           "}  // namespace launch\n}  // namespace ddprun\nnamespace ddprun {\ntemplate <>\nstruct Form<A> {\n};\n}\n",
                           "collectives/a.hpp": "namespace ddprun {\nclass C {\n};\n}\n", "tests/a.cpp": "namespace ddprun {\nclass D {\n};\n}\n"}, None),
    (tidy.one_type, {"collectives/a.hpp": IN_NAMESPACE % "struct Member {\n    int a = 0;\n};",
                     "collectives/b.cpp": IN_NAMESPACE % "struct Member final {\n    long a = 0;\n};"}, "ddprun::Member is another type in collectives/a.hpp"),
    (tidy.one_type, {"launcher/a.hpp": "namespace ddprun {\ninline namespace launch {\nenum class Kind { a };\n}\n}\n",
                     "launcher/b.hpp": "namespace ddprun {\ninline namespace launch {\ntemplate <class T>\nclass Kind : public B<T> {\n};\n}\n}\n"}, "Kind"),
    (tidy.one_type, {"launcher/a.hpp": IN_NAMESPACE % "class A {\n    struct Impl;\n    struct Row {\n    };\n};\nclass B;",
                     "launcher/b.hpp": IN_NAMESPACE % "struct A::Impl {\n};\nstruct B {\n    struct Row {\n    };\n};\ntemplate <>\nstruct A<B> {\n};",
                     "launcher/c.cpp": IN_NAMESPACE % "namespace {\nclass A {\n};\n}",
                     "rendezvous/job/a.hpp": "namespace ddprun {\ninline namespace job {\nclass A {\n};\n}\n}\n"}, None),
    (tidy.class_size, {"launcher/a.cpp": IN_NAMESPACE % ("void A::f() {}\n" * tidy_names.MAX_MEMBER_FUNCTIONS),
                       "launcher/b.cpp": IN_NAMESPACE % "int A::g() { return 1; }"}, f"A: {tidy_names.MAX_MEMBER_FUNCTIONS + 1} member functions"),
    (tidy.class_size, {"launcher/a.cpp": IN_NAMESPACE % ("void A::f() {}\n" * tidy_names.MAX_MEMBER_FUNCTIONS + "void B::f() {}\nvoid f() {}\n")}, None),
    (tidy.class_size, {"launcher/a.hpp": IN_NAMESPACE % ("class A {\n" + "int f() { return 1; }\n" * tidy_names.MAX_MEMBER_FUNCTIONS + "};"),
                       "launcher/a.cpp": IN_NAMESPACE % "int A::g() { return 1; }"}, f"A: {tidy_names.MAX_MEMBER_FUNCTIONS + 1} member functions"),
    (tidy.class_size, {"launcher/a.hpp": IN_NAMESPACE % ("class A {\nstruct B {\n" + "int f() { return 1; }\n" * tidy_names.MAX_MEMBER_FUNCTIONS + "};\nint g();\n};"),
                       "launcher/a.cpp": IN_NAMESPACE % "namespace {\nclass C {\nint f() { return 1; }\n};\n}\nint A::g() { return 1; }",
                       "launcher/c.cpp": IN_NAMESPACE % ("namespace {\nclass C {\n" + "int f() { return 1; }\n" * tidy_names.MAX_MEMBER_FUNCTIONS + "};\n}")}, None),
    (tidy.strict_shell, {"scripts/a.sh": "#!/bin/bash\nset -e\n"}, "pipefail"),
    (tidy.strict_shell, {"scripts/a.sh": "#!/bin/bash\nset -eu\n"}, "pipefail"),
    (tidy.strict_shell, {"scripts/a.sh": "#!/bin/bash\nset -euo pipefail\n", "scripts/b.sh": "#!/bin/sh\nset -eu\n"}, None),
)

SCANNED = """namespace ddprun {
namespace {
const int kTable[] = {1, 2};
enum class Kind { one, two };
template <typename T = std::vector<int>>
struct Row {
    int value_ = 0;
    int get() const { return value_; }
};
}  // namespace
Agent::Agent(int a) : a_(a), b_{a}, c_{[] { return 1'000; }()} {
    char brace = '}';
    const char* text = "}";  // }
}
bool operator==(const Row& a, const Row& b) { return a.get() == b.get(); }
auto run(int a) -> boost::asio::awaitable<void> {
    for (int i = 0; i < a; ++i) {
        post([i] { use(i); });
    }
}
Row& Row::operator=(Row&&) = default;
int loose;
}  // namespace ddprun
"""


def scanner_problems():
    found = [(name, first, last) for name, first, last in functions(code_only(SCANNED))]
    expected = [("get", 8, 8), ("Agent::Agent", 11, 14), ("operator==", 15, 15), ("run", 16, 20)]
    if found != expected:
        yield f"functions: {found}, expected {expected}"
    variables = list(namespace_variables(code_only(SCANNED)))
    if variables != [(22, "int loose")]:
        yield f"variables: {variables}"


def wing_problems():
    """A row names wings that have their rows before it, so the rows themselves go in no circle."""
    before = set()
    for wing, row in WINGS.items():
        yield from (f"tidy_wings: {wing} names {other}, whose row is not before it" for other in row if other not in before)
        before.add(wing)


def run():
    problems = [*scanner_problems(), *wing_problems()]
    for rule, tree, words in CASES:
        found = [text for _, _, text in rule(tree)]
        if words is None and found:
            problems.append(f"{rule.__name__} complains about a tree in order: {found}")
        if words is not None and not any(words in text for text in found):
            problems.append(f"{rule.__name__} misses {words!r} in {list(tree)}; it said {found}")
    for rule in tidy.RULES:
        kinds = {words is None for tested, _, words in CASES if tested is rule}
        if kinds != {True, False}:
            problems.append(f"{rule.__name__} lacks a case that breaks it or one in order")
    print("\n".join(problems + [f"tidy self-test: {len(CASES)} cases, {len(problems)} problems"]))
    return 1 if problems else 0
