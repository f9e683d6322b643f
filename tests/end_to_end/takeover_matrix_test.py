"""A node of a running job is signalled, killed, stopped or cut off, that of the coordinator or another; and returns or not.

Each repeat is one seed. Five seeds in a row have each of the actions, twenty have each on either node with and without
return; the rest is random. Five repeats from a random seed, unless DDPRUN_MATRIX_REPEATS=100 DDPRUN_MATRIX_SEED=7 say
something else. A seed that failed: DDPRUN_MATRIX_REPEATS=1 DDPRUN_MATRIX_SEED=<that>.
"""

import dataclasses
import json
import os
import random
import signal
import sys
import tempfile
import time

import support
from node_network import NodeNetwork, isolate
from support import EndToEndTest, processes_of_job

support.HANG_GUARD = 120.0
PREEMPTED = 75
UNAVAILABLE = 69
KILLED = -signal.SIGKILL
# An agent that ends because the others may go on without it.
LEFT_ALONE = r"it stood still for about \d+ s|the others may go on without them.* \(--failover\)"
ACTIONS = ("SIGTERM", "SIGINT", "SIGKILL", "SIGSTOP", "cut")

# It writes down where it is and how long it lives, by the clock that all nodes share; how it takes a signal to stop is
# its node's manner.
SANITIZED = bool(os.environ.get("DDPRUN_SANITIZED"))
HEARTBEAT = 4 if SANITIZED else 1  # seconds; who is stopped or cut off is so for longer than that in any case

WORKER = '''
import json, os, re, signal, sys, time

def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)

signalled = []
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda *_: signalled.append(now()))
manner = os.environ["MATRIX_MANNER"]
with open("/proc/self/stat") as stat:
    began = int(stat.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
path = os.path.join(sys.argv[1], str(os.getpid()))
env = os.environ
place = {"began": began, "node": int(env["MATRIX_NODE"]), "job": env["DDPRUN_RUN_ID"],
         "round": int(re.search("/attempt_([0-9]+)/", env["TORCHELASTIC_ERROR_FILE"])[1]),
         "master": env["MASTER_ADDR"] + ":" + env["MASTER_PORT"],
         **{name.lower(): int(env[name]) for name in ("RANK", "WORLD_SIZE", "GROUP_WORLD_SIZE")}}
file = os.open(path + ".new", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
os.write(file, b"%020.6f" % now() + json.dumps(place).encode())
os.rename(path + ".new", path)
while not signalled or manner == "deaf" or now() - signalled[0] < float(manner):
    os.pwrite(file, b"%020.6f" % now(), 0)
    # Signs of life at all times are its work: there is no event to wait for.
    time.sleep(0.02)
os._exit(0)  # Python would first give up its handlers, and another SIGTERM comes at half the grace.
'''


@dataclasses.dataclass
class Scenario:
    """One repeat, and what is to come of it."""

    seed: int

    def __post_init__(self):
        dice = random.Random(self.seed)
        self.action = ACTIONS[self.seed % 5]
        self.at_host, self.returns = self.seed % 2 == 0, self.seed % 4 >= 2
        self.nodes = dice.choice([2, 3, 3, 4])
        self.least = dice.choice([1, 2])
        self.chosen = 0 if self.at_host else dice.randrange(1, self.nodes)
        self.order = dice.sample(range(self.nodes), self.nodes)
        self.workers = [dice.choice([1, 1, 2]) for _ in range(self.nodes)]
        self.manners = [dice.choice(["0", "0", f"{dice.uniform(1, 2):.2f}", "deaf"]) for _ in range(self.nodes)]
        self.returns_at_once = dice.random() < 0.5
        # In seconds. A round that has just begun is another case than one of which the coordinator has asked how it is.
        self.age = dice.choice([0.0, dice.uniform(0, 2)])
        self.pause = dice.choice([10.0, 14.0])  # in the latter the others' next round begins

    def __str__(self):
        lasts = f" for {self.pause:.0f} s" if self.is_cut_off() else ""
        return (f"seed {self.seed}: {self.action}{lasts} at node {self.chosen} of {self.nodes}, --nnodes {self.least}:4, "
                f"after {self.age:.1f} s, {self.how_it_returns()}, started {self.order}, workers {self.workers}, "
                f"on SIGTERM {self.manners}")

    def how_it_returns(self):
        when = "at once" if self.returns_at_once else "when the others are settled"
        return f"returns {when}" if self.returns else "does not return"

    def is_cut_off(self):
        return self.action in ("SIGSTOP", "cut")

    def lost(self):
        """Of an even split the half goes on that has the coordinator."""
        return 1 if self.is_cut_off() and self.at_host and self.nodes == 2 else self.chosen

    def rest(self):
        return [node for node in range(self.nodes) if node != self.lost()]

    def rest_goes_on(self):
        return len(self.rest()) >= self.least

    def ends_the_job(self):
        return self.action in ("SIGTERM", "SIGINT") and not self.rest_goes_on()

    def codes(self, number):
        """Of agents that were told to stop by this signal."""
        return {PREEMPTED, 128 + number} if "deaf" in self.manners else {PREEMPTED}

    def lost_codes(self):
        if self.is_cut_off():
            return {UNAVAILABLE}
        return {KILLED} if self.action == "SIGKILL" else self.codes(signal.Signals[self.action])


