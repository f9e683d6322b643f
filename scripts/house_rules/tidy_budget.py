"""The budget: what the tree may weigh. Over a limit is a complaint; .github/CONTRIBUTING.md says how a change pays.

Lines and files are counted in the sources; options, bytes and CPU in a build, by CI.
"""

import os
import re
import subprocess
import tempfile

PRODUCTION = ("apps/", "launcher/", "rendezvous/", "collectives/")
SOURCES = (".cpp", ".hpp", ".h", ".cu", ".cuh", ".py")

LIMITS = {
    "lines of production code": 82_320,
    "files of production code": 480,
    "options of ddprun": 105,
    "bytes of ddprun, stripped": 7_020_000,
    "times Catch2's own code, the CPU of a release build with its tests": 80,
}


def counted(tree):
    sources = [text for path, text in tree.items() if path.startswith(PRODUCTION) and path.endswith(SOURCES)]
    return {"lines of production code": sum(len(text.splitlines()) for text in sources),
            "files of production code": len(sources)}


def measured(folder, cpu):
    """Of a release build in `folder`, which took the processors that many times as long as Catch2's own code."""
    program = os.path.join(folder, "bin", "ddprun")
    text = subprocess.run([program, "--help", "all"], stdout=subprocess.PIPE, check=True).stdout.decode()
    with tempfile.NamedTemporaryFile() as stripped:
        subprocess.run(["strip", "-o", stripped.name, program], check=True)
        size = os.path.getsize(stripped.name)
    options = [line for line in text.splitlines() if line.startswith("  -") and not re.search("--(help|version|licenses)", line)]
    return {"options of ddprun": len(options),
            "bytes of ddprun, stripped": size,
            "times Catch2's own code, the CPU of a release build with its tests": round(float(cpu))}


def over(figures):
    return [f"{figures[name]:,} {name}, the limit is {LIMITS[name]:,}" for name in figures if figures[name] > LIMITS[name]]


def budget(tree):
    for complaint in over(counted(tree)):
        yield "scripts/house_rules/tidy_budget.py", 1, complaint + ": a change says what it removes"


def show(figures):
    for name, figure in figures.items():
        print(f"{figure:>12,} of {LIMITS[name]:>12,}  {name}")
