"""Stand-ins for the CUDA libraries that PyTorch's wheel is linked with, so that it loads where they are not.

PyTorch is served with CUDA, and its libraries name those of CUDA as needed: 2.5 GB that a test without a GPU never calls.
For each one that is missing there is a library of the same name beside PyTorch's own. It defines every function that
PyTorch imports from it, under the same version; each ends the process and says its name.
"""

import collections
import glob
import os
import re
import subprocess

STEP_LIMIT = 120  # seconds for one call of a compiler or of a tool that reads a library; a hang guard

# The machine's own are passed over: they may be of another version than PyTorch wants.
CUDA = re.compile(r"lib(cu(?!rl)|nv|nccl)")

Library = collections.namedtuple("Library", "path needed versions imported defined")


def output_of(*words):
    return subprocess.run(words, stdout=subprocess.PIPE, timeout=STEP_LIMIT, check=True, text=True,
                          env={**os.environ, "LC_ALL": "C"}).stdout


def versions_needed(path):
    """The versions that a library wants its symbols to have, and of which file: {version: file}."""
    found, file = {}, None
    for line in output_of("readelf", "-V", "-W", path).splitlines():
        if match := re.search(r"\bFile: (\S+)", line):
            file = match[1]
        elif file and (match := re.search(r"\bName: (\S+)\s+Flags:", line)):
            found[match[1]] = file
        elif not line.strip():
            file = None
    return found


def symbols(path, which):
    """(name, version or "") of the symbols that are imported or defined; weak imports may stay unresolved."""
    found = set()
    for line in output_of("nm", "-D", f"--{which}-only", "--with-symbol-versions", path).splitlines():
        *_, kind, name = line.split()
        if which == "defined" or kind == "U":
            name, _, version = name.partition("@")
            found.add((name, version.lstrip("@")))
    return found


def read_library(path):
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "-d", "-W", path))
    return Library(path, needed, versions_needed(path), symbols(path, "undefined"), symbols(path, "defined"))


def source_of(names):
    lines = ["#include <stdio.h>", "#include <stdlib.h>",
             'static void called(const char* name) { fprintf(stderr, "%s: only a stand-in for CUDA is here\\n", name); abort(); }']
    return "\n".join(lines + [f'void {name}(void) {{ called("{name}"); }}' for name in sorted(names)]) + "\n"


def make_one(name, wanted, folder):
    """The library `name` with the symbols {version: names}, "" for those without a version."""
    script = os.path.join(folder, f"{name}.versions")
    with open(script, "w", encoding="ascii") as file:
        for version, names in wanted.items():
            if version:
                file.write(f"{version} {{ global: {' '.join(f'{each};' for each in sorted(names))} }};\n")
    has_versions = os.path.getsize(script) > 0
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-fno-builtin", f"-Wl,-soname,{name}",
                    *([f"-Wl,--version-script={script}"] if has_versions else []),
                    "-o", os.path.join(folder, name), "-x", "c", "-"],
                   input=source_of(set().union(*wanted.values())), text=True, timeout=STEP_LIMIT, check=True)
    os.remove(script)


def make_missing(folder, also_looked_in):
    """Makes what is missing of CUDA's libraries that those in `folder` need, there; returns the names."""
    libraries = [read_library(path) for path in sorted(glob.glob(os.path.join(folder, "*.so")))]
    names = sorted({name for library in libraries for name in library.needed})
    missing = [name for name in names if CUDA.match(name) and
               not any(os.path.exists(os.path.join(place, name)) for place in (folder, *also_looked_in))]
    own = {name for library in libraries for name, _ in library.defined}
    for name in missing:
        wanted = collections.defaultdict(set)
        for library in libraries:
            if name not in library.needed:
                continue
            for symbol, version in library.imported:
                if version and library.versions.get(version) == name:
                    wanted[version].add(symbol)
                # Without a version nothing says whose it is, but CUDA's all begin so.
                elif not version and symbol not in own and re.match(r"cu[A-Z]|cu\w+[A-Z]|nccl|nvshmem|nvrtc", symbol):
                    wanted[""].add(symbol)
        make_one(name, wanted or {"": set()}, folder)
    return missing
