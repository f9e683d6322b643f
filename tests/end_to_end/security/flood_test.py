"""Jobs whose ranks' ports are called without pause by somebody who is none of them: none fails.

    flood_test.py BIN_DIR                               what CI runs
    flood_test.py BIN_DIR --table [--runs 50] [--rate 5000] [--busy 2]
        prints for each kind of call and each operation how many runs there were, how many failed, and the median time with
        the flood and without; --busy N processes compute besides
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from node_network import isolate
from strangers_test import OTHER_USER, PYTHON
from support import EndToEndTest, free_port, program

RANKS = 4
FLOODERS = 2  # one alone does not call so often
KINDS = ("silent", "half", "garbage", "stranger")
# How often within one job.
OPERATIONS = {"start": 1, "groups": 200, "split": 20, "shrink": 10, "messages": 10}
WAYS = ("memory", "tcp", "alone")  # the last without a launcher: rank 0 hosts the store
SECONDS = 600
HERE = os.path.dirname(os.path.abspath(__file__))


@contextlib.contextmanager
def flood(kind, rate, prefix=()):
    with open(os.path.join(HERE, "flooder.py"), encoding="utf-8") as file:
        code = file.read()
    words = [*prefix, PYTHON, "-c", code, kind, str(rate / FLOODERS), str(SECONDS)]
    # In sessions of their own, as somebody else's are: the kernel shares the CPUs out by sessions.
    flooders = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True) for _ in range(FLOODERS)]
    try:
        yield flooders
        assert all(flooder.poll() is None for flooder in flooders), "the flood has ended"
    finally:
        for flooder in flooders:
            flooder.kill()
            flooder.wait()
            flooder.stdout.close()


@contextlib.contextmanager
def busy(processes):
    workers = [subprocess.Popen([PYTHON, "-c", "while True: pass"], start_new_session=True) for _ in range(processes)]
    try:
        yield
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def run_alone(words, environment):
    """The ranks as somebody starts them by hand; returns how they ended, and what they said."""
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(RANKS)}
    ranks = [subprocess.Popen(words, env={**environment, **place, "RANK": str(rank)}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, start_new_session=True) for rank in range(RANKS)]
    try:
        said = [rank.communicate(timeout=support.HANG_GUARD)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    return max(abs(rank.returncode) for rank in ranks), "".join(said)


def run(operation, way, environment):
    """One job: how it ended, what was said, and how long it took."""
    words = [program("crowd_program"), operation, str(OPERATIONS[operation])]
    begin = time.monotonic()
    if way == "alone":
        code, said = run_alone(words, environment)
    else:
        transport = {"memory": "auto", "tcp": "tcp"}[way]
        done = subprocess.run([program("ddprun"), f"--nproc-per-node={RANKS}", *words], capture_output=True, text=True, check=False,
                              env={**environment, "DDPRUN_TRANSPORT": transport}, timeout=support.HANG_GUARD)
        code, said = done.returncode, done.stdout + done.stderr
    return code, said, time.monotonic() - begin


class Flood(EndToEndTest):
    def flooded(self, operations, ways=WAYS, prefix=(), rate=2000):
        for way in ways:
            for operation in operations:
                for kind in KINDS:
                    with self.subTest(kind=kind, operation=operation, way=way), flood(kind, rate, prefix):
                        code, said, _ = run(operation, way, self.environment)
                        self.assertEqual(code, 0, said)
                        self.assertEqual(said.count(": ok"), RANKS, said)

    def test_a_flood_of_our_own_users_ends_no_job_that_starts(self):
        self.flooded(["start"])

    def test_a_flood_of_our_own_users_ends_no_job_that_makes_connections(self):
        self.flooded(["groups", "messages"], ways=("memory", "tcp"))

    def test_a_flood_of_our_own_users_ends_no_job_that_splits_and_shrinks(self):
        self.flooded(["split", "shrink"], ways=("memory", "tcp"))

    @unittest.skipIf(os.geteuid() != 0, "only root can call as somebody else")
    def test_a_flood_of_another_user_ends_no_job(self):
        other = ["setpriv", f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}", "--clear-groups"]
        self.flooded(["start", "groups"], ways=("memory", "alone"), prefix=other)


def print_table(arguments):
    environment = dict(os.environ)
    runs = arguments.runs
    print(f"{arguments.rate} calls a second, {arguments.busy} busy processes, {os.cpu_count()} CPUs, {RANKS} ranks")
    print(f"{'over':8}{'operation':12}{'kind':10}{'runs':>6}{'failed':>8}{'seconds':>9}{'without':>9}{'longest':>9}")
    for way in arguments.over.split(","):
        for operation in arguments.operations.split(","):
            with busy(arguments.busy):
                without = statistics.median(run(operation, way, environment)[2] for _ in range(5))
            for kind in arguments.kinds.split(","):
                with busy(arguments.busy), flood(kind, arguments.rate):
                    ended = [run(operation, way, environment) for _ in range(runs)]
                took = [seconds for _, _, seconds in ended]
                failed = [said for code, said, _ in ended if code != 0]
                print(f"{way:8}{operation:12}{kind:10}{runs:6}{len(failed):8}{statistics.median(took):9.2f}{without:9.2f}"
                      f"{max(took):9.2f}", flush=True)
                for said in failed[:1]:
                    print(said)


def main():
    isolate()
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    if "--table" not in sys.argv:
        return support.main()
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--rate", type=int, default=5000)
    parser.add_argument("--busy", type=int, default=2)
    parser.add_argument("--over", default=",".join(WAYS))
    parser.add_argument("--operations", default=",".join(OPERATIONS))
    parser.add_argument("--kinds", default=",".join(KINDS))
    arguments = parser.parse_args()
    support.BIN = os.path.abspath(arguments.bin)
    return print_table(arguments)


if __name__ == "__main__":
    main()
