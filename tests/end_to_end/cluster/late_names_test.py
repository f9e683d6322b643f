"""Names that the resolver does not know at first, as those of pods: they are waited for, on every side."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from node_network import NodeNetwork, isolate
from support import EndToEndTest, worker

support.HANG_GUARD = 120.0
UNAVAILABLE = 69


class LateNames(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.network = self.enterContext(NodeNetwork(2, hosts=()))

    def agent(self, node, *flags, nnodes=2):
        return self.launch("--nnodes", nnodes, *flags, *worker("print-env"), prefix=self.network.prefix(node))

    def master_addresses(self, agents):
        found = []
        for agent in agents:
            self.assertEqual(agent.wait(), 0, agent.err())
            found += [line.partition("=")[2] for line in agent.out().splitlines() if line.startswith("MASTER_ADDR=")]
        return found

    def await_trouble(self, agent):
        agent.wait_for_line(r"^ddprun: waiting for node 0: cannot resolve head: .*; \d+ s of at most 15 min \(--join-timeout\)$")

    def test_the_name_of_node_0_is_waited_for(self):
        guest = self.agent(1, "--master-addr=head", "--node-rank=1")
        self.await_trouble(guest)
        self.network.learn("10.78.0.1 head")
        host = self.agent(0, "--master-addr=head", "--node-rank=0")
        self.assertEqual(self.master_addresses([host, guest]), ["head", "head"])

    def test_node_0_need_not_know_its_own_name_and_its_workers_get_an_address(self):
        host = self.agent(0, "--master-addr=head", "--node-rank=0")
        guest = self.agent(1, "--master-addr=10.78.0.1", "--node-rank=1")
        self.assertEqual(self.master_addresses([host, guest]), ["10.78.0.1", "10.78.0.1"])
        self.assertRegex(host.err(), r"ddprun: head cannot be resolved on this node: .*; its workers get 10.78.0.1 in its place")

    def test_node_0_that_learns_its_name_meanwhile_gives_that(self):
        host = self.agent(0, "--verbose", "--master-addr=head", "--node-rank=0")
        host.wait_for_line("^ddprun: joined 1/2, ")
        self.network.learn("10.78.0.1 head")
        host.wait_for_line("^ddprun: head can be resolved on this node now$")
        guest = self.agent(1, "--master-addr=head", "--node-rank=1")
        self.assertEqual(self.master_addresses([host, guest]), ["head", "head"])
        self.assertNotIn("cannot be resolved", host.err())

    def test_who_hosts_is_known_when_the_name_is(self):
        for flags in ((), ("--rdzv-id=job",)):
            endpoint = "head" + ("" if flags else ":29400")
            agents = [self.agent(node, "--rdzv-backend=c10d", "--rdzv-endpoint", endpoint, *flags, nnodes=3)
                      for node in (1, 0, 0)]
            for agent in agents:
                agent.wait_for_line("^ddprun: waiting for node 0: cannot resolve head: ")
            self.network.learn("10.78.0.1 head")
            self.assertEqual(self.master_addresses(agents), ["head"] * 3)
            ranks = ["GROUP_RANK=0\n" in agent.out() for agent in agents]
            self.assertEqual((ranks[0], sum(ranks)), (False, 1))
            self.network.forget()

    def test_a_name_that_nobody_learns_is_not_waited_for_beyond_the_join_timeout(self):
        for flags in (("--master-addr=head", "--node-rank=1"), ("--rdzv-backend=c10d", "--rdzv-endpoint=head:29400")):
            lonely = self.agent(0, *flags, "--join-timeout=4", "--heartbeat=2")
            self.assertEqual(lonely.wait(), UNAVAILABLE)
            self.assertRegex(lonely.err(), r"node 0 was not reached within 4 s: cannot resolve head: .*; --join-timeout SECONDS")


if __name__ == "__main__":
    isolate()
    support.main()
