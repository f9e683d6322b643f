"""The figures of a job with a secret, whose workers on other nodes reach the store through their agents' doors. See
bench_door.sh.

Server, doors and clients are processes of their own, on loopback; the clients are native, so that they hide little of what
the others take. A round runs all ways in turn, in an order that changes; ratios and differences are medians of the rounds'.
The CPU time of each process says what bounds a rate: on two cores three processes share what each would have for itself on
machines of their own.
"""

import argparse
import contextlib
import os
import statistics
import sys
import tempfile

from bench_launch import Table, machine, two_agents
from bench_rendezvous import Program

SECRET_GOAL_MS = 1
OPERATIONS = ("get", "add", "set", "wait", "check")
# Clients -> operations of each in a round, and the ratio to reach.
STORE_LOADS = {8: (1000, 0.6), 64: (200, 1.0)}
DIRECT, DOOR, BEFORE = range(3)  # the ways to the store
UNCHANGED = 0.95  # times the operations of before
NODES, CLIENTS = 100, 10_000
BARRIER_GOAL_SECONDS, MEMORY_GOAL_MB = 5, 100
RECORD_CLIENTS, RECORD_COUNT = 8, 5000
RECORD_RUNS = 5


class Bench:
    def __init__(self, arguments, folder):
        self.rounds, self.loads, self.before = arguments.rounds, arguments.loads, arguments.before
        self.bin = arguments.bin
        self.secret = os.path.join(folder, "secret")
        with open(os.open(self.secret, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write(os.urandom(32).hex() + "\n")

    def start(self, *words, folder=None):
        return Program(os.path.join(folder or self.bin, "rendezvous_load"), *map(str, words))

    @contextlib.contextmanager
    def port_and_doors(self, doors):
        """The server of a job with a secret, so many doors that lead there, and the ports of both."""
        server = self.start("serve", doors + 1, "secret")
        port = int(server.answer()["port"])
        door = self.start("doors", doors, port)
        yield server, door, port, [int(number) for number in door.answer().values()]
        door.end()
        server.end()


def secret_figure(bench, table):
    ways = (("--auth=off",), ("--secret-file", bench.secret))
    times = ([], [])
    for number in range(bench.rounds):
        for way in ((0, 1) if number % 2 == 0 else (1, 0)):
            times[way].append(two_agents(bench.bin, *ways[way]))
    if None in times[0] + times[1]:
        sys.exit("bench_door: a job of two agents did not end well")
    more = statistics.median(secret - none for none, secret in zip(*times))
    none, secret = map(statistics.median, times)
    table.add("two agents of one no-op worker with a secret, start to exit of both; peer: without", f"{secret:.2f} ms",
              f"{none:.2f} ms", f"{more:+.2f} ms", f"<= +{SECRET_GOAL_MS} ms", more <= SECRET_GOAL_MS)


class StoreRun:
    """What one operation took in the rounds, on each way: rates, and CPU of the server, the door and the clients, us each."""

    def __init__(self, programs, clients, ways):
        self.programs, self.clients, self.ways = programs, clients, ways
        self.rates = [[] for _ in range(ways)]
        self.cpu = [[] for _ in range(ways)]

    def measure(self, way, operation, count):
        before = [program.cpu_microseconds() for program in self.programs]
        done = self.programs[-1].ask(f"{way} {operation} {count}")
        number = self.clients * count
        self.rates[way].append(number / done["ms"] * 1e3)
        self.cpu[way].append([(program.cpu_microseconds() - spent) / number for program, spent in zip(self.programs, before)])

    def ratio(self, way, other):
        return statistics.median(one / two for one, two in zip(self.rates[way], self.rates[other]))

    def rate(self, way):
        return statistics.median(self.rates[way])

    def cpu_each(self, way):
        return [statistics.median(column) for column in zip(*self.cpu[way])]


def store_runs(bench, clients, count):
    """Operation -> its StoreRun."""
    with contextlib.ExitStack() as stack:
        server, door, port, doors = stack.enter_context(bench.port_and_doors(1))
        ports = [port, *doors]
        if bench.before:
            earlier = bench.start("serve", 2, folder=bench.before)
            stack.callback(earlier.end)
            ports.append(int(earlier.answer()["port"]))
        asking = bench.start("questions", clients, *ports)
        stack.callback(asking.end)
        asking.answer()
        ways = len(ports)
        runs = {operation: StoreRun((server, door, asking), clients, ways) for operation in OPERATIONS}
        for operation in OPERATIONS:
            for way in range(ways):
                asking.ask(f"{way} {operation} {max(1, count // 10)}")  # warm-up
        for number in range(bench.rounds):
            for operation, run in runs.items():
                for way in range(ways):
                    run.measure((way + number) % ways, operation, count)
        return runs


def store_figures(bench, table):
    for clients, (count, goal) in STORE_LOADS.items():
        runs = store_runs(bench, clients, count)
        for operation, run in runs.items():
            ratio = run.ratio(DOOR, DIRECT)
            table.add(f"store, {clients} clients, {operation} through a door; peer: direct", f"{run.rate(DOOR):,.0f}/s",
                      f"{run.rate(DIRECT):,.0f}/s", f"{ratio:.2f} x", f">= {goal} x", ratio >= goal)
            of_door, direct = run.cpu_each(DOOR), run.cpu_each(DIRECT)
            table.add("  CPU of server, door, clients, us each; ratio if each had a core of its own",
                      " ".join(f"{spent:.1f}" for spent in of_door), " ".join(f"{spent:.1f}" for spent in direct),
                      f"{max(direct) / max(of_door):.2f} x")
        for operation, run in runs.items() if bench.before else ():
            ratio = run.ratio(DIRECT, BEFORE)
            table.add(f"store, {clients} clients, {operation} direct; peer: the build before", f"{run.rate(DIRECT):,.0f}/s",
                      f"{run.rate(BEFORE):,.0f}/s", f"{ratio:.2f} x", f">= {UNCHANGED} x", ratio >= UNCHANGED)


def connections_of(port):
    """How many connections this machine has at a port of 127.0.0.1, seen from there."""
    at, established = f"0100007F:{port:04X}", "01"
    with open("/proc/net/tcp", encoding="ascii") as file:
        return sum(row[1] == at and row[3] == established for row in map(str.split, file))


def barrier_figures(bench, table):
    passed, memory, connections, spent = [], [], [], []
    for _ in range(bench.loads):
        with bench.port_and_doors(NODES) as (server, door, port, doors):
            clients = bench.start("clients", CLIENTS, *doors)
            passed.append(clients.answer()["passed_ms"] / 1e3)
            spent.append([program.cpu_microseconds() / 1e6 for program in (server, door, clients)])
            memory.append(server.resident_kib() * 1024 / 1e6)
            connections.append(connections_of(port))
            clients.end()
    table.add(f"{CLIENTS:,} clients of {NODES} nodes connect at once and pass a barrier through doors, worst of {bench.loads}",
              f"{max(passed):.1f} s", goal=f"<= {BARRIER_GOAL_SECONDS} s", met=max(passed) <= BARRIER_GOAL_SECONDS)
    table.add("  CPU of server, all doors, clients", " ".join(f"{max(column):.1f}" for column in zip(*spent)) + " s")
    table.add("  memory of the server with them all", f"{max(memory):.0f} MB", goal=f"<= {MEMORY_GOAL_MB} MB",
              met=max(memory) <= MEMORY_GOAL_MB)
    table.add("  its connections", f"{max(connections)}", goal=f"{NODES}", met=set(connections) == {NODES})


def record_figure(bench, table):
    with bench.port_and_doors(1) as (server, _, port, _):
        asking = bench.start("record", RECORD_CLIENTS, port)
        asking.answer()
        asking.ask(f"{RECORD_CLIENTS} {RECORD_COUNT}")  # warm-up
        spent = {1: [], RECORD_CLIENTS: []}
        for _ in range(RECORD_RUNS):
            for clients, times in spent.items():
                before = server.cpu_microseconds()
                asking.ask(f"{clients} {RECORD_COUNT}")
                times.append((server.cpu_microseconds() - before) / RECORD_COUNT)
        asking.end()
    each = statistics.median((many - one) / (RECORD_CLIENTS - 1) for one, many in zip(*spent.values()))
    one, many = map(statistics.median, spent.values())
    table.add(f"server's CPU for {RECORD_CLIENTS} equal gets of 128 B in one record; peer: for one; last: each further one",
              f"{many:.1f} us", f"{one:.1f} us", f"{each:.2f} us")


FIGURES = (secret_figure, store_figures, barrier_figures, record_figure)


def main():
    parser = argparse.ArgumentParser(prog="bench_door.sh", description="The figures of a job with a secret, on loopback.")
    parser.add_argument("--rounds", type=int, default=25, help="rounds of all but the barrier (default 25, at least 1)")
    parser.add_argument("--loads", type=int, default=5, help="barriers, of which the worst counts (default 5)")
    parser.add_argument("--bin", default="build/bin", help="where ddprun and rendezvous_load are")
    parser.add_argument("--before", help="the same of an earlier build, whose store is compared")
    arguments = parser.parse_args()
    if arguments.rounds < 1 or arguments.loads < 1:
        parser.error("--rounds, --loads: at least 1")
    needed = [(arguments.bin, "ddprun"), (arguments.bin, "rendezvous_load")]
    for folder, name in needed + ([(arguments.before, "rendezvous_load")] if arguments.before else []):
        if not os.access(os.path.join(folder, name), os.X_OK):
            parser.error(f"{folder}: there is no {name}")
    print(f"machine: {machine()}")
    print(f"medians of {arguments.rounds} rounds in turn", flush=True)
    table = Table()
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
        bench = Bench(arguments, folder)
        try:
            for figure in FIGURES:
                figure(bench, table)
        finally:
            table.print()  # on a busy machine a program may be late, and end it all
    return 0 if table.all_met else 1


if __name__ == "__main__":
    sys.exit(main())
