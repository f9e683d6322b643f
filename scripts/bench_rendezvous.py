"""The rendezvous figures, over real sockets on loopback. See bench_rendezvous.sh.

The first ones are of the port alone, which serves in a process of its own what a second one asks of it; the others are of
ddprun's agents, whose workers stamp the steady clock when they fail or are told to end.
"""

import argparse
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time

from bench_launch import PYTHON, Process, Table, free_port, machine, median

LIMIT_SECONDS = 60
AGENTS, AGENTS_GOAL_SECONDS = 1000, 1
CLIENTS, CLIENTS_GOAL_SECONDS = 10_000, 10
IDLE_GOAL_KIB = 16
FAILURE_GOAL_MS = 5
BUSY_GOAL_MS, READERS_COUNT, READ_BYTES = 10, 16, 16 << 20
NEXT_ROUND_GOAL_MS = 1500  # and a grace period, which nobody needs where an agent is dead
TAKEOVER_GOAL_MS = 3000  # likewise
NODES = 3  # of the jobs that fail
HEARTBEAT_SECONDS = 5
IDLE_SETTLE_SECONDS = 2
IDLE_THIRDS = 15  # thirds of that for which idle agents are watched

# Says that it is there; SIGUSR1 makes it fail, SIGTERM comes from its agent. Both are stamped first.
WORKER = """
import os, signal, time
signals = {signal.SIGUSR1, signal.SIGTERM}
signal.pthread_sigmask(signal.SIG_BLOCK, signals)
words = os.open(%(words)r, os.O_WRONLY)
rank = int(os.environ["RANK"])
os.write(words, b"up %%d %%d\\n" %% (rank, os.getpid()))
received = signal.sigwait(signals)
stamp = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
os.write(words, b"%%s %%d %%d\\n" %% (b"failed" if received == signal.SIGUSR1 else b"told", rank, stamp))
os._exit(7 if received == signal.SIGUSR1 else 0)
"""


# Ranks of the job that read a large value again and again, in PyTorch's protocol before 2.1, until the input ends.
READERS = """
import selectors, socket, struct, sys
port, readers, size = map(int, sys.argv[1:])
key = struct.pack("<Q", 5) + b"value"
def call():
    return socket.create_connection(("127.0.0.1", port))
with call() as writer:
    writer.sendall(b"\\x00" + key + struct.pack("<Q", size) + bytes(size))
    writer.sendall(b"\\x02" + key)
    writer.recv(8 + size, socket.MSG_WAITALL)
waiting, room, read = selectors.DefaultSelector(), bytearray(1 << 20), {}
for _ in range(readers):
    reader = call()
    reader.sendall(b"\\x02" + key)
    reader.setblocking(False)
    waiting.register(reader, selectors.EVENT_READ)
    read[reader] = 0
waiting.register(sys.stdin, selectors.EVENT_READ)
said = False
while True:
    for event, _ in waiting.select():
        if event.fileobj is sys.stdin:
            sys.exit()
        reader = event.fileobj
        try:
            count = reader.recv_into(room)
        except ConnectionError:
            count = 0
        if count == 0:
            sys.exit()  # the job is over
        read[reader] += count
        if read[reader] % (8 + size) == 0:
            reader.sendall(b"\\x02" + key)
    if not said and min(read.values()) >= 8 + size:
        said = True
        print("reading", flush=True)
"""


class Lines:
    """Whole lines from a descriptor; within LIMIT_SECONDS each."""

    def __init__(self, descriptor):
        self.descriptor, self.held = descriptor, b""

    def next(self):
        while b"\n" not in self.held:
            ready, _, _ = select.select([self.descriptor], [], [], LIMIT_SECONDS)
            piece = os.read(self.descriptor, 4096) if ready else b""
            if not piece:
                sys.exit("a program of the benchmark ended, or did not answer in time")
            self.held += piece
        line, self.held = self.held.split(b"\n", 1)
        return line.decode()


