"""A job of many agents on this machine, started by `--hosts` and by a shell in turn. See bench_start.sh."""

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from bench_launch import Table, machine

GOAL_SECONDS = 1.0
# What ssh does once it is connected.
STUB = '#!/bin/sh\nexec /bin/sh -c "$2"\n'
BARE = ('port=$1 agents=$2; shift 2; i=0; while [ $i -lt $agents ]; do "$@" --nnodes=$agents --node-rank=$i '
        '--master-addr=127.0.0.1 --master-port=$port true & i=$((i+1)); done; wait')


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def seconds_of(words):
    begin = time.monotonic()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, timeout=120)
    return time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(prog="bench_start.sh", description="The start of many agents by --hosts.")
    parser.add_argument("--agents", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--bin", default="build/bin")
    arguments = parser.parse_args()
    ddprun = os.path.abspath(os.path.join(arguments.bin, "ddprun"))
    agents = str(arguments.agents)
    times = {"flat": [], "tree": [], "bare": []}
    with tempfile.TemporaryDirectory() as folder:
        stub = os.path.join(folder, "rsh")
        with open(os.open(stub, os.O_WRONLY | os.O_CREAT, 0o700), "w", encoding="ascii") as file:
            file.write(STUB)
        start = [ddprun, "--rsh", stub, "--master-addr=127.0.0.1", f"--hosts=h[1-{agents}]"]
        for _ in range(arguments.rounds):
            times["flat"].append(seconds_of([*start, f"--fan-out={max(2, arguments.agents)}", "true"]))
            times["tree"].append(seconds_of([*start, "true"]))
            times["bare"].append(seconds_of(["sh", "-c", BARE, "sh", free_port(), agents, ddprun, "-q"]))
    print(machine())
    table = Table()
    bare = statistics.median(times["bare"])
    for way in ("flat", "tree"):
        ours = statistics.median(times[way])
        ratio = statistics.median(one / other for one, other in zip(times[way], times["bare"]))
        table.add(f"{agents} agents, {way}", f"{ours:.2f} s", f"{bare:.2f} s", f"{ratio:.2f}", f"{GOAL_SECONDS:g} s",
                  ours <= GOAL_SECONDS)
    table.print()
    sys.exit(0 if table.all_met else 1)


if __name__ == "__main__":
    main()
