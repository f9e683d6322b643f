"""The launch figures: ddprun beside the launchers people use instead, in turn, in one run. See bench_launch.sh.

Every figure is a median over many rounds; a round runs each program once, so a busy moment hits all of them alike.
Every peer has a time limit: Open MPI 4.1.4 hangs at times with workers that end at once.
"""

import argparse
import os
import select
import shutil
import signal
import socket
import statistics
import sys
import tempfile
import time

LIMIT_SECONDS = 60
NO_OP_WORKERS = 8
NO_OP_GOAL = 1.5  # times xargs
PYTHON_GOAL = 1.1  # likewise, for workers that are Python programs
TORCHRUN_GOALS = {"torchrun": 50, "current torchrun": 20}  # times faster
# Where interop.sh installs a current PyTorch.
CURRENT_TORCHRUN = "build/interop/venv/bin/torchrun"
FOREIGN_PROCESSES = 5000
FOREIGN_GOAL = 1.25  # times the end beside none
FAILURE_WORKERS_PER_NODE = 2
DRY_RUN_HOSTS = 1000
DRY_RUN_GOAL = 15  # milliseconds
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable

# A worker of the failure figure: says that it is up; the one that is to fail waits for the word, notes the time and exits.
WORKER = """#!/bin/sh
rank="${RANK:-$OMPI_COMM_WORLD_RANK}"
if [ "$rank" = "$FAILING_RANK" ]; then exec %(python)s -I -S "%(folder)s/fail.py"; fi
if [ "$SLEEPER" = python ]; then exec %(python)s -I -S "%(folder)s/sleep.py"; fi
echo up >"%(folder)s/up"
exec sleep 600
"""
SLEEPING_WORKER = """
import os, signal
os.write(os.open("%(folder)s/up", os.O_WRONLY), b"up\\n")
signal.pause()
"""
FAILING_WORKER = """
import os, time
os.write(os.open("%(folder)s/up", os.O_WRONLY), b"up\\n")
os.read(os.open("%(folder)s/word", os.O_RDONLY), 1)
stamp = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
os.write(os.open("%(folder)s/stamp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), b"%%d" %% stamp)
os._exit(7)
"""


