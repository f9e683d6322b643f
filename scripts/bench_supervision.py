"""The supervision figures: failure to a clean end, what is left behind, an idle launcher, logs. See bench_supervision.sh.

The failing worker stamps the steady clock right before it exits; the other workers are obedient (SIGTERM ends them). Programs
run in turn and every peer has a time limit.
"""

import argparse
import collections
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from bench_launch import FailureBench, Table, free_port, in_milliseconds, machine, median

WORKERS = 8
TORCHRUN_NODES_LIMIT_SECONDS = 10
IDLE_SECONDS = 5
SETTLE_SECONDS = 1.0  # strace's arrival itself ends the waits that are going on
STRACE_LIMIT_SECONDS = 20
LOGS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bench_logs.py")

Run = collections.namedtuple("Run", "milliseconds left")


def environment_of(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read()
    except OSError:
        return b""


def left_behind(folder):
    """How many processes of the bench's workers are there; they are killed."""
    mark = b"BENCH_FOLDER=" + folder.encode() + b"\0"
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit() and mark in environment_of(name)]
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return len(pids)


def torchrun(bench, count, nodes=1, node=0, port=None):
    # PyTorch 1.13 on Python 3.11 fails without -r and -t. 0.1 s between its looks at the workers is its best.
    return ["torchrun", "-r", "1", "-t", "1", "--log_dir", bench.folder, "--monitor_interval", "0.1", "--nnodes", str(nodes),
            "--node_rank", str(node), "--nproc_per_node", str(count), "--master_addr", "127.0.0.1",
            "--master_port", port or str(free_port()), "--no_python", *bench.worker]


def mpirun(bench, count):
    return ["mpirun", "--oversubscribe", "-np", str(count), *bench.worker]


