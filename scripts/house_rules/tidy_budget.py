"""The budget: what a build may weigh. Over a limit is a complaint; .github/CONTRIBUTING.md says how a change pays.

Options, bytes and CPU are counted in a build, by CI. Characters of production code are counted and shown; they have no limit.
"""

import os
import re
import subprocess
import tempfile

PRODUCTION = ("apps/", "launcher/", "rendezvous/", "collectives/")
SOURCES = (".cpp", ".hpp", ".h", ".cu", ".cuh", ".py")

LIMITS = {
    "options of ddprun": 112,
    "bytes of ddprun, stripped": 9_000_000,
    "times Catch2's own code, the CPU of a release build with its tests": 80,
}


def counted(tree):
    sources = [text for path, text in tree.items() if path.startswith(PRODUCTION) and path.endswith(SOURCES)]
    return {"characters of production code": sum(map(len, sources)), "files of production code": len(sources)}


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


def show(figures):
    for name, figure in figures.items():
        limit = f" of {LIMITS[name]:>12,}" if name in LIMITS else " " * 16
        print(f"{figure:>12,}{limit}  {name}")
