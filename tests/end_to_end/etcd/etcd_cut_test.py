"""Nodes whose host is elected in etcd, on cables that are cut: off everything, or only off each other."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from etcd_test import PREFIX, Etcd, wait_for
from node_network import NodeNetwork, isolate
from support import EndToEndTest
from takeover_matrix_test import WORKER

support.HANG_GUARD = 120.0
PREEMPTED = 75
UNAVAILABLE = 69
HEARTBEAT = 4 if os.environ.get("DDPRUN_SANITIZED") else 3
NODES = 3
NOBODY = "02:00:00:00:00:fe"  # a hardware address


class EtcdCut(EndToEndTest):
    """etcd has a node of its own, behind the job's."""

    def setUp(self):
        super().setUp()
        self.network = NodeNetwork(NODES + 1)
        self.enterContext(self.network)
        # By which this test asks etcd.
        for words in ("link set lo up", "address add 10.78.0.254/24 dev bridge0"):
            subprocess.run(["ip", *words.split()], check=True)
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.lives = os.path.join(self.folder, "lives")
        os.mkdir(self.lives)
        self.etcd = Etcd(self.folder, self.network.address(NODES), self.network.prefix(NODES))
        self.addCleanup(self.etcd.stop)

    def begin(self, lost, *flags):
        """Node 0 hosts. The workers of that node take longer than they may to stop, the others none."""
        self.agents = []
        for node in range(NODES):
            self.agents.append(self.start(node, "deaf" if node == lost else "0", *flags))
            name = f"{PREFIX}/run_job/host"
            self.etcd.wait_for_keys(lambda keys: keys.get(name, {}).get("endpoint"))
        self.round_of(*range(NODES))
        self.assertEqual(self.record()["pid"], self.agents[0].pid)

    def start(self, node, manner, *flags):
        # A host that is cut off waits for the others, and for etcd, until its join timeout.
        return self.launch("-v", "--rdzv-backend=etcd", f"--rdzv-endpoint={self.etcd.endpoint}", "--rdzv-id=job",
                           f"--rdzv-conf=etcd_prefix={PREFIX},last_call_timeout=3600", "--nnodes", f"2:{NODES}", "--heartbeat",
                           HEARTBEAT, "--grace", 2, "--join-timeout", 30, *flags, "--log-dir", self.folder, sys.executable,
                           "-I", "-S", "-c", WORKER, self.lives, prefix=self.network.prefix(node),
                           env={"MATRIX_NODE": str(node), "MATRIX_MANNER": manner})

    def record(self):
        """Of the newest round."""
        name = f"{PREFIX}/run_job/round"
        return self.etcd.wait_for_keys(lambda keys: name in keys)[name]

    def workers(self):
        """What the job's workers have written: where they were, and from when to when they lived."""
        found = []
        for name in os.listdir(self.lives):
            if not name.endswith(".new"):
                with open(os.path.join(self.lives, name), encoding="ascii") as file:
                    text = file.read()
                found.append({**json.loads(text[20:]), "seen": float(text[:20])})
        return found

    def round_of(self, *nodes, after=-1):
        """Waits until workers have begun a round after that one, of just these nodes; returns its number."""
        def rounds():
            members = {}
            for one in self.workers():
                if one["group_world_size"] == len(nodes) and one["round"] > after:
                    members.setdefault(one["round"], set()).add(one["node"])
            return [number for number, where in members.items() if where == set(nodes)]
        return wait_for(rounds, bool)[0]

    def others_go_on(self, lost):
        """And what ran on that node has ended before. Returns the number of their round."""
        others = [node for node in range(NODES) if node != lost]
        following = self.round_of(*others, after=0)
        began = min(one["began"] for one in self.workers() if one["round"] == following)
        self.assertLess(max(one["seen"] for one in self.workers() if one["node"] == lost), began)
        return following

    def gives_up(self, lost):
        self.assertEqual(self.agents[lost].wait(), UNAVAILABLE, self.agents[lost].err())
        self.assertEqual({one["round"] for one in self.workers() if one["node"] == lost}, {0})

    def end(self):
        living = [agent for agent in self.agents if agent.process.poll() is None]
        for agent in living:
            agent.send(signal.SIGTERM)
        for agent in living:
            self.assertIn(agent.wait(), {PREEMPTED, 128 + signal.SIGTERM}, agent.err())

    def forget_each_other(self, one, other):
        """Neither can reach the other any more, and nothing tells them."""
        for here, there in ((one, other), (other, one)):
            subprocess.run([*self.network.prefix(here), "ip", "neighbour", "replace", self.network.address(there),
                            "lladdr", NOBODY, "nud", "permanent", "dev", "eth0"], check=True)

    def meet_again(self, one, other):
        for here, there in ((one, other), (other, one)):
            subprocess.run([*self.network.prefix(here), "ip", "neighbour", "delete", self.network.address(there),
                            "dev", "eth0"], check=True)

    def test_a_member_is_cut_off_from_all_and_from_etcd(self):
        self.begin(lost=1)
        self.network.cut(1)
        self.others_go_on(1)
        self.gives_up(1)
        self.assertEqual(self.agents[0].pid, self.record()["pid"])
        self.end()

    def test_the_host_is_cut_off_from_all_and_from_etcd(self):
        self.begin(lost=0)
        self.network.cut(0)
        self.others_go_on(0)
        self.gives_up(0)
        self.assertIn(self.record()["pid"], [agent.pid for agent in self.agents if agent.process.poll() is None])
        self.end()

    def test_a_member_is_cut_off_from_the_host_but_not_from_etcd_and_comes_back(self):
        self.begin(lost=1)
        self.forget_each_other(0, 1)
        following = self.others_go_on(1)
        self.meet_again(0, 1)
        self.round_of(*range(NODES), after=following)
        self.assertEqual(self.agents[0].pid, self.record()["pid"])
        self.end()

    def test_a_member_that_came_back_and_waits_finds_the_next_host(self):
        self.begin(1, "--resize", "failure")
        self.forget_each_other(0, 1)
        following = self.others_go_on(1)
        self.meet_again(0, 1)
        self.agents[1].wait_for_line("^ddprun: the job has its 2 nodes; this one waits for a place$")
        self.agents[0].send(signal.SIGKILL)
        self.round_of(1, 2, after=following)
        self.agents[0].wait()
        self.end()


if __name__ == "__main__":
    if shutil.which("etcd") is None:
        print("skipped: there is no etcd (Debian's etcd-server)")
        sys.exit(77)
    isolate()
    support.main()