def ddprun_agents(ddprun, bench, nodes):
    place = ["--master-addr", "127.0.0.1", "--master-port", str(free_port())] if nodes > 1 else []
    return [[ddprun, "--nnodes", str(nodes), "--node-rank", str(node), "--nproc-per-node", str(WORKERS // nodes), *place,
             "--no-python", *bench.worker] for node in range(nodes)]


def run_once(bench, commands, failing_rank, **options):
    milliseconds = bench.milliseconds(commands, WORKERS, failing_rank, **options)
    return Run(milliseconds, left_behind(bench.folder))


def add_failure_figure(table, figure, ours, theirs, goal):
    """One row for the time beside each peer, one for the slowest, one for what was left behind."""
    if any(run.milliseconds is None for run in ours):
        sys.exit(f"bench_supervision: ddprun did not end within its time limit: {figure}")
    mine = median([run.milliseconds for run in ours])
    if not theirs:
        table.add(figure, in_milliseconds(mine), "", "", f"<= {goal} ms", mine <= goal)
    for number, (peer, runs) in enumerate(theirs.items()):
        text = in_milliseconds(median([run.milliseconds for run in runs]), [run.milliseconds for run in runs].count(None))
        other = median([run.milliseconds for run in runs])
        table.add(f"{figure}; peer {peer}", in_milliseconds(mine), text if runs else "not installed",
                  f"{other / mine:.1f} x faster" if other else "", f"<= {goal} ms" if number == 0 else "",
                  mine <= goal if number == 0 else None)
    table.add("  the slowest of all its rounds", in_milliseconds(max(run.milliseconds for run in ours)))
    left = sum(run.left for run in ours)
    ended = {peer: [run.left for run in runs if run.milliseconds is not None] for peer, runs in theirs.items()}
    peers = ", ".join(f"{peer} {sum(lefts)}" for peer, lefts in ended.items() if lefts)
    table.add("  processes left when the launchers have exited", str(left), peers, "", "0", left == 0)


def one_node_figure(table, ddprun, bench, rounds):
    ours, theirs = [], {"mpirun": [], "torchrun": []}
    for number in range(rounds):
        rank = number % WORKERS
        ours.append(run_once(bench, ddprun_agents(ddprun, bench, 1), rank))
        if shutil.which("mpirun") and number % 4 == 0:
            theirs["mpirun"].append(run_once(bench, [mpirun(bench, WORKERS)], rank))
        if shutil.which("torchrun") and number % 8 == 0:
            theirs["torchrun"].append(run_once(bench, [torchrun(bench, WORKERS)], rank, expected=1))
    add_failure_figure(table, f"one of {WORKERS} workers fails, to the launcher's exit", ours, theirs, 30)


def looked_at_figure(table, ddprun, bench, rounds):
    """The others are Python's, whose lines the report has: they are looked at before they are told to end."""
    ours = [run_once(bench, ddprun_agents(ddprun, bench, 1), number % WORKERS, sleeper="python") for number in range(rounds)]
    add_failure_figure(table, f"the same, {WORKERS - 1} others of Python, looked at before that", ours, {}, 30)


def two_agents_figure(table, ddprun, bench, rounds):
    ours, theirs = [], {"torchrun": []}
    for number in range(rounds):
        ours.append(run_once(bench, ddprun_agents(ddprun, bench, 2), number % WORKERS))
    if shutil.which("torchrun"):
        # Its other node stays for more than a minute: asked once, and not for longer than tells something.
        port = str(free_port())
        agents = [torchrun(bench, WORKERS // 2, 2, node, port) for node in range(2)]
        theirs["torchrun"].append(run_once(bench, agents, 0, expected=1, limit=TORCHRUN_NODES_LIMIT_SECONDS))
    add_failure_figure(table, f"one of {WORKERS} workers fails, two agents, to the last agent's exit", ours, theirs, 60)


def launcher_processes(bench, pid):
    """The launcher and what it started, without the workers."""
    parents, names = {}, {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                head, tail = file.read().rsplit(")", 1)
        except OSError:
            continue
        parents[int(name)], names[int(name)] = int(tail.split()[1]), head.split("(", 1)[1]
    found, grew = {pid}, True
    while grew:
        more = {child for child, parent in parents.items() if parent in found} - found
        found, grew = found | more, bool(more)
    mark = b"BENCH_FOLDER=" + bench.folder.encode() + b"\0"
    return [one for one in found if names.get(one) != "sleep" or mark not in environment_of(one)]


def wake_ups(bench, command):
    """System calls that ended in IDLE_SECONDS, by name, of a launcher whose workers sleep."""
    process = bench.start([command], -1)[0]
    with tempfile.NamedTemporaryFile("r") as trace:
        up = bench.all_up(WORKERS)
        pids = [word for pid in launcher_processes(bench, process.pid) for word in ("-p", str(pid))]
        began = time.time()
        if up:
            subprocess.run(["timeout", "--signal=INT", str(SETTLE_SECONDS + IDLE_SECONDS), "strace", "-f", "-ttt", "-o", trace.name,
                            *pids], stderr=subprocess.DEVNULL, timeout=STRACE_LIMIT_SECONDS, check=False)
        lines = trace.read().splitlines()
    process.reap()
    left_behind(bench.folder)
    if not up or not lines:
        return None
    calls = collections.Counter()
    for line in lines:
        match = re.match(r"\d+ +(\d+\.\d+) (?:<\.\.\. )?(\w+).*= ", line)
        if match and began + SETTLE_SECONDS < float(match[1]) < began + SETTLE_SECONDS + IDLE_SECONDS:
            calls[match[2]] += 1
    return calls


def calls_text(calls):
    return "none" if not calls else ", ".join(f"{count} {name}" for name, count in calls.most_common(4))


def idle_figure(table, ddprun, bench):
    figure = f"idle launcher, system calls in {IDLE_SECONDS} s"
    if not shutil.which("strace"):
        return table.add(figure, "strace is not installed")
    ours = wake_ups(bench, ddprun_agents(ddprun, bench, 1)[0])
    if ours is None:
        return table.add(figure, "strace may not look at processes here")
    peers = {name: command for name, command in (("mpirun", mpirun(bench, WORKERS)), ("torchrun", torchrun(bench, WORKERS)))
             if shutil.which(name)}
    table.add(figure, calls_text(ours), "", "", "none", not ours)
    for name, command in peers.items():
        calls = wake_ups(bench, command)
        table.add(f"  the same of {name}", "", calls_text(calls) if calls is not None else "did not start")
    return None


def logs_figures(ddprun):
    """The figures of bench_logs.py, as a table of its own; True if they are met."""
    print(flush=True)
    return subprocess.run([sys.executable, "-B", LOGS, "--ddprun", ddprun], check=False).returncode == 0


def main():
    parser = argparse.ArgumentParser(prog="bench_supervision.sh", description="The supervision figures, beside other launchers.")
    parser.add_argument("--rounds", type=int, default=40, help="rounds of ddprun (default 40, at least 1)")
    parser.add_argument("--ddprun", default="build/bin/ddprun", help="the program to measure")
    parser.add_argument("--no-logs", action="store_true", help="leave out the log figures, which take minutes")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error(f"--rounds {arguments.rounds}: at least 1")
    if not os.access(arguments.ddprun, os.X_OK):
        parser.error(f"--ddprun {arguments.ddprun}: no such program")
    ddprun = os.path.abspath(arguments.ddprun)
    print(f"machine: {machine()}")
    print(f"medians of {arguments.rounds} rounds, programs in turn (slow peers in each fourth or eighth round)", flush=True)
    table = Table()
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
        bench = FailureBench(folder)
        one_node_figure(table, ddprun, bench, arguments.rounds)
        looked_at_figure(table, ddprun, bench, arguments.rounds)
        two_agents_figure(table, ddprun, bench, arguments.rounds)
        idle_figure(table, ddprun, bench)
    table.print()
    logs_met = arguments.no_logs or logs_figures(ddprun)
    return 0 if table.all_met and logs_met else 1


if __name__ == "__main__":
    sys.exit(main())