class TakeoverMatrix(EndToEndTest):
    def play(self, seed):
        self.scenario = Scenario(seed)
        print(self.scenario, flush=True)
        self.agents = {}
        with NodeNetwork(self.scenario.nodes) as self.network, tempfile.TemporaryDirectory() as self.folder:
            self.worker = os.path.join(self.folder, "worker.py")
            self.records = os.path.join(self.folder, "records")
            os.mkdir(self.records)
            with open(self.worker, "w", encoding="ascii") as script:
                script.write(WORKER)
            try:
                self.go_through()
                self.check_rounds()
            except AssertionError as failure:
                raise AssertionError(f"{failure}\n{self.scenario}\n{self.all_said()}") from failure

    def go_through(self):
        scenario, everybody = self.scenario, list(range(self.scenario.nodes))
        for node in scenario.order:
            self.start(node)
        last = self.wait_for_round(everybody, -1)
        self.act()
        if scenario.ends_the_job():
            for node in everybody:
                self.assertIn(self.agents[node].wait(), scenario.lost_codes(), f"node {node}'s agent")
            return self.conclude(last)
        if scenario.returns and scenario.returns_at_once:
            self.come_back()
            last = self.wait_for_round(everybody, last)
            return self.conclude(last)
        if scenario.rest_goes_on():
            last = self.wait_for_round(scenario.rest(), last)
        self.see_end_of_lost()
        if not scenario.rest_goes_on():
            self.agents[scenario.rest()[0]].wait_for_line(rf"joined 1, the job needs {scenario.least} to 4 nodes")
        if scenario.returns:
            self.come_back()
            last = self.wait_for_round(everybody, last)
        return self.conclude(last)

    def start(self, node):
        self.agents[node] = self.launch(
            "--nnodes", f"{self.scenario.least}:4", "--nproc-per-node", self.scenario.workers[node],
            "--rdzv-backend=c10d", f"--rdzv-endpoint={self.network.address(0)}:29400", "--rdzv-id=job", "--last-call", 3,
            "--heartbeat", HEARTBEAT, "--grace", 3, "--join-timeout", 60, "--verbose", "--log-dir", self.folder,
            sys.executable, "-I", "-S", self.worker, self.records, prefix=self.network.prefix(node),
            env={"MATRIX_NODE": str(node), "MATRIX_MANNER": self.scenario.manners[node]})

    def act(self):
        agent, action, node = self.agents[self.scenario.chosen], self.scenario.action, self.scenario.chosen
        # How old the round is and how long the action lasts is what is tested; there is no event to wait for.
        time.sleep(self.scenario.age)
        if action != "cut":
            agent.send(signal.Signals[action])
        else:
            self.network.cut(node)
        if self.scenario.is_cut_off():
            time.sleep(self.scenario.pause)
            agent.send(signal.SIGCONT) if action == "SIGSTOP" else self.network.heal(node)

    def see_end_of_lost(self):
        node = self.scenario.lost()
        self.assertIn(self.agents[node].wait(), self.scenario.lost_codes(), f"node {node}'s agent, which was lost")
        if self.scenario.is_cut_off():
            self.assertRegex(self.agents[node].err(), LEFT_ALONE)

    def come_back(self):
        self.see_end_of_lost()
        self.start(self.scenario.lost())

    def conclude(self, last):
        """The user ends what there is; there was no round that nothing called for."""
        living = {node: agent for node, agent in self.agents.items() if agent.process.poll() is None}
        runs = self.scenario.rest_goes_on() or self.scenario.returns
        for agent in living.values():
            agent.send(signal.SIGTERM)
        for node, agent in living.items():
            codes = self.scenario.codes(signal.SIGTERM) if runs else {128 + signal.SIGTERM, UNAVAILABLE}
            self.assertIn(agent.wait(), codes, f"node {node}'s agent, at the end")
        self.assertEqual(max(record["round"] for record in self.read_records()), last, "the last round")
        self.wait_for("end of all processes", lambda: not processes_of_job(self.marker))

    def wait_for(self, what, condition, living=()):
        deadline = time.monotonic() + support.HANG_GUARD
        while not (found := condition()):
            ended = [node for node in living if self.agents[node].process.poll() is not None]
            self.assertEqual(ended, [], f"these agents have ended, no {what}")
            self.assertLess(time.monotonic(), deadline, f"no {what}")
            # What other processes write to files, and their ends, are no events for us.
            time.sleep(0.05)
        return found

    def wait_for_round(self, nodes, after):
        """Waits for a round after that one in which all workers of just these nodes are; returns its number."""
        def complete():
            for number, records in self.rounds().items():
                whole = len(records) == records[0]["world_size"] and records[0]["group_world_size"] == len(nodes)
                if number > after and whole and {record["node"] for record in records} == set(nodes):
                    return [number]
            return None
        return self.wait_for(f"round after {after} with nodes {nodes}", complete, nodes)[0]

    def read_records(self):
        for name in os.listdir(self.records):
            if name.isdigit():
                with open(os.path.join(self.records, name), encoding="ascii") as file:
                    text = file.read()
                yield {"alive": float(text[:20]), **json.loads(text[20:])}

    def rounds(self):
        found = {}
        for record in self.read_records():
            found.setdefault(record["round"], []).append(record)
        return dict(sorted(found.items()))

    def check_rounds(self):
        tick = 1 / os.sysconf("SC_CLK_TCK")
        before, life = None, 0.0
        for number, records in self.rounds().items():
            begin = min(record["began"] for record in records) + tick
            self.assertGreater(begin, life, f"round {number} began while workers of round {before} lived")
            before, life = number, max(record["alive"] for record in records)
            for name in ("job", "world_size", "group_world_size", "master"):
                self.assertEqual(len({record[name] for record in records}), 1, f"{name} of round {number}: {records}")
            ranks = [record["rank"] for record in records]
            # Not all workers may have come so far as to say where they are.
            self.assertEqual(len(set(ranks)), len(ranks), f"ranks of round {number}: {records}")
            self.assertLess(max(ranks), records[0]["world_size"], f"ranks of round {number}: {records}")
        self.assertEqual(len({record["job"] for record in self.read_records()}), 1, "jobs")

    def all_said(self):
        said = [f"round {number}: {records}" for number, records in self.rounds().items()]
        for launcher in self.launchers:
            node = launcher.process.args[2]
            said += [f"--- agent in the namespaces of {node}, pid {launcher.pid}, code {launcher.process.poll()}:",
                     launcher.out(), launcher.err()]
        return "\n".join(said)


def add_repeats():
    first = int(os.environ.get("DDPRUN_MATRIX_SEED") or random.SystemRandom().randrange(1_000_000))
    repeats = int(os.environ.get("DDPRUN_MATRIX_REPEATS") or (2 if SANITIZED else 5))
    print(f"{repeats} repeats; again: DDPRUN_MATRIX_REPEATS={repeats} DDPRUN_MATRIX_SEED={first}", flush=True)
    for seed in range(first, first + repeats):
        setattr(TakeoverMatrix, f"test_seed_{seed:06}", lambda self, seed=seed: self.play(seed))


if __name__ == "__main__":
    isolate()
    add_repeats()
    support.main()
