"""The store: our server and PyTorch's own, in interleaved rounds, with the same client processes (1, 8 and 64 of them).

Called by bench_store.sh with the path of store_host_program, under the Python of one PyTorch. Prints the medians of the rounds
for each server, and the median of the rounds' ratios, so that what the machine does meanwhile touches both alike: operations
in a second, the 99th percentile of what one takes, and the server's CPU time for each.
"""

import datetime
import glob
import os
import platform
import select
import signal
import statistics
import subprocess
import sys
import time

try:
    from torch.distributed import TCPStore
    import torch
except ImportError as error:
    sys.exit(f"bench_store: needs PyTorch's client (Debian package python3-torch): {error}")

CLIENTS = (1, 8, 64)
ROUNDS = 25
# operation -> how often each of 64 clients does it in one round; fewer clients do it more often, up to MOST
OPERATIONS = {"get": 80, "add": 120, "set": 120, "wait": 120, "multi_get": 40}
OPERATIONS = {name: count for name, count in OPERATIONS.items() if hasattr(TCPStore, name)}  # Debian's client lacks one
MOST = 1000
MULTI_GET_KEYS = 8
# Ratios to reach, ours to theirs: at least, at most, at most.
RATE_GOAL, P99_GOAL, CPU_GOAL = 1.0, 1.0, 0.8
VALUE = b"v" * 64
CLIENT_LIMIT = 120  # seconds; a client that hangs ends itself
STEP_LIMIT = 60  # seconds for one round of one operation


def connect(port):
    return TCPStore("127.0.0.1", port, None, False, timeout=datetime.timedelta(seconds=30))


def calls(store, key):
    """operation -> what one client does for it once"""
    keys = [f"{key}/{number}" for number in range(MULTI_GET_KEYS)]
    return {"get": lambda: store.get(key), "add": lambda: store.add(key + "/n", 1), "set": lambda: store.set(key, VALUE),
            "wait": lambda: store.wait([key]), "multi_get": lambda: store.multi_get(keys)}


def perform(store, operation, key, count):
    """Returns what each call took, in microseconds."""
    call, durations, clock = calls(store, key)[operation], [], time.monotonic
    before = clock()
    for _ in range(count):
        call()
        now = clock()
        durations.append(1e6 * (now - before))
        before = now
    if operation == "set":
        store.get(key)  # set has no reply: the answer to this one says that the server has done them all
    return durations


def run_client(number, ports, commands, results):
    """Obeys lines `SERVER OPERATION COUNT`; answers with begin and end on the monotonic clock, and what each call took."""
    signal.alarm(CLIENT_LIMIT)
    stores = [connect(port) for port in ports]
    key = f"client/{number:02}"
    for store in stores:
        for each in (key, *(f"{key}/{part}" for part in range(MULTI_GET_KEYS))):
            store.set(each, VALUE)
    results.write("connected\n")
    results.flush()
    for line in commands:
        server, operation, count = line.split()
        begin = time.monotonic()
        durations = perform(stores[int(server)], operation, key, int(count))
        results.write(f"{begin} {time.monotonic()} {' '.join(f'{each:.1f}' for each in durations)}\n")
        results.flush()


class Client:
    def __init__(self, number, ports):
        command_read, command_write = os.pipe()
        result_read, result_write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                os.close(command_write)
                os.close(result_read)
                run_client(number, ports, os.fdopen(command_read), os.fdopen(result_write, "w"))
                status = 0
            finally:
                os._exit(status)
        os.close(command_read)
        os.close(result_write)
        self.commands = os.fdopen(command_write, "w")
        self.results = os.fdopen(result_read)

    def ask(self, line):
        self.commands.write(line + "\n")
        self.commands.flush()

    def answer(self):
        ready, _, _ = select.select([self.results], [], [], STEP_LIMIT)
        line = self.results.readline() if ready else ""
        if not line:
            sys.exit(f"bench_store: a client (pid {self.pid}) did not answer within {STEP_LIMIT} s, or died")
        return line.split()


def measure_in_full(clients, server, operation, count):
    """Operations in a second, and what each of them took."""
    for client in clients:
        client.ask(f"{server} {operation} {count}")
    answers = [[float(word) for word in client.answer()] for client in clients]
    elapsed = max(end for _, end, *_ in answers) - min(begin for begin, *_ in answers)
    return len(clients) * count / elapsed, [each for _, _, *durations in answers for each in durations]