class Program:
    """rendezvous_load in one of its parts, which ends when its input does."""

    def __init__(self, *argv):
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.lines = Lines(self.process.stdout.fileno())

    def answer(self):
        """The numbers of its next line, by name."""
        return {name: float(value) for name, value in re.findall(r"(\w+)=([\d.]+)", self.lines.next())}

    def ask(self, line=""):
        """The numbers with which it answers."""
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        return self.answer()

    def cpu_microseconds(self):
        """What its threads have used until now."""
        spent = 0
        for task in os.listdir(f"/proc/{self.process.pid}/task"):
            with open(f"/proc/{self.process.pid}/task/{task}/schedstat", encoding="ascii") as file:
                spent += int(file.read().split()[0])
        return spent / 1e3

    def resident_kib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))

    def end(self):
        self.process.stdin.close()
        if self.process.wait(timeout=LIMIT_SECONDS) != 0:
            sys.exit(f"{' '.join(self.process.args)} ended with {self.process.returncode}")


class Job:
    """Agents of ddprun on this machine, one worker each."""

    def __init__(self, bench, nodes, *options, least=None):
        wanted = str(nodes) if least is None else f"{least}:{nodes}"
        self.port = free_port()
        place = ["--master-addr", "127.0.0.1", "--master-port", str(self.port), "--nnodes", wanted]
        self.lines, self.agents = bench.words, bench.agents
        self.agents += [Process([bench.ddprun, *place, "--node-rank", str(node), "--nproc-per-node", "1", *options,
                                "--no-python", PYTHON, "-I", "-S", bench.worker]) for node in range(nodes)]
        self.workers = {}
        while len(self.workers) < nodes:
            _, rank, pid = self.word({"up"})
            self.workers[rank] = pid
        self.handles = [os.pidfd_open(pid) for pid in self.workers.values()]

    def word(self, kinds):
        """The next word of a worker that is of one of these kinds: (kind, rank, number). What an earlier job's said late
        comes before this one's "up"."""
        while True:
            kind, rank, number = self.lines.next().split()
            if kind in kinds:
                return kind, int(rank), int(number)

    def told(self, ranks):
        """When the last worker of these was told to end, in nanoseconds; and when one failed."""
        stamps, failed = {}, None
        while not ranks <= stamps.keys():
            kind, rank, stamp = self.word({"failed", "told"})
            if kind == "failed":
                failed = stamp
            else:
                stamps[rank] = stamp
        return max(stamps[rank] for rank in ranks), failed

    def next_round(self, workers):
        """When the last worker of another round runs, in nanoseconds."""
        for _ in range(workers):
            self.word({"up"})
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC)

    def end(self):
        """All agents end by themselves, or because they are killed here, and no worker outlives them."""
        for agent in self.agents:
            agent.ended_within(LIMIT_SECONDS)
            agent.reap()
        for handle in self.handles:
            try:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            except ProcessLookupError:
                pass
            select.select([handle], [], [], LIMIT_SECONDS)
            os.close(handle)
        self.agents.clear()


class Bench:
    def __init__(self, arguments, folder):
        self.rounds, self.loads = arguments.rounds, arguments.loads
        self.ddprun = os.path.join(arguments.bin, "ddprun")
        self.load_program = os.path.join(arguments.bin, "rendezvous_load")
        self.worker, words = os.path.join(folder, "worker.py"), os.path.join(folder, "words")
        self.agents = []  # of the job that runs
        os.mkfifo(words)
        self.words = Lines(os.open(words, os.O_RDWR))  # both ends, so that nobody waits for the other
        with open(self.worker, "w", encoding="utf-8") as file:
            file.write(WORKER % {"words": words})

    def end(self):
        for agent in self.agents:
            agent.reap()

    def load(self, kind, count, nodes):
        """The numbers that the load printed, and the server's memory for one idle connection in KiB."""
        server = Program(self.load_program, "serve", str(nodes))
        port, before = server.answer()["port"], server.resident_kib()
        load = Program(self.load_program, kind, str(count), str(int(port)))
        numbers = load.answer()
        numbers["kib"] = (server.resident_kib() - before) / count
        if kind == "agents":
            numbers |= load.ask()
        load.end()
        server.end()
        return numbers


