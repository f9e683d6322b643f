"""From a rank's SIGKILL to the error of its last survivor, beside Gloo's, in turn, in one run. See bench_failure.sh.

All ranks reduce 1.6 MB again and again on one host; one of them, which holds so much memory of its own, is killed at an
arbitrary moment. The time is that of the survivor who hears of it last; those who have heard keep still.

With --hosts there are two agents of ddprun that pass for two hosts, with the victim alone on the second; with the agent's
word and without it, in turn.
"""

import argparse
import json
import os
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from bench_launch import Table, free_port, machine, median

LIMIT_SECONDS = 60
GOAL_MEDIAN, GOAL_LARGEST, GOAL_RATIO = 2, 20, 20  # milliseconds, milliseconds, times sooner than Gloo
GOAL_GIB = 4  # the victim's memory for which the ratio is a goal
GOAL_OTHER_HOST = 50  # milliseconds, the largest

# A worker that says which process it is, and lives on when its agent ends the job, until it has heard of the death.
WORKER = 'trap "" TERM; echo "pid $$"; exec "$0" "$@"'
WITHOUT_WORD = "unset DDPRUN_LIFE; "


class Rank:
    def __init__(self, argv, environment):
        self.process = subprocess.Popen(argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL)
        self.output = b""

    def read_until(self, text, count=1):
        limit = time.monotonic() + LIMIT_SECONDS
        while self.output.count(text) < count:
            ready, _, _ = select.select([self.process.stdout], [], [], limit - time.monotonic())
            piece = os.read(self.process.stdout.fileno(), 4096) if ready else b""
            if not piece:
                return False
            self.output += piece
        return True

    def end(self):
        self.process.kill()
        self.process.communicate()


