#!/usr/bin/env python3
"""House rules as a test: `tidy.py` checks the tree, `tidy.py --self-test` checks every rule, and `tidy.py --built FOLDER
TIMES` what a release build weighs, which took the processors that many times as long as Catch2's own code.

A rule is a function from the tree (path -> text) to complaints (path, line, text). It has a row in RULES and, in
house_rules/tidy_self_test.py, one tree that breaks it and one that does not. Needs Python 3 and its standard library only.
"""

import ast
import os
import re
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "house_rules"))

from tidy_budget import counted, measured, over, show
from tidy_cpp import code_only, functions, includes, namespace_variables, static_locals
from tidy_names import class_size, one_type, room_namespace
from tidy_ratchets import purity, ratchets
from tidy_wings import folder_size, no_circles, wing_direction

ROOMS = ("apps", "launcher", "rendezvous", "collectives")
CPP = (".cpp", ".hpp", ".h", ".cu", ".cuh")
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 70
MAX_FIRST_PAGE_BYTES = 8 * 1024
MAX_MANUAL_PAGE_BYTES = 25_000

# Who may include whom: design, "Four rooms".
MAY_INCLUDE = {
    "rendezvous": {"rendezvous"},
    "launcher": {"launcher", "rendezvous"},
    "collectives": {"collectives", "rendezvous"},
    "apps": set(ROOMS),
    "tests": set(ROOMS) | {"tests"},
}

# Where a library may be included: its include prefix, and a pattern of paths.
LIBRARY_HOME = (
    ("CLI/", r"apps/"),
    ("toml++/", r"apps/cli/(config_file|print)\.cpp$"),
    ("spdlog/", r"(launcher|apps)/.*\.cpp$"),
    ("fmt/core.h", r".*\.cpp$"),
    ("fmt/format.h", r"rendezvous/base/format\.cpp$"),
    ("boost/process", r"launcher/"),
    ("catch2/", r"tests/support/"),
)

TOP_LEVEL = {"CMakeLists.txt", "CMakePresets.json", "README.md", "LICENSE", "tests", "scripts", *ROOMS}
BANNED_FOLDERS = {"util", "utils", "common", "misc", "lib", "docs"}

# Joined from halves, so that this file does not contain what it looks for.
MARKS = re.compile(r"\b(%s)\b" % "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")))
MACHINE_PATH = re.compile(r"(?<![\w.$}])/(?:root|home/\w+|work|Users/\w+|tmp/build[\w-]*)/")
REGISTRY_HOST = re.compile(
    r"\b(?:[\w-]+\.)*(?:%s)\b"
    % "|".join(("debian" + r"\.org", "pypi" + r"\.org", "pythonhosted" + r"\.org", "ubuntu" + r"\.com", "docker" + r"\.io",
                "quay" + r"\.io", "ghcr" + r"\.io", "nvcr" + r"\.io", "anaconda" + r"\.org", "npmjs" + r"\.org", "crates" + r"\.io")))
IMPURE_ALWAYS = re.compile(r"\b(?:getenv\s*\(|\w*clock::now\b)")
IMPURE = re.compile(IMPURE_ALWAYS.pattern + r"|(?<!\w)::(?:open|openat|read|write|l?stat|fstat|access|unlink|rename|mkdir|socket)\s*\("
                    r"|\b(?:[io]fstream|fopen|directory_iterator|current_path|read_small_file|replace_file|read_process_stat)\b")
SLEEP = re.compile(r"\b(?:sleep_for|sleep_until|usleep|nanosleep|sleep)\s*\(|^\s*sleep\s+[\w.$\"]")
C_HEADERS = re.compile(r"(assert|ctype|errno|float|inttypes|limits|math|setjmp|signal|std\w+|string|time|wchar)\.h$")


def is_cpp(path):
    return path.endswith(CPP)


def room_of(path):
    return path.split("/", 1)[0]


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def file_length(tree):
    for path, text in tree.items():
        lines = len(text.splitlines())
        if path.endswith((*CPP, ".py", ".sh")) and lines > MAX_FILE_LINES:
            yield path, lines, f"{lines} lines, the hard stop is {MAX_FILE_LINES}: split it by job"


def function_length(tree):
    for path, text in tree.items():
        if is_cpp(path):
            spans = functions(code_only(text))
        elif path.endswith(".py"):
            nodes = (n for n in ast.walk(ast.parse(text)) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)))
            spans = [(n.name, n.lineno, n.end_lineno) for n in nodes]
        else:
            continue
        for name, first, last in spans:
            if last - first + 1 > MAX_FUNCTION_LINES:
                yield path, first, f"{name}: {last - first + 1} lines, the hard stop is {MAX_FUNCTION_LINES}"


