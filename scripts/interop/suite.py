"""Called by interop.sh: real programs with PyTorch and the frameworks on it, under ddprun. One line for each case."""

import argparse
import os
import sys
import time

import environment
import framework_cases
import store_cases
import torch_cases
from jobs import ROOT, PyTorch, Setting, support
from results import Results

DEBIAN = PyTorch("1.13", "/usr/bin")
OLDER = "2.9.1"  # the oldest release that the backend is for, as its last patch is
MADE = os.path.join(ROOT, "build", "interop")
HANG_GUARD = 240.0  # seconds for one job; Python's imports are slow on a loaded machine


def static_pair():
    port = support.free_port()
    return [["--nnodes=2", f"--node_rank={rank}", "--master_addr=127.0.0.1", f"--master_port={port}"] for rank in (0, 1)]


def c10d_pair():
    return [["--nnodes=2", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{support.free_port()}", "--rdzv-id=pair"]] * 2


class Jobs:
    """The jobs in their order: title (for --only and --list), what of the environment it needs, function."""

    def __init__(self, secret):
        self.secret, self.found = secret, []

    def add(self, function, pytorch, launch, agents, *more, needs=None):
        """With a secret only jobs of several agents count: nobody else has anything to prove."""
        if self.secret and len(agents) < 2:
            return
        setting = Setting(pytorch, launch, agents, self.secret)
        self.found.append((setting.title(function.__name__), needs, lambda results: function(results, setting, *more)))

    def of_torch(self, pytorch, needs):
        self.add(torch_cases.process_groups, pytorch, "--standalone", [["--standalone"]], 4, needs=needs)
        self.add(torch_cases.process_groups, pytorch, "two agents, static", static_pair(), 4, needs=needs)
        self.add(torch_cases.training, pytorch, "one node", [[]], 2, needs=needs)
        self.add(torch_cases.training, pytorch, "two agents, c10d", c10d_pair(), 2, needs=needs)
        self.add(torch_cases.parameter_server, pytorch, "one node, c10d",
                 [["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "--nnodes=1"]], 3, needs=needs)
        self.add(torch_cases.parameter_server, pytorch, "two agents, static", static_pair(), 2, needs=needs)
        self.add(torch_cases.recorded_error, pytorch, "one node", [[]], needs=needs)
        self.add(torch_cases.restart, pytorch, "one node", [[]], 2, needs=needs)
        self.add(torch_cases.restart, pytorch, "two agents, c10d", c10d_pair(), 2, needs=needs)
        self.add(torch_cases.elastic, pytorch, "three agents, c10d", [[]] * 3, needs=needs)

    def of_current_alone(self, pytorch):
        pair = Setting(pytorch, "two agents, c10d", c10d_pair(), self.secret)
        self.add(torch_cases.sharding, pytorch, "one node", [[]], 4, pair, 2, needs="torch")
        self.add(torch_cases.sharding, pytorch, "two agents, static", static_pair(), 4, pair, 2, needs="torch")
        self.add(store_cases.store_verbs, pytorch, "one node", [[]], needs="torch")

    def of_the_backend(self, pytorch, older):
        self.add(torch_cases.backend_of_the_wheel, pytorch, "one node", [[]], older, needs="torch")
        folder = os.path.dirname(older.python)
        self.add(torch_cases.backend_of_an_older_torch, PyTorch(f"torch {OLDER}", folder), "one node", [[]], older, needs="torch")

    def of_frameworks(self, pytorch):
        for name, function in framework_cases.CASES.items():
            self.add(function, pytorch, "one node", [["--standalone"]], 2, needs=name)
            self.add(function, pytorch, "two agents, c10d", c10d_pair(), 2, needs=name)
        self.add(framework_cases.jax_by_hosts, pytorch, "two machines, --hosts", [[]] * 2, needs="jax")


def read_words():
    parser = argparse.ArgumentParser(prog="scripts/interop.sh", description=__doc__)
    parser.add_argument("--all", action="store_true", help="also the backend, Accelerate, Lightning, Transformers and JAX, which pip installs")
    parser.add_argument("--prepare", action="store_true", help="only make what pip installs for these jobs, and exit")
    parser.add_argument("--secret", action="store_true", help="only the jobs of several agents, with DDPRUN_SECRET set")
    parser.add_argument("--only", metavar="TEXT", default="", help="only the jobs whose title has this text; see --list")
    parser.add_argument("--list", action="store_true", help="print the titles of the jobs and exit")
    parser.add_argument("--bin", metavar="DIR", default=os.path.join(ROOT, "build", "bin"), help="where ddprun is")
    return parser.parse_args()


class Available:
    """What the environment has; made when the first job needs it, and asked for once."""

    def __init__(self, made):
        self.made, self.missing = made, {None: None}

    def reason_against(self, need):
        """Why a job that needs this cannot run, or None."""
        if need not in self.missing:
            self.missing[need] = self.reason_against("torch") if need != "torch" else None
            try:
                if need == "torch":
                    self.made.make()
                elif not self.missing[need]:
                    self.made.add(need)
            except environment.Unavailable as error:
                self.missing[need] = str(error)
            if not self.missing[need]:
                print(f"interop: {need} is {self.made.version_of(need)}", flush=True)
        return self.missing[need]


def run(job, title, results):
    try:
        job(results)
    except Exception as error:  # One job must not keep the others from running.
        results.note(title, f"the suite itself: {error!r}")


def prepare(available, older, needs, with_older):
    """The jobs find it all made; where one of them cannot have it, that job says so once more."""
    reasons = [reason for need in dict.fromkeys(needs) if (reason := available.reason_against(need))]
    if with_older:
        try:
            older.make()
        except environment.Unavailable as error:
            reasons.append(str(error))
    print(*reasons, sep="\n", end="")
    return 1 if reasons else 0


def main():
    words = read_words()
    support.BIN, support.HANG_GUARD = os.path.abspath(words.bin), HANG_GUARD
    results = Results()
    jobs = Jobs(words.secret)
    # The older one is where scripts/package.sh has it.
    made, older = environment.Environment(MADE), environment.Environment(os.path.join(ROOT, "build", "torch", OLDER), f"torch=={OLDER}")
    current = PyTorch("current", os.path.dirname(made.python))
    jobs.of_torch(DEBIAN, needs=None)
    jobs.of_torch(current, needs="torch")
    jobs.of_current_alone(current)
    if words.all:
        jobs.of_the_backend(current, older)
        jobs.of_frameworks(current)
    available = Available(made)
    if words.prepare:
        return prepare(available, older, [need for _, need, _ in jobs.found], words.all)
    begin = time.monotonic()
    for title, need, job in jobs.found:
        if words.only not in title:
            continue
        if words.list:
            print(title)
        elif reason := available.reason_against(need):
            results.skip(title, reason)
        else:
            run(job, title, results)
    if words.list:
        return 0
    print(f"interop: {time.monotonic() - begin:.0f} s")
    return results.close()


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main())