def largest(runs, name):
    return max(run[name] for run in runs)


def agents_figures(bench, table):
    runs = [bench.load("agents", AGENTS, AGENTS) for _ in range(bench.loads)]
    rounds = [run["after_last_ms"] + run["end_ms"] for run in runs]
    table.add(f"{AGENTS:,} agents: the last one has joined, to the end of a round of workers that do nothing",
              f"{max(rounds) / 1000:.2f} s", goal=f"<= {AGENTS_GOAL_SECONDS} s", met=max(rounds) <= 1000 * AGENTS_GOAL_SECONDS)
    table.add("  of that, until all know that it begins", f"{largest(runs, 'after_last_ms') / 1000:.2f} s")
    table.add("  the first one connects, until all know that", f"{largest(runs, 'all_ms') / 1000:.2f} s")
    table.add("  messages of one agent, from Hello to Goodbye",
              f"{runs[0]['sent'] / AGENTS:.1f} sent ({runs[0]['sent_bytes'] / AGENTS:.0f} B), "
              f"{runs[0]['received'] / AGENTS:.1f} received ({runs[0]['received_bytes'] / AGENTS:.0f} B)")
    memory_figure(table, "agent", runs)


def clients_figures(bench, table):
    runs = [bench.load("clients", CLIENTS, 1) for _ in range(bench.loads)]
    passed = largest(runs, "passed_ms") / 1000
    table.add(f"{CLIENTS:,} store clients connect at once and pass a barrier, no resets", f"{passed:.1f} s",
              goal=f"<= {CLIENTS_GOAL_SECONDS} s", met=passed <= CLIENTS_GOAL_SECONDS)
    table.add("  of that, until the last one is connected", f"{largest(runs, 'connected_ms') / 1000:.1f} s")
    memory_figure(table, "store client", runs)


def memory_figure(table, whose, runs):
    table.add(f"memory for the idle connection of {'an' if whose[0] in 'aeiou' else 'a'} {whose}",
              f"{largest(runs, 'kib'):.1f} KiB", goal=f"<= {IDLE_GOAL_KIB} KiB", met=largest(runs, "kib") <= IDLE_GOAL_KIB)


def times_text(times):
    return f"p50 {median(times):.2f}, max {max(times):.2f} ms of {len(times)}"


def failure_figure(bench, table):
    times = []
    for number in range(bench.rounds):
        failing, job = number % NODES, Job(bench, NODES)
        os.kill(job.workers[failing], signal.SIGUSR1)
        told, failed = job.told(set(range(NODES)) - {failing})
        times.append((told - failed) / 1e6)
        job.end()
    table.add(f"a worker of one of {NODES} agents exits with 7, until the last of the others' is told to end", times_text(times),
              goal=f"p50 <= {FAILURE_GOAL_MS} ms", met=median(times) <= FAILURE_GOAL_MS)


def busy_store_figure(bench, table):
    times = []
    for number in range(bench.rounds):
        failing, job = 1 + number % (NODES - 1), Job(bench, NODES)
        readers = Program(PYTHON, "-I", "-S", "-c", READERS, str(job.port), str(READERS_COUNT), str(READ_BYTES))
        readers.lines.next()
        os.kill(job.workers[failing], signal.SIGUSR1)
        told, failed = job.told(set(range(NODES)) - {failing})
        times.append((told - failed) / 1e6)
        job.end()
        readers.end()
    table.add(f"the same of another agent than the host, while {READERS_COUNT} ranks read values of {READ_BYTES >> 20} MiB", times_text(times),
              goal=f"p50 <= {BUSY_GOAL_MS} ms", met=median(times) <= BUSY_GOAL_MS)


def killed_figure(bench, table):
    times = []
    for number in range(bench.rounds):
        victim, job = 1 + number % (NODES - 1), Job(bench, NODES)
        killed = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        os.kill(job.agents[victim].pid, signal.SIGKILL)
        told, _ = job.told(set(range(NODES)) - {victim})
        times.append((told - killed) / 1e6)
        job.end()
    table.add(f"one of {NODES} agents is killed, until the last of the others' workers is told to end", times_text(times))