def include_direction(tree):
    for path, text in tree.items():
        room = room_of(path)
        if not is_cpp(path) or room not in MAY_INCLUDE:
            continue
        for line, form, name in includes(text):
            if form == "<":
                if room_of(name) in MAY_INCLUDE and "/" in name and name in tree:
                    yield path, line, f"<{name}> is ours: include it with quotes"
            elif name not in tree:
                yield path, line, f'"{name}" is no file of this tree: include from the repo root'
            elif room_of(name) not in MAY_INCLUDE[room]:
                yield path, line, f'{room}/ must not include "{name}"'


def library_home(tree):
    for path, text in tree.items():
        if not is_cpp(path):
            continue
        for line, _, name in includes(text):
            for prefix, home in LIBRARY_HOME:
                if name.startswith(prefix) and not re.match(home, path):
                    yield path, line, f"<{name}> may only be included in {home}"


def installed_headers(tree):
    text = re.sub(r"#.*", "", tree.get("collectives/CMakeLists.txt", ""))
    blocks = re.findall(r"(?:install\s*\(\s*FILES|FILE_SET\s+HEADERS)([^)]*)", text)
    return {"collectives/" + os.path.basename(name) for block in blocks for name in re.findall(r"[\w./-]+\.h(?:pp)?\b", block)}


def public_headers(tree):
    public = installed_headers(tree)
    for path in sorted(public):
        if path not in tree:
            yield "collectives/CMakeLists.txt", 1, f"installs {path}, which does not exist"
            continue
        for line, form, name in includes(tree[path]):
            own = form == '"' and name in public
            standard = form == "<" and (re.fullmatch(r"[a-z_]+", name) or C_HEADERS.match(name))
            if not own and not standard:
                yield path, line, f"a public header may include only standard and installed headers, not {name}"


def pragma_once(tree):
    for path, text in tree.items():
        if path.endswith((".hpp", ".h", ".cuh")) and not re.search(r"^#pragma once$", text, re.M):
            yield path, 1, "has no #pragma once"


def using_in_header(tree):
    for path, text in tree.items():
        if path.endswith((".hpp", ".h", ".cuh")):
            for match in re.finditer(r"\busing\s+namespace\b", code_only(text)):
                yield path, line_of(code_only(text), match.start()), "using namespace in a header"


def left_over_marks(tree):
    for path, text in tree.items():
        for number, line in enumerate(text.splitlines(), 1):
            match = MARKS.search(line)
            if match:
                yield path, number, f"left-over mark {match.group(1)}"


def machine_names(tree):
    for path, text in tree.items():
        for number, line in enumerate(text.splitlines(), 1):
            match = MACHINE_PATH.search(line) or REGISTRY_HOST.search(line)
            if match:
                yield path, number, f"names a machine's path or a registry's host: {match.group(0)}"


def blanked(pattern, text):
    """The text with blanks for what matches; everything else keeps its place."""
    return re.sub(pattern, lambda found: re.sub(r"[^\n]", " ", found[0]), text, flags=re.S | re.M)


FENCED = r"^ *```.*?^ *```$"