def one_death(argv, ranks, victim, environment):
    """Milliseconds from the kill to the last survivor's error; None if one did not tell."""
    common = {**os.environ, "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
              "MASTER_PORT": str(free_port()), **environment}
    group = [Rank(argv, {**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(ranks)]
    try:
        if not all(rank.read_until(b"ready\n") for rank in group):
            sys.exit(f"bench_failure: {argv[0]} did not begin: {[rank.output for rank in group]}")
        time.sleep(random.uniform(0, 0.02))  # no event: the moment is to be arbitrary
        killed = time.monotonic_ns()
        group[victim].process.send_signal(signal.SIGKILL)
        survivors = [rank for number, rank in enumerate(group) if number != victim]
        if not all(rank.read_until(b"at ") for rank in survivors):  # a line is written at once
            return None
        times = [int(rank.output.split(b"at ")[1].split()[0]) for rank in survivors]
        return (max(times) - killed) / 1e6
    finally:
        for rank in group:
            rank.end()


def one_death_between_agents(bin_folder, ranks, mebibytes, with_word):
    """The same where the first agent has all ranks but the last, which is the victim."""
    victim, port = ranks - 1, str(free_port())
    worker = ["sh", "-c", ("" if with_word else WITHOUT_WORD) + WORKER, os.path.join(bin_folder, "death_program"), "large",
              "killed", str(victim), str(mebibytes)]
    agents = []
    for node, workers in enumerate((victim, 1)):
        agents.append(Rank([os.path.join(bin_folder, "ddprun"), "--nnodes", "2", "--node-rank", str(node), "--nproc-per-node",
                            str(workers), "--master-addr", "127.0.0.1", "--master-port", port, *worker],
                           {**os.environ, "DDPRUN_HOSTID": f"bench-{node}"}))
    survivors, lonely = agents
    try:
        if not (survivors.read_until(b"ready\n", victim) and lonely.read_until(b"ready\n")):
            sys.exit(f"bench_failure: the workers did not begin: {[agent.output for agent in agents]}")
        process = int(re.search(rb"pid (\d+)\n", lonely.output)[1])
        time.sleep(random.uniform(0, 0.02))  # no event: the moment is to be arbitrary
        killed = time.monotonic_ns()
        os.kill(process, signal.SIGKILL)
        survivors.read_until(b"at ", victim)
        survivors.read_until(b"\0")  # to the end of the job, so that the next begins on a machine at rest
        times = [int(at) for at in re.findall(rb"at (\d+)\n", survivors.output)]
        named = survivors.output.count(b"error peer_died %d:" % victim)
        return (max(times) - killed) / 1e6 if len(times) == named == victim else None
    finally:
        for agent in agents:
            agent.end()


class Bench:
    def __init__(self, arguments, folder):
        self.folder = folder
        self.ours_program = os.path.join(arguments.bin, "death_program")

    def ours(self, ranks, victim, mebibytes):
        return one_death([self.ours_program, "large", "killed", str(victim), str(mebibytes)], ranks, victim, {})

    def between_hosts(self, ranks, mebibytes, with_word):
        return one_death_between_agents(os.path.dirname(self.ours_program), ranks, mebibytes, with_word)

    def gloo(self, ranks, victim, mebibytes):
        with tempfile.TemporaryDirectory(dir=self.folder) as meeting:
            return one_death([os.path.join(self.folder, "gloo"), str(victim), str(mebibytes)], ranks, victim,
                             {"GLOO_MEETING": meeting})


def build_gloo(folder):
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers", "gloo_death.cpp")
    command = ["g++", "-O3", "-std=c++17", source, "-o", os.path.join(folder, "gloo"), "-lgloo", "-pthread"]
    if shutil.which("g++") and subprocess.run(command, capture_output=True, check=False).returncode == 0:
        return True
    print("gloo: cannot be built here (scripts/setup.sh --for bench installs it), left out")
    return False


def figure_of(times):
    known = [one for one in times if one is not None]
    if not known:
        return "no survivor told"
    text = f"p50 {median(known):.2f}, max {max(known):.2f} ms of {len(known)}"
    return text if len(known) == len(times) else f"{text}; {len(times) - len(known)} ended without a word"


def report(table, ranks, gib, ours, theirs):
    name = f"{ranks} ranks, victim of {gib} GiB"
    met = None not in ours and median(ours) <= GOAL_MEDIAN and max(ours) <= GOAL_LARGEST
    table.add(name, figure_of(ours), "", "", f"p50 <= {GOAL_MEDIAN}, max <= {GOAL_LARGEST} ms", met)
    if not theirs:
        return
    ratio = median(theirs) / median(ours) if median(theirs) and median(ours) else None
    is_goal = gib == GOAL_GIB and ratio is not None
    table.add("", "", f"gloo {figure_of(theirs)}", f"{ratio:.0f} x sooner" if ratio else "",
              f">= {GOAL_RATIO}" if is_goal else "", ratio >= GOAL_RATIO if is_goal else None)


def report_hosts(table, ranks, gib, with_word, without):
    met = None not in with_word and max(with_word) <= GOAL_OTHER_HOST
    table.add(f"{ranks} ranks, victim of {gib} GiB alone on its host", figure_of(with_word), "", "",
              f"max <= {GOAL_OTHER_HOST} ms", met)
    table.add("", "", f"without the word {figure_of(without)}", "", "", None)


def load(path):
    if not path or not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def save(path, samples):
    if path:
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(samples, file)
        os.replace(path + ".new", path)


def measure_one_host(bench, arguments, samples, table):
    with_gloo = arguments.gloo_every > 0 and build_gloo(bench.folder)
    for ranks in arguments.ranks:
        for gib in arguments.gib:
            case = samples.setdefault(f"{ranks} {gib}", {"ours": [], "gloo": []})
            for number in range(arguments.kills):
                victim = number % ranks
                case["ours"].append(bench.ours(ranks, victim, gib * 1024))
                if with_gloo and number % arguments.gloo_every == 0:
                    case["gloo"].append(bench.gloo(ranks, victim, gib * 1024))
                save(arguments.samples, samples)
            report(table, ranks, gib, case["ours"], case["gloo"])


def measure_two_hosts(bench, arguments, samples, table):
    for ranks in arguments.ranks:
        for gib in arguments.gib:
            case = samples.setdefault(f"hosts {ranks} {gib}", {"word": [], "without": []})
            for _ in range(arguments.kills):
                case["word"].append(bench.between_hosts(ranks, gib * 1024, True))
                case["without"].append(bench.between_hosts(ranks, gib * 1024, False))
                save(arguments.samples, samples)
            report_hosts(table, ranks, gib, case["word"], case["without"])


def main():
    parser = argparse.ArgumentParser(prog="bench_failure.sh", description="From a kill to the survivors' errors, beside Gloo.")
    parser.add_argument("--kills", type=int, default=100, help="kills of each case (default 100)")
    parser.add_argument("--gloo-every", type=int, default=5, help="Gloo's turn comes with each N-th kill (default 5; 0: never)")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8], help="numbers of ranks")
    parser.add_argument("--gib", type=int, nargs="+", default=[0, 4], help="memory of the victim")
    parser.add_argument("--hosts", action="store_true", help="two agents, the victim alone on the second; without Gloo")
    parser.add_argument("--bin", default="build/bin", help="where death_program and ddprun are")
    parser.add_argument("--samples", help="file of all times; those in it already count, too")
    arguments = parser.parse_args()
    if arguments.kills < 0 or min(arguments.ranks) < 2 or min(arguments.gib) < 0:
        parser.error("--kills: at least 0; --ranks: at least 2; --gib: at least 0")
    print(f"machine: {machine()}")
    samples, table = load(arguments.samples), Table()
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
        measure = measure_two_hosts if arguments.hosts else measure_one_host
        measure(Bench(arguments, folder), arguments, samples, table)
    table.print()
    return 0 if table.all_met else 1


if __name__ == "__main__":
    sys.exit(main())
