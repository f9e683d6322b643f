"""Runs the probes on ddprun's store and on PyTorch's own servers, and prints the outcomes as one line of JSON.

Runs as a job's only worker: ddprun's store is the job's own. Usage: store_side_by_side.py
"""

import inspect
import json
import os
import signal
import subprocess
import sys

import store_probes
import torch
from torch.distributed import TCPStore

LIMIT = 200  # seconds for everything; a hang guard
SERVER = """
import datetime, sys
from torch.distributed import TCPStore
options = {"use_libuv": sys.argv[1] == "libuv"} if sys.argv[1] != "only" else {}
store = TCPStore("127.0.0.1", 0, None, True, timeout=datetime.timedelta(seconds=60), **options)
print("ready", store.port, flush=True)
sys.stdin.read()
"""


def start_server(kind):
    server = subprocess.Popen([sys.executable, "-c", SERVER, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return server, int(server.stdout.readline().split()[1])


def lacks(function):
    """Verbs in the probe that this PyTorch's client does not have."""
    verbs = ("append", "multi_get", "queue_push", "list_keys", "barrier", "clone", "has_extended_api", "timeout", "check")
    return [verb for verb in verbs if f"store.{verb}" in inspect.getsource(function) and not hasattr(TCPStore, verb)]


def main():
    signal.alarm(LIMIT)
    old = tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 4)
    servers = {kind: start_server(kind) for kind in (("only",) if old else ("libuv", "threaded"))}
    ours = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), {})
    targets = {"ddprun": ours}
    for kind, (_, port) in servers.items():
        # The client itself refuses queues unless it is told that the server has libuv.
        targets[kind] = ("127.0.0.1", port, {} if old else {"use_libuv": kind == "libuv"})
    outcomes, left_out = {}, []
    for number, (name, function) in enumerate(store_probes.PROBES.items()):
        if lacks(function):
            left_out.append(name)
            continue
        outcomes[name] = {}
        for target, (host, port, options) in targets.items():
            def run():
                return function(store_probes.Place(host, port, options, f"p{number}"))
            outcomes[name][target] = store_probes.outcome(run)
    print("outcomes", json.dumps({"outcomes": outcomes, "left_out": left_out}), flush=True)
    for server, _ in servers.values():
        server.stdin.close()
        server.wait()


main()