def anchors(text):
    """What a link can name in a page: its headings, as they are shown on the web."""
    headings = re.findall(r"^#+ (.*)$", blanked(FENCED, text), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def pages(tree):
    first = len(tree.get("README.md", "").encode())
    if first > MAX_FIRST_PAGE_BYTES:
        yield "README.md", 1, f"{first} bytes, the first page has {MAX_FIRST_PAGE_BYTES}: move reference beside the programs"
    for path, text in tree.items():
        if path.startswith("apps/") and path.endswith(".md") and len(text.encode()) > MAX_MANUAL_PAGE_BYTES:
            yield path, 1, f"{len(text.encode())} bytes, a page of a manual has {MAX_MANUAL_PAGE_BYTES}: one page for each task"


def dead_links(tree):
    """Links from page to page, to a place in one, to a file or folder; pictures are no text, so they are not in the tree."""
    folders = {path[:end.start()] for path in tree for end in re.finditer("/", path)}
    for path, text in tree.items():
        prose = blanked(FENCED + r"|`[^`\n]*`", text) if path.endswith(".md") else ""
        for match in re.finditer(r"\]\(([^)#]*)(?:#([^)]*))?\)", prose):
            if ":" in match[1] or match[1].endswith(".png"):
                continue
            page = os.path.normpath(os.path.join(os.path.dirname(path), match[1])) if match[1] else path
            if page not in tree and page not in folders or match[2] and match[2] not in anchors(tree.get(page, "")):
                yield path, line_of(text, match.start()), f"links to {match[0][2:-1]}, which is not there"


def dead_names(tree):
    """Sources that a page names, from wherever it likes; capitals stand for a name to be chosen."""
    known = {path[start:] for path in tree for start in (0, *(slash.end() for slash in re.finditer("/", path)))}
    for path, text in tree.items():
        for match in re.finditer(r"`(?:\.\./)*([a-z0-9_./]+\.(?:cpp|hpp|cu))`", blanked(FENCED, text) if path.endswith(".md") else ""):
            if match[1] not in known:
                yield path, line_of(text, match.start()), f"names {match[1]}, which is not there"


def layout(tree):
    for path in tree:
        top, *rest = path.split("/")
        if top not in TOP_LEVEL and not top.startswith("."):
            yield path, 1, "the top level holds the four rooms, tests, scripts and dot-files only"
        for folder in [top, *rest][:-1]:
            if folder in BANNED_FOLDERS:
                yield path, 1, f"a {folder}/ folder: a helper lives with its first user"


def names_file(cmake, folder, path):
    """Does the CMakeLists.txt of `folder` name the file: from there, or from the repo root?"""
    told = re.sub(r"#.*", "", cmake)
    from_root = r"SOURCE_DIR}/" + re.escape(path) + r"(?![\w.])"
    from_there = r"(?<![\w./-])" + re.escape(os.path.relpath(path, folder or ".")) + r"(?![\w.])"
    return re.search(from_root, told) or re.search(from_there, told)


def registered(tree):
    lists = {os.path.dirname(path): text for path, text in tree.items() if os.path.basename(path) == "CMakeLists.txt"}
    for path in tree:
        is_test = path.startswith("tests/") and re.search(r"_test\.(cpp|py|sh)$", path)
        is_source = path.endswith((".cpp", ".cu")) and room_of(path) in (*ROOMS, "tests")
        if (is_test or is_source) and not any(names_file(text, folder, path) for folder, text in lists.items()):
            yield path, 1, "is in no CMake target: it is dead, or a test that silently does not run"


def hidden_tests(tree):
    for path, text in tree.items():
        if path.startswith("tests/") and is_cpp(path):
            for match in re.finditer(r'^\s*TEST_CASE[^\n]*"[^"\n]*\[(\.|!hide|!mayfail)', text, re.M):
                yield path, line_of(text, match.start()), f"a hidden test case: [{match.group(1)}"
            for match in re.finditer(r"^\s*//\s*TEST_CASE", text, re.M):
                yield path, line_of(text, match.start()), "a test case commented out"


def reasoned_sleeps(tree):
    """A sleep needs a comment that says why there is no event to wait for, in its loop: on its line or shortly above."""
    reach = 12
    for path, text in tree.items():
        if not path.endswith((*CPP, ".py", ".sh")) or path.startswith(("scripts/tidy", "scripts/house_rules/")):
            continue
        mark = "//" if is_cpp(path) else "#"
        lines = [line.partition(mark) for line in text.splitlines()]
        for number, (code, _, _) in enumerate(lines, 1):
            comments = [comment for _, _, comment in lines[max(0, number - 1 - reach):number]]
            if SLEEP.search(code) and not re.search(r"\bevents?\b", " ".join(comments)):
                yield path, number, "a sleep without a comment that says why no event exists"


def global_state(tree):
    for path, text in tree.items():
        if is_cpp(path):
            for line, statement in [*namespace_variables(code_only(text)), *static_locals(code_only(text))]:
                yield path, line, f"mutable global state: {statement}"


def environment_reads(tree):
    """Settings are read at the edge, never deep inside."""
    for path, text in tree.items():
        if is_cpp(path) and room_of(path) in ROOMS and room_of(path) != "apps" and path != "rendezvous/worker/worker_env.cpp":
            code = code_only(text)
            for match in re.finditer(r"\b(?:secure_)?getenv\s*\(", code):
                yield path, line_of(code, match.start()), "getenv belongs in apps/ and rendezvous/worker/worker_env.cpp"


def pure_cores(tree):
    """A header whose first comment says "Pure" promises: no Asio, no logging, no clock, no environment, and no files, unless the
    comment names what is excepted ("Pure but for")."""
    for header, text in tree.items():
        claim = purity(header, text)
        if not claim:
            continue
        told = IMPURE if claim == "all" else IMPURE_ALWAYS
        for path in (header, header[:-4] + ".cpp"):
            code = code_only(tree.get(path, ""))
            for line, _, name in includes(tree.get(path, "")):
                value_type = name.startswith("boost/asio/ip/address")
                if name.startswith(("boost/asio", "boost/process", "boost/beast", "spdlog/")) and not value_type:
                    yield path, line, f"{header} says it is pure, but this includes <{name}>"
            for match in told.finditer(code):
                yield path, line_of(code, match.start()), f"{header} says it is pure, but this uses {match.group(0)}"


def listed_sources(tree):
    for path, text in tree.items():
        if os.path.basename(path) == "CMakeLists.txt" or path.endswith(".cmake"):
            for match in re.finditer(r"^[^#\n]*\bfile\s*\(\s*GLOB", text, re.M):
                yield path, line_of(text, match.start()), "sources are listed by hand"


def strict_shell(tree):
    for path, text in tree.items():
        if path.endswith(".sh") and path.startswith(("scripts/", "tests/")):
            needed = "set -eu" if text.startswith("#!/bin/sh\n") else "set -euo pipefail"
            if not re.search(f"^{needed}$", text, re.M):
                yield path, 1, f"a shell script says `{needed}`"


NUMBER_JOINED = re.compile(r"\+\s*std::to_string\(|std::to_string\([^()]*(?:\([^()]*\)[^()]*)*\)\s*\+")


def formatted_messages(tree):
    for path, text in tree.items():
        if path.endswith(".cpp") and room_of(path) in ROOMS:
            for found in NUMBER_JOINED.finditer(code_only(text)):
                yield path, line_of(text, found.start()), "a number is joined to a text: fmt::format says what the sentence looks like"


OWNER_OF_DESCRIPTOR = re.compile(r"\bclass\s+(\w*Descriptor)\b[^;{]*\{")
DESCRIPTOR_OWNERS = {"OwnedDescriptor": "rendezvous/system/", "ProcessDescriptor": "rendezvous/system/"}


def one_descriptor(tree):
    for path, text in tree.items():
        if is_cpp(path) and room_of(path) in ROOMS:
            for found in OWNER_OF_DESCRIPTOR.finditer(code_only(text)):
                if not path.startswith(DESCRIPTOR_OWNERS.get(found[1], "nowhere")):
                    yield path, line_of(text, found.start()), f"class {found[1]}: rendezvous/system/owned_descriptor.hpp is there"


RULES = (
    file_length, folder_size, function_length, include_direction, wing_direction, no_circles, library_home, public_headers, pragma_once, using_in_header,
    left_over_marks, machine_names, pages, dead_links, dead_names, layout, registered, hidden_tests, reasoned_sleeps, global_state, environment_reads,
    pure_cores, listed_sources, strict_shell, formatted_messages, one_descriptor,
    room_namespace, one_type, class_size, ratchets,
)


def listed_by_git(root):
    command = ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return [name for name in done.stdout.decode().split("\0") if name]


def listed_by_walking(root):
    names = []
    for folder, below, files in os.walk(root):
        if folder == root:
            below[:] = [name for name in below if not re.match(r"build|\.(?!ci$)", name)]
        below[:] = [name for name in below if name != "__pycache__"]
        names += [os.path.relpath(os.path.join(folder, name), root) for name in files]
    return names


def read_tree(root):
    """path -> text of everything that belongs to the project; what is not text is left out."""
    tree = {}
    for name in sorted(set(listed_by_git(root) or listed_by_walking(root))):
        full = os.path.join(root, name)
        if os.path.isfile(full):
            with open(full, "rb") as file:
                data = file.read()
            try:
                tree[name] = data.decode()
            except UnicodeDecodeError:
                pass
    return tree


def complaints(tree):
    return [(path, line, rule.__name__, text) for rule in RULES for path, line, text in rule(tree)]


def main(arguments):
    if arguments == ["--self-test"]:
        import tidy_self_test
        return tidy_self_test.run()
    if len(arguments) == 3 and arguments[0] == "--built":
        figures = measured(*arguments[1:])
        show(figures)
        print("\n".join(over(figures)))
        return 1 if over(figures) else 0
    if arguments:
        print(f"tidy.py: unknown argument {arguments[0]} (--self-test and --built are known)", file=sys.stderr)
        return 2
    tree = read_tree(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    found = complaints(tree)
    show(counted(tree))
    for path, line, rule, text in sorted(found):
        print(f"{path}:{line}: {text} [{rule}]")
    print(f"tidy: {len(tree)} files, {len(RULES)} rules, {len(found)} complaints")
    return 1 if found else 0


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main(sys.argv[1:]))