class Process:
    """A started program in its own process group, with nothing on its input."""

    def __init__(self, argv, environment=None, output=os.devnull):
        self.argv = argv
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        environment = {**os.environ, **(environment or {})}
        self.started = time.monotonic()
        self.pid = os.posix_spawnp(argv[0], argv, environment, file_actions=actions, setpgroup=0)
        self.pidfd = os.pidfd_open(self.pid)

    def ended_within(self, seconds):
        poller = select.poll()
        poller.register(self.pidfd, select.POLLIN)
        return bool(poller.poll(max(0, seconds) * 1000))

    def reap(self):
        """The exit code; a process that is still there is killed, with its group."""
        if not self.ended_within(0):
            os.killpg(self.pid, signal.SIGKILL)
        os.close(self.pidfd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def timed(argv, environment=None, expected=0):
    """Milliseconds from start to exit, or None when the time limit passed."""
    with tempfile.NamedTemporaryFile() as output:
        process = Process(argv, environment, output.name)
        in_time = process.ended_within(LIMIT_SECONDS)
        milliseconds = (time.monotonic() - process.started) * 1000
        code = process.reap()
        if not in_time:
            return None
        if code != expected:
            sys.exit(f"bench_launch: {' '.join(argv)} ended with {code}, not {expected}:\n{output.read().decode()}")
        return milliseconds


def median(values):
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def two_agents(bin_folder, *flags):
    """Milliseconds from the start of two agents of one worker that does nothing, static, to the exit of both; None: one failed."""
    command = [f"{bin_folder}/ddprun", "--nnodes=2", "--master-addr=127.0.0.1", f"--master-port={free_port()}", *flags]
    agents = [Process([*command, f"--node-rank={rank}", "/bin/true"]) for rank in (0, 1)]
    in_time = all([agent.ended_within(LIMIT_SECONDS) for agent in agents])
    milliseconds = (time.monotonic() - agents[0].started) * 1000
    codes = [agent.reap() for agent in agents]
    return milliseconds if in_time and not any(codes) else None


class Table:
    def __init__(self):
        self.rows = [("figure", "ours", "peer", "ratio", "goal", "met?")]
        self.all_met = True

    def add(self, figure, ours, peer="", ratio="", goal="", met=None):
        self.all_met = self.all_met and met is not False
        self.rows.append((figure, ours, peer, ratio, goal, {None: "", True: "yes", False: "NO"}[met]))

    def print(self):
        # Where there is no peer there are no columns for it.
        rows = list(zip(*(column for column in zip(*self.rows) if any(column[1:]))))
        widths = [max(map(len, column)) for column in zip(*rows)]
        for row in rows:
            print(" | ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def in_milliseconds(value, lost=0):
    text = "none ended" if value is None else f"{value:.1f} ms"
    return text + (f" ({lost} timed out)" if lost else "")


def in_turn(programs, rounds):
    """{name: (argv, expected exit code, every)} -> {name: times}; a program with every=5 runs in each fifth round."""
    times = {name: [] for name in programs}
    for number in range(rounds):
        for name, (command, expected, every) in programs.items():
            if number % every == 0:
                argv = command() if callable(command) else command
                times[name].append(timed(argv, ENVIRONMENT, expected))
    return times


MPI_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
# One Python for all.
ENVIRONMENT = {**MPI_ENVIRONMENT, "PYTHON_EXEC": PYTHON}


def no_op_figures(table, ddprun, folder, rounds):
    items = os.path.join(folder, "items")
    with open(items, "w", encoding="ascii") as file:
        file.write("x\n" * NO_OP_WORKERS)
    count = str(NO_OP_WORKERS)
    programs = {
        "ddprun": ([ddprun, "--nproc-per-node", count, "--no-python", "/bin/true"], 0, 1),
        "xargs": (["xargs", "-a", items, "-n", "1", "-P", count, "/bin/true"], 0, 1),
    }
    if shutil.which("mpirun"):
        programs["mpirun"] = (["mpirun", "--oversubscribe", "-np", count, "/bin/true"], 0, 4)
    if os.path.exists(CURRENT_TORCHRUN):
        programs["current torchrun"] = (lambda: [
            CURRENT_TORCHRUN, "--monitor-interval", "0.1", "--nproc-per-node", count, "--master-port", str(free_port()),
            "--no-python", "/bin/true"], 0, 8)
    if shutil.which("torchrun"):
        # PyTorch 1.13 on Python 3.11 fails without -r and -t; it looks for ended workers every 5 s unless told otherwise.
        programs["torchrun"] = (lambda: [
            "torchrun", "-r", "1", "-t", "1", "--log_dir", folder, "--monitor_interval", "0.1", "--nproc_per_node", count,
            "--master_port", str(free_port()), "--no_python", "/bin/true"], 0, 8)
    times = in_turn(programs, rounds)
    ours = median(times["ddprun"])
    for peer in ("xargs", "mpirun", *TORCHRUN_GOALS):
        figure = f"{count} no-op workers, start to exit; peer {peer}"
        theirs, lost = median(times.get(peer, [])), times.get(peer, []).count(None)
        if theirs is None:
            table.add(figure, in_milliseconds(ours), "none ended" if lost else "not installed")
        elif peer == "xargs":
            table.add(figure, in_milliseconds(ours), in_milliseconds(theirs), f"{ours / theirs:.2f} x", f"<= {NO_OP_GOAL:.2f} x",
                      ours <= NO_OP_GOAL * theirs)
        else:
            least = TORCHRUN_GOALS.get(peer)
            goal, met = (f">= {least} x faster", theirs >= least * ours) if least else ("", None)
            table.add(figure, in_milliseconds(ours), in_milliseconds(theirs, lost), f"{theirs / ours:.1f} x faster", goal, met)


def python_figure(table, ddprun, folder, rounds):
    """Python programs that say hello: what ddprun itself adds to what they take."""
    hello = os.path.join(folder, "hello.py")
    with open(hello, "w", encoding="ascii") as file:
        file.write("print('hello')\n")
    programs = {
        "ddprun": ([ddprun, "--nproc-per-node", str(NO_OP_WORKERS), hello], 0, 1),
        "xargs": (["xargs", "-a", os.path.join(folder, "items"), "-I", "{}", "-P", str(NO_OP_WORKERS), PYTHON, "-u", hello], 0, 1),
    }
    times = in_turn(programs, rounds)
    ours, theirs = median(times["ddprun"]), median(times["xargs"])
    table.add(f"{NO_OP_WORKERS} workers of Python that say hello; peer xargs -P {NO_OP_WORKERS}", in_milliseconds(ours),
              in_milliseconds(theirs), f"{ours / theirs:.2f} x", f"<= {PYTHON_GOAL:.2f} x", ours <= PYTHON_GOAL * theirs)


def help_figure(table, ddprun, rounds):
    programs = {"ddprun": ([ddprun, "--help"], 0, 1)}
    if shutil.which("torchrun"):
        programs["torchrun"] = (["torchrun", "--help"], 0, 8)
    times = in_turn(programs, rounds)
    ours, theirs = median(times["ddprun"]), median(times.get("torchrun", []))
    ratio = f"{theirs / ours:.0f} x faster" if theirs else ""
    table.add("--help; peer torchrun", in_milliseconds(ours), in_milliseconds(theirs) if theirs else "not installed", ratio,
              "<= 10 ms", ours <= 10)


def dry_run_figure(table, ddprun, rounds):
    """A node of a large step, and the start on as many hosts: the list is read, and nothing is connected to."""
    count = DRY_RUN_HOSTS
    step = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": str(count), "SLURM_STEP_NUM_TASKS": str(count),
            "SLURM_STEP_TASKS_PER_NODE": f"1(x{count})", "SLURM_STEP_NODELIST": f"n[0001-{count}]", "SLURM_NODEID": "1",
            "SLURM_PROCID": "1", "SLURM_LOCALID": "0"}
    for flag in ("--dry-run", "--explain"):
        ours = median([timed([ddprun, flag, "/bin/true"], step) for _ in range(rounds)])
        table.add(f"{flag} on a node of {count:,}", in_milliseconds(ours), "", "", f"<= {DRY_RUN_GOAL} ms", ours <= DRY_RUN_GOAL)
        start = median([timed([ddprun, flag, "--hosts", f"n[1-{count}]:8", "/bin/true"]) for _ in range(rounds)])
        table.add(f"{flag} of a start on {count:,} hosts", in_milliseconds(start), "", "", f"<= {DRY_RUN_GOAL} ms",
                  start <= DRY_RUN_GOAL)


def peak_memory(ddprun):
    """The launcher's own VmHWM in MiB, last seen while it lives: what wait4 tells also counts the forking parent and the workers."""
    process = Process([ddprun, "--nproc-per-node", str(NO_OP_WORKERS), "--no-python", "seq", "200000"])
    highest = 0
    while not process.ended_within(0):
        try:
            with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
                found = [int(line.split()[1]) for line in file if line.startswith("VmHWM:")]
            with open(f"/proc/{process.pid}/comm", encoding="ascii") as file:
                launched = file.read().strip() == os.path.basename(ddprun)
        except (FileNotFoundError, ProcessLookupError):
            break
        highest = max([highest, *found]) if launched else highest
        if time.monotonic() - process.started > LIMIT_SECONDS:
            break
    code = process.reap()
    if code != 0:
        sys.exit(f"bench_launch: the job of the memory figure ended with {code}")
    return highest / 1024


def memory_figure(table, ddprun):
    peak = max(peak_memory(ddprun) for _ in range(5))
    table.add(f"launcher's peak memory, {NO_OP_WORKERS} workers that print a lot", f"{peak:.1f} MiB", "", "", "<= 20 MB",
              peak * 1.048576 <= 20)


class FailureBench:
    """A job of long-lived workers, one of which fails on the word; measures from its own stamp to the launchers' exits."""

    def __init__(self, folder):
        self.folder = folder
        names = {"folder": folder, "python": PYTHON}
        for name, text in (("worker.sh", WORKER), ("sleep.py", SLEEPING_WORKER), ("fail.py", FAILING_WORKER)):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text % names)
        self.worker = ["/bin/sh", os.path.join(folder, "worker.sh")]
        for fifo in ("up", "word"):
            os.mkfifo(os.path.join(folder, fifo))
        # Both ends are held, so nobody waits for us to open one and no reader sees an end.
        self.up = os.open(os.path.join(folder, "up"), os.O_RDWR | os.O_NONBLOCK)
        self.word = os.open(os.path.join(folder, "word"), os.O_RDWR)

    def all_up(self, count):
        """Waits until that many workers have said that they run."""
        poller = select.poll()
        poller.register(self.up, select.POLLIN)
        seen, deadline = b"", time.monotonic() + LIMIT_SECONDS
        while seen.count(b"\n") < count:
            if not poller.poll(max(0, deadline - time.monotonic()) * 1000):
                return False
            seen += os.read(self.up, 4096)
        return True

    def start(self, commands, failing_rank, sleeper=""):
        """Starts launchers whose workers carry this bench's folder in their environment; -1: no rank is to fail."""
        environment = {**MPI_ENVIRONMENT, "FAILING_RANK": str(failing_rank), "BENCH_FOLDER": self.folder, "SLEEPER": sleeper}
        return [Process(command, environment) for command in commands]

    def milliseconds(self, commands, workers, failing_rank, expected=7, limit=LIMIT_SECONDS, sleeper=""):
        """From the failing worker's stamp to the last launcher's exit; None when a time limit passed."""
        processes = self.start(commands, failing_rank, sleeper)
        ended = self.all_up(workers)
        if ended:
            os.write(self.word, b"!")
            deadline = time.monotonic() + limit
            ended = all([process.ended_within(deadline - time.monotonic()) for process in processes])
        last_exit = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        codes = [process.reap() for process in processes]
        if not ended:
            return None
        if any(code != expected for code in codes):
            sys.exit(f"{os.path.basename(sys.argv[0])}: the launchers of a failure figure ended with {codes}, not with {expected}")
        with open(os.path.join(self.folder, "stamp"), encoding="ascii") as file:
            return (last_exit - int(file.read())) / 1e6


