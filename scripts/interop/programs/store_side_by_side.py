"""Runs the probes on ddprun's store and on PyTorch's own servers, and prints the outcomes as one line of JSON.

Runs as a job's only worker: ddprun's store is the job's own. Usage: store_side_by_side.py
"""

import json
import os
import signal
import subprocess
import sys

import store_probes

LIMIT = 200  # seconds for everything; a hang guard
SERVER = """
import datetime, sys
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", 0, None, True, timeout=datetime.timedelta(seconds=60), use_libuv=sys.argv[1] == "libuv")
print("ready", store.port, flush=True)
sys.stdin.read()
"""


def start_server(kind):
    server = subprocess.Popen([sys.executable, "-c", SERVER, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return server, int(server.stdout.readline().split()[1])


def main():
    signal.alarm(LIMIT)
    servers = {kind: start_server(kind) for kind in ("libuv", "threaded")}
    targets = {"ddprun": (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), {})}
    for kind, (_, port) in servers.items():
        # The client itself refuses queues unless it is told that the server has libuv.
        targets[kind] = ("127.0.0.1", port, {"use_libuv": kind == "libuv"})
    outcomes = {}
    for number, (name, function) in enumerate(store_probes.PROBES.items()):
        outcomes[name] = {}
        for target, (host, port, options) in targets.items():
            def run():
                return function(store_probes.Place(host, port, options, f"p{number}"))
            outcomes[name][target] = store_probes.outcome(run)
    print("outcomes", json.dumps(outcomes), flush=True)
    for server, _ in servers.values():
        server.stdin.close()
        server.wait()


main()