def next_round_times(bench, victim_of):
    times = []
    for number in range(max(1, bench.rounds // 4)):
        victim, job = victim_of(number), Job(bench, NODES, least=NODES - 1)
        killed = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        os.kill(job.agents[victim].pid, signal.SIGKILL)
        times.append((job.next_round(NODES - 1) - killed) / 1e6)
        os.kill(job.agents[0 if victim > 0 else 1].pid, signal.SIGTERM)
        job.end()
    return times


def next_round_figure(bench, table):
    for who, victim_of, goal in ((f"one of {NODES} agents", lambda number: 1 + number % (NODES - 1), NEXT_ROUND_GOAL_MS),
                                 (f"the hosting one of {NODES} agents", lambda number: 0, TAKEOVER_GOAL_MS)):
        times = next_round_times(bench, victim_of)
        table.add(f"{who} is killed, until the others' workers of the next round run", times_text(times),
                  goal=f"p50 <= {goal} ms", met=median(times) <= goal)


def descendants(pid):
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                parents[int(name)] = int(file.read().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
    found, grew = {pid}, True
    while grew:
        more = {child for child, parent in parents.items() if parent in found} - found
        found, grew = found | more, bool(more)
    return found


def wake_ups(pids):
    """How often threads of these processes have waited until now."""
    count = 0
    for pid in pids:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/status", encoding="ascii", errors="replace") as file:
                count += next(int(line.split()[1]) for line in file if line.startswith("voluntary_ctxt_switches:"))
    return count


def idle_figure(bench, table):
    job = Job(bench, 2, "--heartbeat", str(HEARTBEAT_SECONDS))
    helpers = [descendants(agent.pid) - {agent.pid, *job.workers.values()} for agent in job.agents]
    watched = [({agent.pid}, others) for agent, others in zip(job.agents, helpers)]
    third = HEARTBEAT_SECONDS / 3
    time.sleep(IDLE_SETTLE_SECONDS)  # no event: the start is to be over
    before = [[wake_ups(pids) for pids in pair] for pair in watched]
    time.sleep(IDLE_THIRDS * third)
    counts = [[wake_ups(pids) - was for pids, was in zip(pair, row)] for pair, row in zip(watched, before)]
    for agent in job.agents:
        os.kill(agent.pid, signal.SIGTERM)
    job.end()
    for whose, (count, of_helpers) in zip(("the hosting agent", "the other one"), counts):
        # One more than there are thirds may fall into the time.
        table.add(f"idle, {IDLE_THIRDS} thirds of a heartbeat of {HEARTBEAT_SECONDS} s: {whose} wakes",
                  f"{count} times (its helpers {of_helpers})", goal=f"<= {IDLE_THIRDS}", met=count <= IDLE_THIRDS + 1)


# A figure is a function of the bench, which adds its rows to the table.
FIGURES = (agents_figures, clients_figures, failure_figure, busy_store_figure, killed_figure, next_round_figure, idle_figure)


def main():
    parser = argparse.ArgumentParser(prog="bench_rendezvous.sh", description="The rendezvous figures, on loopback.")
    parser.add_argument("--rounds", type=int, default=40, help="jobs of each failure (default 40, at least 1)")
    parser.add_argument("--loads", type=int, default=5, help="runs of each load, of which the worst counts (default 5)")
    parser.add_argument("--bin", default="build/bin", help="where ddprun and rendezvous_load are")
    arguments = parser.parse_args()
    if arguments.rounds < 1 or arguments.loads < 1:
        parser.error("--rounds, --loads: at least 1")
    for name in ("ddprun", "rendezvous_load"):
        if not os.access(os.path.join(arguments.bin, name), os.X_OK):
            parser.error(f"--bin {arguments.bin}: there is no {name}")
    print(f"machine: {machine()}", flush=True)
    table = Table()
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
        bench = Bench(arguments, folder)
        try:
            for figure in FIGURES:
                figure(bench, table)
        finally:
            bench.end()
    table.print()
    return 0 if table.all_met else 1


if __name__ == "__main__":
    sys.exit(main())