class ForeignProcesses:
    """Sleeping processes of this user that are none of the job's."""

    def __init__(self, count):
        self.first = Process(["sleep", "600"])
        group = self.first.pid
        self.others = [os.posix_spawnp("sleep", ["sleep", "600"], os.environ, setpgroup=group) for _ in range(count - 1)]

    def end(self):
        self.first.reap()
        for pid in self.others:
            os.waitpid(pid, 0)


def foreign_figures(table, ddprun, bench, rounds):
    """The end of a job beside many other processes, and beside none: half the rounds before and half after, so that
    neither has the machine's better hour."""
    no_op = [ddprun, "--nproc-per-node", str(NO_OP_WORKERS), "--no-python", "/bin/true"]
    failing = [ddprun, "--nproc-per-node", "2", "--no-python", *bench.worker]
    ends, runs = {False: [], True: []}, {False: [], True: []}

    def measure(beside, count):
        for number in range(count):
            runs[beside].append(timed(no_op))
            ends[beside].append(bench.milliseconds([failing], 2, number % 2))

    measure(False, (rounds + 1) // 2)
    foreign = ForeignProcesses(FOREIGN_PROCESSES)
    try:
        measure(True, rounds)
    finally:
        foreign.end()
    measure(False, (rounds + 1) // 2)
    for figure, times in (("failure of one rank of one node to the exit", ends), (f"{NO_OP_WORKERS} no-op workers", runs)):
        many, none = median(times[True]), median(times[False])
        table.add(f"{figure} beside {FOREIGN_PROCESSES:,} foreign processes; peer: beside none", in_milliseconds(many),
                  in_milliseconds(none), f"{many / none:.2f} x", f"<= {FOREIGN_GOAL:.2f} x", many <= FOREIGN_GOAL * none)


def failure_figure(table, ddprun, bench, rounds):
    per_node, workers = FAILURE_WORKERS_PER_NODE, 2 * FAILURE_WORKERS_PER_NODE
    ours, theirs = [], []
    for number in range(rounds):
        failing_rank, port = number % workers, str(free_port())
        agents = [[ddprun, "--nnodes", "2", "--node-rank", str(node), "--nproc-per-node", str(per_node), "--master-addr", "127.0.0.1",
                   "--master-port", port, "--no-python", *bench.worker] for node in range(2)]
        ours.append(bench.milliseconds(agents, workers, failing_rank))
        if shutil.which("mpirun") and number % 4 == 0:
            command = ["mpirun", "--oversubscribe", "-np", str(workers), *bench.worker]
            theirs.append(bench.milliseconds([command], workers, failing_rank))
    if None in ours:
        sys.exit(f"bench_launch: {ours.count(None)} of {rounds} failures did not end both agents within {LIMIT_SECONDS} s")
    peer = median(theirs)
    table.add("failure of one rank to the exit of both agents; peer mpirun (one host)", in_milliseconds(median(ours)),
              in_milliseconds(peer, theirs.count(None)) if theirs else "not installed",
              f"{peer / median(ours):.1f} x faster" if peer else "", "<= 100 ms", median(ours) <= 100)
    table.add("  the slowest of all its rounds", in_milliseconds(max(ours)))


def machine():
    model = "unknown processor"
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    cores = len(os.sched_getaffinity(0))
    return f"{model}, {cores} usable cores, Linux {os.uname().release}, load {os.getloadavg()[0]:.1f}"


def main():
    parser = argparse.ArgumentParser(prog="bench_launch.sh", description="The launch figures, beside other launchers.")
    parser.add_argument("--rounds", type=int, default=40, help="rounds of the fast programs (default 40, at least 1)")
    parser.add_argument("--ddprun", default="build/bin/ddprun", help="the program to measure")
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
        no_op_figures(table, ddprun, folder, arguments.rounds)
        python_figure(table, ddprun, folder, arguments.rounds)
        help_figure(table, ddprun, arguments.rounds)
        dry_run_figure(table, ddprun, arguments.rounds)
        memory_figure(table, ddprun)
        bench = FailureBench(folder)
        failure_figure(table, ddprun, bench, arguments.rounds)
        foreign_figures(table, ddprun, bench, arguments.rounds)
    table.print()
    return 0 if table.all_met else 1


if __name__ == "__main__":
    sys.exit(main())
