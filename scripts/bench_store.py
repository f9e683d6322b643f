"""Store throughput: our server and PyTorch's own, in interleaved rounds, with the same 64 client processes.

Called by bench_store.sh with the path of store_host_program. Prints the median of the rounds for each server,
and the median of the rounds' ratios, so that what the machine does meanwhile touches both alike.
"""

import datetime
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

CLIENTS = 64
ROUNDS = 25
# operation -> how often each client does it in one round
OPERATIONS = {"get": 80, "add": 120, "set": 120, "wait": 120}
GOALS = {"get": 1.0, "add": 1.0}  # ratios to reach
VALUE = b"v" * 64
CLIENT_LIMIT = 120  # seconds; a client that hangs ends itself
STEP_LIMIT = 60  # seconds for one round of one operation


def connect(port):
    return TCPStore("127.0.0.1", port, None, False, timeout=datetime.timedelta(seconds=30))


def perform(store, operation, key, count):
    if operation == "get":
        for _ in range(count):
            store.get(key)
    elif operation == "add":
        for _ in range(count):
            store.add(key + "/n", 1)
    elif operation == "set":
        for _ in range(count):
            store.set(key, VALUE)
        store.get(key)  # set has no reply: the answer to this one says that the server has done them all
    else:
        for _ in range(count):
            store.wait([key])


def run_client(number, ports, commands, results):
    """Obeys lines `SERVER OPERATION COUNT`; answers each with its begin and end on the monotonic clock."""
    signal.alarm(CLIENT_LIMIT)
    stores = [connect(port) for port in ports]
    key = f"client/{number:02}"
    for store in stores:
        store.set(key, VALUE)
    results.write("connected\n")
    results.flush()
    for line in commands:
        server, operation, count = line.split()
        begin = time.monotonic()
        perform(stores[int(server)], operation, key, int(count))
        results.write(f"{begin} {time.monotonic()}\n")
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


def measure(clients, server, operation, count):
    for client in clients:
        client.ask(f"{server} {operation} {count}")
    times = [[float(word) for word in client.answer()] for client in clients]
    elapsed = max(end for _, end in times) - min(begin for begin, _ in times)
    return len(clients) * count / elapsed


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


def main():
    servers = [start_ours(sys.argv[1]), start_pytorch()]
    ports = [port for _, port in servers]
    clients = [Client(number, ports) for number in range(CLIENTS)]
    for client in clients:
        client.answer()
    for server in (0, 1):
        for operation, count in OPERATIONS.items():
            measure(clients, server, operation, max(1, count // 10))  # warm-up

    rates = {operation: ([], []) for operation in OPERATIONS}
    for round_number in range(ROUNDS):
        order = (0, 1) if round_number % 2 == 0 else (1, 0)
        for operation, count in OPERATIONS.items():
            for server in order:
                rates[operation][server].append(measure(clients, server, operation, count))

    for client in clients:
        client.commands.close()
    for client in clients:
        os.waitpid(client.pid, 0)
    for server, _ in servers:
        server.stdin.close()
        server.wait(timeout=STEP_LIMIT)

    today = datetime.date.today().isoformat()
    print(f"{today}, {machine()}; {CLIENTS} clients of PyTorch {torch.__version__}, {ROUNDS} rounds in turn, medians")
    print(f"{'operation':<10}{'ddprun/s':>12}{'PyTorch/s':>12}{'ratio':>8}")
    missed = False
    for operation, (ours, theirs) in rates.items():
        ratio = statistics.median(mine / other for mine, other in zip(ours, theirs))
        goal = GOALS.get(operation)
        missed = missed or (goal is not None and ratio < goal)
        print(f"{operation:<10}{statistics.median(ours):>12.0f}{statistics.median(theirs):>12.0f}{ratio:>8.2f}"
              + (f"  goal {goal:.2f}{'' if ratio >= goal else ': missed'}" if goal is not None else ""))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
