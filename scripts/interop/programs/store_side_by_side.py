"""Runs the probes on ddprun's store and on PyTorch's own servers, and prints the outcomes as one line of JSON.

Runs as a job's only worker: ddprun's store is the job's own. Usage: store_side_by_side.py
"""

import inspect
import json
import os
import signal
import subprocess
import sys

import probes_of_values
import probes_of_waits
from probing import PROBES, Place, outcome
from torch.distributed import TCPStore

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


def verbs_without_a_probe():
    """Of the client's methods; what only says where the store is is none."""
    probed = "".join(map(inspect.getsource, (probes_of_values, probes_of_waits)))
    said = {"host", "port", "libuvBackend"}
    return [verb for verb in dir(TCPStore) if not verb.startswith("_") and verb not in said and f"store.{verb}" not in probed]


def main():
    signal.alarm(LIMIT)
    servers = {kind: start_server(kind) for kind in ("libuv", "threaded")}
    targets = {"ddprun": (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), {})}
    for kind, (_, port) in servers.items():
        # The client itself refuses queues unless it is told that the server has libuv.
        targets[kind] = ("127.0.0.1", port, {"use_libuv": kind == "libuv"})
    outcomes = {}
    for number, (name, function) in enumerate(PROBES.items()):
        outcomes[name] = {}
        for target, (host, port, options) in targets.items():
            def run():
                return function(Place(host, port, options, f"p{number}"))
            outcomes[name][target] = outcome(run)
    print("outcomes", json.dumps({"by_probe": outcomes, "unproven": verbs_without_a_probe()}), flush=True)
    for server, _ in servers.values():
        server.stdin.close()
        server.wait()


main()
