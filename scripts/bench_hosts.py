"""The collectives' figures between hosts: all_reduce over TCP beside plain sockets and Gloo, in turn, in one run. See
bench_collectives.sh.

One machine plays the hosts (DDPRUN_HOSTID), so all is over loopback: it shows what the library adds to the sockets, and
nothing about networks. Plain sockets move the same bytes each way as the all-reduce of two ranks and do not add them.
"""

import argparse
import os
import subprocess
import sys
import tempfile

from bench_collectives import KIB, MIB, Bench, build_peers, size_text
from bench_launch import Table, machine, median

TWO_HOSTS = (8, 2 * KIB, 32 * KIB, 1 * MIB, 8 * MIB, 32 * MIB)
TWO_BY_TWO = (8, 2 * KIB, 64 * KIB, 1 * MIB, 8 * MIB, 32 * MIB)


def goal(peer, size):
    """How many times the peer's speed we must have, if there is such a goal."""
    if peer.startswith("sockets"):
        return 0.75 if size >= MIB else None
    if peer == "gloo":
        return 5 if size <= 2 * KIB else 1.3 if size >= MIB else None
    return None


class HostsBench(Bench):
    """Ranks 0 to per_host - 1 play the first host, and so on."""

    def hosts(self, ranks, per_host, sizes, **environment):
        program = f'export DDPRUN_HOSTID=host$((RANK/{per_host})); exec "{self.bin}/ddpbench" "$@"'
        return self.ddpbench(ranks, sizes, ["sh", "-c", program, "ddpbench"], **environment)

    def sockets(self, settings, sizes):
        return self.peer([os.path.join(self.folder, "raw_sockets"), settings], sizes)


def build_sockets(folder):
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers", "raw_sockets.cpp")
    subprocess.run(["g++", "-O3", "-std=c++17", source, "-o", os.path.join(folder, "raw_sockets")], check=True)


def measure(programs, sizes, rounds):
    """Name -> size -> a time of each round, the programs in turn."""
    times = {name: {} for name in programs}
    for _ in range(rounds):
        for name, run in programs.items():
            for size, time in (run(sizes) or {}).items():
                times[name].setdefault(size, []).append(time)
    return times


def report(table, title, times, sizes):
    ours, *peers = times
    for size in sizes:
        if size not in times[ours]:
            sys.exit("bench_hosts: ddpbench did not end")
        time = median(times[ours][size])
        for number, peer in enumerate(peers):
            figure = f"{title}, {size_text(size)}" if number == 0 else ""
            if size not in times[peer]:
                table.add(figure, f"{time:.2f} us", f"{peer} did not end")
                continue
            theirs = median(times[peer][size])
            wanted = goal(peer, size)
            table.add(figure, f"{time:.2f} us", f"{peer} {theirs:.2f} us", f"{theirs / time:.2f} x its speed",
                      f">= {wanted:.2f}" if wanted else "", theirs / time >= wanted if wanted else None)


def main():
    parser = argparse.ArgumentParser(prog="bench_hosts.py", description="All-reduce between hosts, played by one machine.")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default 5, at least 1)")
    parser.add_argument("--iterations", type=int, default=20, help="iterations of each size in a round (default 20)")
    parser.add_argument("--bin", default="build/bin", help="where ddprun and ddpbench are")
    arguments, _ = parser.parse_known_args()
    if arguments.rounds < 1 or arguments.iterations < 1:
        parser.error("--rounds and --iterations: at least 1")
    print(f"machine: {machine()}")
    table = Table()
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
        bench = HostsBench(arguments, folder)
        gloo = "gloo" in build_peers(folder)
        build_sockets(folder)
        programs = {"ours": lambda sizes: bench.hosts(2, 1, sizes),
                    "sockets, tuned": lambda sizes: bench.sockets("tuned", sizes),
                    "sockets, plain": lambda sizes: bench.sockets("plain", sizes)}
        if gloo:
            programs["gloo"] = lambda sizes: bench.gloo(2, sizes)
        report(table, "2 hosts x 1 rank", measure(programs, TWO_HOSTS, arguments.rounds), TWO_HOSTS)
        programs = {"ours": lambda sizes: bench.hosts(4, 2, sizes),
                    "flat TCP": lambda sizes: bench.hosts(4, 2, sizes, DDPRUN_TRANSPORT="tcp")}
        if gloo:
            programs["4 ranks of gloo"] = lambda sizes: bench.gloo(4, sizes)
        report(table, "2 hosts x 2 ranks", measure(programs, TWO_BY_TWO, arguments.rounds), TWO_BY_TWO)
    table.print()
    return 0 if table.all_met else 1


if __name__ == "__main__":
    sys.exit(main())
