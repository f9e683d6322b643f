"""A node whose network is cut costs the others what they can be sure of, and no more: the limit of silence and --lost-grace.

The nodes are network namespaces. With the defaults the next round's workers are to run 12 s after the cut at the latest; how long
it took is printed. The lost node's workers ignore SIGTERM, and none of them lives when the next round begins.
"""

import os
import re
import signal
import sys
import tempfile
import time

import support
from node_network import NodeNetwork, isolate
from support import EndToEndTest, processes_of_job

support.HANG_GUARD = 120.0
UNAVAILABLE = 69
WITHIN = 12.0  # seconds

# It is deaf to SIGTERM where it is told to, and writes down when it began and was last alive, by the clock of all nodes.
WORKER = '''
import os, signal, sys, time

def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)

began = now()
if os.environ["NODE"] in sys.argv[2:]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
path = os.path.join(sys.argv[1], "%s-%s" % (os.environ["GROUP_WORLD_SIZE"], os.environ["NODE"]))
while True:
    with open(path + ".new", "w") as file:
        file.write("%f %f" % (began, now()))
    os.rename(path + ".new", path)
    # Signs of life at all times are its work: there is no event to wait for.
    time.sleep(0.02)
'''


class LostNode(EndToEndTest):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.worker = os.path.join(self.folder, "worker.py")
        with open(self.worker, "w", encoding="ascii") as script:
            script.write(WORKER)

    def begin(self, network, nodes, *words, deaf=()):
        return [self.launch("--nnodes", f"1:{nodes}", "--nproc-per-node=1", "--rdzv-backend=c10d", "--rdzv-id=job",
                            f"--rdzv-endpoint={network.address(0)}:29400", "--last-call", 3600, "--verbose", *words,
                            sys.executable, "-I", "-S", self.worker, self.folder, *map(str, deaf),
                            prefix=network.prefix(node), env={"NODE": str(node)}) for node in range(nodes)]

    def wait_for(self, what, condition):
        deadline = time.monotonic() + support.HANG_GUARD
        while not condition():
            self.assertLess(time.monotonic(), deadline, f"no {what}:\n" + "\n".join(job.err() for job in self.launchers))
            # What other processes write to files is no event for us.
            time.sleep(0.02)

    def times(self, size, node):
        """When that node's worker in the round of so many nodes began and was last alive; nothing if there is none."""
        try:
            with open(os.path.join(self.folder, f"{size}-{node}"), encoding="ascii") as file:
                return tuple(map(float, file.read().split()))
        except FileNotFoundError:
            return None

    def cut_and_time(self, nodes, lost, *words, deaf=()):
        """Seconds from the cut to the first worker of the next round, and from the end of the lost node's worker to that."""
        rest = [node for node in range(nodes) if node != lost]
        with NodeNetwork(nodes) as network:
            agents = self.begin(network, nodes, *words, deaf=deaf)
            self.wait_for("first round", lambda: all(self.times(nodes, node) for node in range(nodes)))
            # Until its agent has said that its workers run, a node has more time than the limit; no event shows that it has.
            time.sleep(3)
            cut = time.clock_gettime(time.CLOCK_BOOTTIME)
            network.cut(lost)
            self.wait_for("next round", lambda: all(self.times(nodes - 1, node) for node in rest))
            self.assertEqual(agents[lost].wait(), UNAVAILABLE, agents[lost].err())
            began = min(self.times(nodes - 1, node)[0] for node in rest)
            ended = self.times(nodes, lost)[1]
            self.assertGreater(began, ended, "the next round began while the lost node's worker lived")
            self.wait_for("only one round", lambda: len(set(re.findall(r"round (\d+) of job", agents[rest[0]].err()))) == 2)
            for node in rest:
                agents[node].send(signal.SIGKILL)
            self.wait_for("end of all processes", lambda: not processes_of_job(self.marker))
        print(f"{nodes} nodes, node {lost} cut off: the next round's workers ran {began - cut:.1f} s after the cut "
              f"({WITHIN:.0f} s are promised), {began - ended:.1f} s after the lost node's last", flush=True)
        return began - cut

    def test_the_others_wait_for_the_limit_and_the_lost_grace(self):
        self.cut_and_time(3, 2, deaf=(2,))

    def test_a_shorter_grace_is_the_lost_grace_too(self):
        """And a longer --lost-grace is waited for: both are what the lost node says."""
        short = self.cut_and_time(2, 1, "--heartbeat", 2, "--grace", 1, deaf=(1,))
        self.assertLess(short, support.HANG_GUARD)

    def test_the_coordinators_node_is_lost(self):
        self.cut_and_time(3, 0, "--heartbeat", 2, "--lost-grace", 2, deaf=(0,))


if __name__ == "__main__":
    isolate()
    support.main()
