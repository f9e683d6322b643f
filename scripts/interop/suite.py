"""Called by interop.sh: real programs with PyTorch and the frameworks on it, under ddprun. One line for each case."""

import argparse
import os
import sys
import time

import environment
import store_cases
import torch_cases
from jobs import ROOT, PyTorch, Setting, support
from results import Results

DEBIAN = PyTorch("1.13", "/usr/bin")
HANG_GUARD = 240.0  # seconds for one job; Python's imports are slow on a loaded machine


def static_pair(port):
    return [["--nnodes=2", f"--node_rank={rank}", "--master_addr=127.0.0.1", f"--master_port={port}"] for rank in (0, 1)]


def c10d_pair(port):
    return [["--nnodes=2", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{port}", "--rdzv-id=pair"]] * 2


class Jobs:
    """The jobs in their order: (title, function), the title for --only and --list."""

    def __init__(self, results, secret):
        self.results, self.secret, self.found = results, secret, []

    def add(self, function, pytorch, launch, agents, *more):
        """With a secret only jobs of several agents count: nobody else has anything to prove."""
        if self.secret and len(agents) < 2:
            return
        setting = Setting(pytorch, launch, agents, self.secret)
        self.found.append((setting.title(function.__name__), lambda: function(self.results, setting, *more)))

    def of_torch(self, pytorch):
        static, c10d = (lambda: static_pair(support.free_port())), (lambda: c10d_pair(support.free_port()))
        self.add(torch_cases.process_groups, pytorch, "--standalone", [["--standalone"]], 4)
        self.add(torch_cases.process_groups, pytorch, "two agents, static", static(), 4)
        self.add(torch_cases.training, pytorch, "one node", [[]], 2)
        self.add(torch_cases.training, pytorch, "two agents, c10d", c10d(), 2)
        self.add(torch_cases.parameter_server, pytorch, "one node, c10d",
                 [["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "--nnodes=1"]], 3)
        self.add(torch_cases.recorded_error, pytorch, "one node", [[]])
        self.add(torch_cases.restart, pytorch, "one node", [[]], 2)
        self.add(torch_cases.restart, pytorch, "two agents, c10d", c10d(), 2)
        self.add(torch_cases.elastic, pytorch, "three agents, c10d", [[]] * 3)


    def of_torch_2(self, pytorch):
        pair = Setting(pytorch, "two agents, c10d", c10d_pair(support.free_port()), self.secret)
        self.add(torch_cases.sharding, pytorch, "one node", [[]], 4, pair, 2)
        self.add(store_cases.store_verbs, pytorch, "one node", [[]])


def read_words():
    parser = argparse.ArgumentParser(prog="scripts/interop.sh", description=__doc__)
    parser.add_argument("--all", action="store_true", help="also Accelerate, Lightning, Transformers and JAX, which pip installs")
    parser.add_argument("--secret", action="store_true", help="only the jobs of several agents, with DDPRUN_SECRET set")
    parser.add_argument("--only", metavar="TEXT", default="", help="only the jobs whose title has this text; see --list")
    parser.add_argument("--list", action="store_true", help="print the titles of the jobs and exit")
    parser.add_argument("--bin", metavar="DIR", default=os.path.join(ROOT, "build", "bin"), help="where ddprun is")
    return parser.parse_args()


def main():
    words = read_words()
    support.BIN, support.HANG_GUARD = os.path.abspath(words.bin), HANG_GUARD
    results = Results()
    jobs = Jobs(results, words.secret)
    made = environment.Environment(os.path.join(ROOT, "build", "interop"))
    current = PyTorch("current", os.path.dirname(made.python))
    jobs.of_torch(DEBIAN)
    for_current = len(jobs.found)
    jobs.of_torch(current)
    jobs.of_torch_2(current)
    chosen = [(title, run, number >= for_current) for number, (title, run) in enumerate(jobs.found) if words.only in title]
    if words.list:
        print("\n".join(title for title, _, _ in chosen))
        return 0
    missing = None
    if any(wants_current for _, _, wants_current in chosen):
        try:
            made.make()
            print(f"interop: current is PyTorch {made.version_of('torch')}", flush=True)
        except environment.Unavailable as error:
            missing = str(error)
    begin = time.monotonic()
    for title, run, wants_current in chosen:
        if wants_current and missing:
            results.skip(title, missing)
        else:
            run()
    print(f"interop: {time.monotonic() - begin:.0f} s for the jobs")
    return results.close()


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main())