def measure(clients, server, operation, count):
    return measure_in_full(clients, server, operation, count)[0]


def cpu_time(pid):
    """Microseconds that all threads of the process have run."""
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        with open(path, encoding="ascii") as file:
            total += int(file.read().split()[0])
    return total / 1e3


def start_ours(program):
    server = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return server, int(server.stdout.readline().split()[1])


def start_pytorch():
    source = (
        "import datetime, sys\n"
        "from torch.distributed import TCPStore\n"
        "store = TCPStore('127.0.0.1', 0, None, True, timeout=datetime.timedelta(seconds=30))\n"
        "print('ready', store.port, flush=True)\n"
        "sys.stdin.read()\n"
    )
    server = subprocess.Popen(
        [sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    return server, int(server.stdout.readline().split()[1])


def machine():
    model = platform.processor() or "unknown CPU"
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return f"{model}, {os.cpu_count()} CPUs, Linux {platform.release()}"


class Figures:
    """What one operation with so many clients came to, ours first."""

    def __init__(self, clients, operation):
        self.clients, self.operation = clients, operation
        self.rates, self.p99s, self.costs = ([], []), ([], []), ([], [])

    def add(self, server, rate, durations, cost):
        self.rates[server].append(rate)
        self.p99s[server].append(statistics.quantiles(durations, n=100)[98])
        self.costs[server].append(cost)

    @staticmethod
    def ratio(both):
        return statistics.median(ours / theirs for ours, theirs in zip(*both) if theirs > 0)

    def missed(self):
        return [name for name, miss in (("rate", self.ratio(self.rates) < RATE_GOAL), ("p99", self.ratio(self.p99s) > P99_GOAL),
                                        ("CPU", self.ratio(self.costs) > CPU_GOAL)) if miss]

    def row(self):
        cells = []
        for both, form in ((self.rates, ".0f"), (self.p99s, ".0f"), (self.costs, ".2f")):
            cells += [format(statistics.median(each), form) for each in both] + [format(self.ratio(both), ".2f")]
        missed = f"  missed: {', '.join(self.missed())}" if self.missed() else ""
        return f"{self.clients:>7} {self.operation:<9}" + "".join(f"{cell:>9}" for cell in cells) + missed


def one_round(figures, clients, servers, order):
    number = len(clients)
    for operation, each in figures.items():
        count = min(MOST, OPERATIONS[operation] * CLIENTS[-1] // number)
        for server in order:
            before = cpu_time(servers[server].pid)
            rate, durations = measure_in_full(clients, server, operation, count)
            each.add(server, rate, durations, (cpu_time(servers[server].pid) - before) / (number * count))


def main():
    started = [start_ours(sys.argv[1]), start_pytorch()]
    servers, ports = [server for server, _ in started], [port for _, port in started]
    clients = [Client(number, ports) for number in range(max(CLIENTS))]
    for client in clients:
        client.answer()
    for server in (0, 1):
        for operation in OPERATIONS:
            measure(clients, server, operation, max(1, OPERATIONS[operation] // 10))  # warm-up

    all_figures = []
    for number in CLIENTS:
        figures = {operation: Figures(number, operation) for operation in OPERATIONS}
        for round_number in range(ROUNDS):
            one_round(figures, clients[:number], servers, (0, 1) if round_number % 2 == 0 else (1, 0))
        all_figures += figures.values()

    for client in clients:
        client.commands.close()
    for client in clients:
        os.waitpid(client.pid, 0)
    for server in servers:
        server.stdin.close()
        server.wait(timeout=STEP_LIMIT)

    today = datetime.date.today().isoformat()
    print(f"{today}, {machine()}; clients and other server of PyTorch {torch.__version__}, {ROUNDS} rounds in turn, medians")
    print(f"{'':17}{'operations/s':>27}{'p99, us':>27}{'server CPU, us each':>27}")
    print(f"{'clients':>7} {'':<9}" + "".join(f"{'ddprun':>9}{'PyTorch':>9}{'ratio':>9}" for _ in range(3)))
    for figures in all_figures:
        print(figures.row())
    print(f"goals: rate at least {RATE_GOAL}, p99 at most {P99_GOAL}, CPU at most {CPU_GOAL} of PyTorch's")
    return 1 if any(figures.missed() for figures in all_figures) else 0


if __name__ == "__main__":
    sys.exit(main())
