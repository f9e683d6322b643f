"""This build beside one of an earlier commit: the same figures as the other benchmarks', without their peers. See
bench_before.sh.

A round runs both, in an order that changes from round to round; a figure's ratio is the median of its rounds' ratios, so that
what the machine does meanwhile touches both alike.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from bench_collectives import KIB, MIB, size_text
from bench_launch import FailureBench, Table, machine, timed, two_agents

WORST = 1.05  # times before
MOST_BYTES_MORE = 500_000  # of the program, stripped
LIMIT_SECONDS = 120
WORKERS = 8
LOG_BYTES = 40 * MIB
SIZES = ((2, 8), (2, 32 * KIB), (2, 8 * MIB), (2, 32 * MIB), (4, 8 * KIB), (4, 8 * MIB))
ITERATIONS = 200
STORE_CLIENTS = 64


def launch_figures(folder):
    """Figure -> what measures it once, in milliseconds, for a folder of programs."""
    bench = FailureBench(folder)
    workers = ["--nproc-per-node", str(WORKERS), "--no-python"]
    lines = ["sh", "-c", f"yes 0123456789012345678901234567890123456789012345678901234567890123456789 | head -c {LOG_BYTES}"]

    def failure(bin_folder):
        return bench.milliseconds([[f"{bin_folder}/ddprun", *workers, *bench.worker]], WORKERS, 3)

    return {
        f"{WORKERS} no-op workers, start to exit, ms": lambda b: timed([f"{b}/ddprun", *workers, "/bin/true"]),
        "two agents of one worker, static, start to exit of both, ms": two_agents,
        "--help, ms": lambda b: timed([f"{b}/ddprun", "--help"]),
        f"one of {WORKERS} workers fails, to the exit, ms": failure,
        f"4 workers print {LOG_BYTES // MIB} MiB each, ms": lambda b: timed(
            [f"{b}/ddprun", "--nproc-per-node", "4", "--log-dir", "/dev/null", "--no-python", *lines]),
    }


def all_reduce_figure(folder, ranks, size):
    path = os.path.join(folder, "rows.json")

    def microseconds(bin_folder):
        subprocess.run([f"{bin_folder}/ddprun", "--nproc-per-node", str(ranks), f"{bin_folder}/ddpbench", "all_reduce", "-b",
                        str(size), "-e", str(size), "-n", str(ITERATIONS if size <= MIB else ITERATIONS // 10), "-J", path, "-a", "0"],
                       stdout=subprocess.DEVNULL, check=True, timeout=LIMIT_SECONDS)
        with open(path, encoding="utf-8") as file:
            return json.load(file)["rows"][0]["in_place"]["time_us"]

    return microseconds


def stripped_bytes(folder, program):
    path = os.path.join(folder, "stripped")
    subprocess.run(["strip", "-o", path, program], check=True, timeout=LIMIT_SECONDS)
    return os.path.getsize(path)


def size_figure(folder, compared):
    before, now = (stripped_bytes(folder, f"{programs}/ddprun") for programs in compared.folders)
    compared.table.add("ddprun, stripped, MB", f"{now / 1e6:.2f}", f"{before / 1e6:.2f}", f"{now / before:.2f} x",
                       f"<= + {MOST_BYTES_MORE / 1e6:.1f} MB", now - before <= MOST_BYTES_MORE)


class Compared:
    def __init__(self, before, now, rounds):
        self.folders = (before, now)
        self.rounds = rounds
        self.table = Table()

    def add(self, figure, measure, slow=False):
        """`measure` says what one of the two takes, once."""
        times = ([], [])
        for number in range(max(3, self.rounds // 4) if slow else self.rounds):
            for which in ((0, 1) if number % 2 == 0 else (1, 0)):
                times[which].append(measure(self.folders[which]))
        if None in times[0] + times[1]:
            sys.exit(f"bench_before: a run did not end: {figure}")
        ratio = statistics.median(now / before for before, now in zip(*times))
        before, now = map(statistics.median, times)
        self.table.add(figure, f"{now:.2f}", f"{before:.2f}", f"{ratio:.2f} x", f"<= {WORST:.2f} x", ratio <= WORST)


def store_figures(compared):
    import bench_store  # wants PyTorch, which --help does not
    servers = [bench_store.start_ours(f"{folder}/store_host_program") for folder in compared.folders]
    clients = [bench_store.Client(number, [port for _, port in servers]) for number in range(STORE_CLIENTS)]
    for client in clients:
        client.answer()
    for operation, count in bench_store.OPERATIONS.items():
        def microseconds(folder, operation=operation, count=count):
            server = compared.folders.index(folder)
            return 1e6 / bench_store.measure(clients, server, operation, count)
        for folder in compared.folders:
            microseconds(folder)  # warm-up
        compared.add(f"store: {operation}, {STORE_CLIENTS} clients, us each", microseconds)
    for client in clients:
        client.commands.close()
        os.waitpid(client.pid, 0)
    for server, _ in servers:
        server.stdin.close()
        server.wait(timeout=LIMIT_SECONDS)


def main():
    parser = argparse.ArgumentParser(prog="bench_before.sh", description="This build beside one of an earlier commit.")
    parser.add_argument("before", help="the build folder of the earlier commit")
    parser.add_argument("--now", default="build", help="the build folder to compare with it (default: build)")
    parser.add_argument("--rounds", type=int, default=40, help="rounds of the fast programs (default 40, at least 1)")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error(f"--rounds {arguments.rounds}: at least 1")
    before, now = (os.path.abspath(os.path.join(folder, "bin")) for folder in (arguments.before, arguments.now))
    for program in ("ddprun", "ddpbench", "store_host_program"):
        for folder in (before, now):
            if not os.access(f"{folder}/{program}", os.X_OK):
                parser.error(f"{folder}/{program}: no such program")
    print(f"machine: {machine()}")
    print(f"medians of {arguments.rounds} rounds in turn, ours: {now}, peer: {before}", flush=True)
    compared = Compared(before, now, arguments.rounds)
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
        size_figure(folder, compared)
        for figure, measure in launch_figures(folder).items():
            compared.add(figure, measure, slow="print" in figure)
        for ranks, size in SIZES:
            compared.add(f"all_reduce, {ranks} ranks, {size_text(size)}, us", all_reduce_figure(folder, ranks, size), slow=True)
    store_figures(compared)
    compared.table.print()
    return 0 if compared.table.all_met else 1


if __name__ == "__main__":
    sys.exit(main())
