"""The collectives' figures: ddpbench's all_reduce beside Open MPI's and Gloo's, and with two ranks its messages by tag beside
Open MPI's, in turn, in one run. See bench_collectives.sh.

A round runs each program once for all sizes; a figure is the median over the rounds of each program's median. "registered"
is ours with buffers from Communicator::allocate(). The goals are for two cores that share a cache; a machine whose cores
answer each other slowly changes them.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from bench_launch import Table, machine, median

LIMIT_SECONDS = 120
KIB, MIB = 1024, 1024 * 1024

# ranks -> sizes
SIZES = {
    2: (8, 2 * KIB, 32 * KIB, 512 * KIB, 8 * MIB, 25 * MIB, 32 * MIB),
    4: (8, 8 * KIB, 512 * KIB, 8 * MIB, 32 * MIB),
    8: (8, 8 * KIB, 2 * MIB),
}


def goal(peer, ranks, size):
    """How many times faster than the peer we must be, if there is such a goal."""
    if peer == "openmpi" and ranks == 2:
        return {8: 1.25, 32 * KIB: 1.8, 512 * KIB: 2, 8 * MIB: 2, 25 * MIB: 3.5, 32 * MIB: 3.5}.get(size)
    if peer == "openmpi" and ranks == 4:
        return {8: 1 / 1.3, 32 * MIB: 3.5}.get(size, 1.5)
    if peer == "openmpi" and ranks == 8:
        return {2 * MIB: 1.8}.get(size)
    if peer == "gloo" and ranks == 2:
        return 100 if size <= 2 * KIB else 5 if size > 8 * MIB else 8
    return None


# Messages by tag between two ranks: half of there and back, at least as fast as Open MPI.
MESSAGES = (8, 128 * KIB, 8 * MIB)
MESSAGE_GOAL = 1

# More ranks than cores: the slowest of a hundred small calls against the one in the middle.
TAIL_GOAL = 3
TAIL_LARGEST = 8 * KIB


def output_of(argv, **environment):
    try:
        run = subprocess.run(argv, env={**os.environ, **environment}, capture_output=True, text=True, check=False,
                             timeout=LIMIT_SECONDS, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return None
    if run.returncode != 0:
        print(f"bench_collectives: {argv[0]} failed: {run.stderr.strip()[-300:]}", file=sys.stderr)
        return None
    return run.stdout


class Bench:
    def __init__(self, arguments, folder):
        self.bin = arguments.bin
        self.iterations = arguments.iterations
        self.folder = folder
        self.probes = []
        self.tails = {}

    def ours(self, ranks, sizes):
        return self.ddpbench(ranks, sizes, [f"{self.bin}/ddpbench"])

    def registered(self, ranks, sizes):
        return self.ddpbench(ranks, sizes, [f"{self.bin}/ddpbench"], "-R", "1")

    def our_messages(self):
        return self.ddpbench(2, MESSAGES, [f"{self.bin}/ddpbench"], operation="pingpong")

    def openmpi_messages(self):
        return self.openmpi(2, MESSAGES, "pingpong")

    def ddpbench(self, ranks, sizes, program, *options, operation="all_reduce", **environment):
        times = {}
        for size in sizes:
            path = os.path.join(self.folder, "rows.json")
            out = output_of([f"{self.bin}/ddprun", "--nproc-per-node", str(ranks), *program, operation, "-b", str(size), "-e",
                             str(size), "-n", str(self.iterations), "-J", path, "-a", "0", *options], **environment)
            if out is None:
                return None
            with open(path, encoding="utf-8") as file:
                result = json.load(file)
            if result["wrong"] != 0:
                sys.exit("bench_collectives: ddpbench found wrong data")
            row = result["rows"][0]["in_place"] or result["rows"][0]["out_of_place"]
            times[size] = row["time_us"]
            if not options and operation == "all_reduce":
                self.tails.setdefault((ranks, size), []).append(row["time_p99_us"] / row["time_us"])
        return times

    def peer(self, argv, sizes, **environment):
        out = output_of([*argv, str(self.iterations), *map(str, sizes)], **environment)
        return out and {int(size): float(time) for size, time in re.findall(r"^(\d+) ([\d.]+)$", out, re.MULTILINE)}

    def probe(self):
        """How fast two cores answer each other, while nothing else runs."""
        out = output_of([os.path.join(self.folder, "core_probe")])
        if out is None:
            sys.exit("bench_collectives: core_probe did not end")
        self.probes.append(int(out))

    def openmpi(self, ranks, sizes, *what):
        return self.peer(["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(ranks),
                          os.path.join(self.folder, "openmpi"), *what], sizes)

    def gloo(self, ranks, sizes):
        with tempfile.TemporaryDirectory(dir=self.folder) as meeting:
            return self.peer([f"{self.bin}/ddprun", "--nproc-per-node", str(ranks), os.path.join(self.folder, "gloo")], sizes,
                             GLOO_MEETING=meeting)


def build_peers(folder):
    """Builds what is installed; returns the names."""
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers")
    subprocess.run(["g++", "-O3", "-std=c++17", os.path.join(here, "core_probe.cpp"), "-o", os.path.join(folder, "core_probe"),
                    "-pthread"], check=True)
    built = []
    for name, compiler, libraries in (("openmpi", "mpicxx", []), ("gloo", "g++", ["-lgloo", "-pthread"])):
        command = [compiler, "-O3", "-std=c++17", os.path.join(here, f"{name}_all_reduce.cpp"), "-o", os.path.join(folder, name),
                   *libraries]
        if shutil.which(compiler) and subprocess.run(command, capture_output=True, check=False).returncode == 0:
            built.append(name)
        else:
            print(f"{name}: cannot be built here (scripts/setup.sh --for bench installs it), left out")
    return built


def size_text(size):
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def report(table, ranks, size, times, peers):
    ours, registered = median(times["ours"][size]), median(times["registered"][size])
    named = f"{ranks} ranks, {size_text(size)}"
    for peer in peers:
        theirs = median(times[peer][size]) if times[peer].get(size) else None
        if theirs is None:
            table.add(named, f"{ours:.2f} us", f"{peer} did not end")
        else:
            wanted = goal(peer, ranks, size)
            table.add(named, f"{ours:.2f} us", f"{peer} {theirs:.2f} us", f"{theirs / ours:.2f} x faster",
                      f">= {wanted:.2f}" if wanted else "", theirs / ours >= wanted if wanted else None)
            table.add("  registered", f"{registered:.2f} us", "", f"{theirs / registered:.2f} x faster")
        named = ""


def report_messages(table, times):
    for size in MESSAGES:
        ours, theirs = (median(times[name][size]) / 2 for name in ("our_messages", "openmpi_messages"))
        table.add(f"message, {size_text(size)}", f"{ours:.2f} us", f"openmpi {theirs:.2f} us", f"{theirs / ours:.2f} x faster",
                  f">= {MESSAGE_GOAL:.2f}", theirs / ours >= MESSAGE_GOAL)


def report_tail(table, ranks, size, tails):
    tail = median(tails)
    table.add(f"{ranks} ranks, {size_text(size)}, p99 / p50", f"{tail:.2f}", "", "", f"<= {TAIL_GOAL}", tail <= TAIL_GOAL)


def plot(path, curves):
    """Time over size, a line for each program and number of ranks."""
    if not shutil.which("gnuplot"):
        print("no plot: gnuplot is not installed")
        return
    script = ["set terminal pngcairo size 900,600", f"set output '{path}'", "set logscale xy", "set key left top",
              "set xlabel 'bytes'", "set ylabel 'all-reduce, microseconds'", "set grid"]
    lines, data = [], []
    for title, points in curves.items():
        lines.append(f"'-' with linespoints title '{title}'")
        data += [f"{size} {time}" for size, time in sorted(points.items())] + ["e"]
    script.append("plot " + ", ".join(lines))
    subprocess.run(["gnuplot"], input="\n".join(script + data), text=True, check=True)
    print(f"plot: {path}")


def main():
    parser = argparse.ArgumentParser(prog="bench_collectives.sh", description="All-reduce beside Open MPI and Gloo.")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default 5, at least 1)")
    parser.add_argument("--iterations", type=int, default=20, help="iterations of each size in a round (default 20)")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8], choices=sorted(SIZES), help="numbers of ranks")
    parser.add_argument("--bin", default="build/bin", help="where ddprun and ddpbench are")
    parser.add_argument("--plot", help="also draw the times into this PNG file")
    arguments = parser.parse_args()
    if arguments.rounds < 1 or arguments.iterations < 1:
        parser.error("--rounds and --iterations: at least 1")
    print(f"machine: {machine()}")
    table, curves = Table(), {}
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
        bench = Bench(arguments, folder)
        peers = build_peers(folder)
        for ranks in arguments.ranks:
            names = ("ours", "registered", *peers)
            messages = ("our_messages", "openmpi_messages") if ranks == 2 and "openmpi" in peers else ()
            times = {name: {} for name in (*names, *messages)}
            for _ in range(arguments.rounds):
                bench.probe()
                for name in times:
                    run = getattr(bench, name)
                    for size, time in ((run() if name in messages else run(ranks, SIZES[ranks])) or {}).items():
                        times[name].setdefault(size, []).append(time)
            if min(len(times["ours"]), len(times["registered"])) < len(SIZES[ranks]):
                sys.exit("bench_collectives: ddpbench did not end")
            for size in SIZES[ranks]:
                report(table, ranks, size, times, peers)
                if ranks > 2 and size <= TAIL_LARGEST:
                    report_tail(table, ranks, size, bench.tails[ranks, size])
            if messages:
                report_messages(table, times)
            for name, found in ((name, times[name]) for name in names):
                curves[f"{name}, {ranks} ranks"] = {size: median(values) for size, values in found.items()}
        print(f"round trip between two cores: {min(bench.probes)} to {max(bench.probes)} ns, median {median(bench.probes):.0f}")
    table.print()
    if arguments.plot:
        plot(arguments.plot, curves)
    return 0 if table.all_met else 1


if __name__ == "__main__":
    sys.exit(main())
