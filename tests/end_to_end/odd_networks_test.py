"""Elastic jobs where the network is not what one hopes for: IPv6 only, an interface that leads nowhere, no names.

Each plays the same story: three nodes join, one is lost and comes back, the host is lost and comes back. And machines with
names of their own, which find themselves in the list of a Slurm allocation.
"""

import os
import re
import signal

import support
from node_network import NodeNetwork, isolate
from support import EndToEndTest, worker

support.HANG_GUARD = 120.0
PREEMPTED = 75
UNAVAILABLE = 69
# Longer where everything is slow.
HEARTBEAT = 4 if os.environ.get("DDPRUN_SANITIZED") else 3
NODES = 3


class OddNetworks(EndToEndTest):
    def start(self, number):
        self.agents[number] = self.launch(
            "--rdzv-backend=c10d", f"--rdzv-endpoint={self.endpoint}", "--rdzv-id=job", "--nnodes", f"2:{NODES}",
            "--last-call", 0 if len(self.agents) == NODES else 3600, "--heartbeat", HEARTBEAT, "--grace", 2, "--join-timeout",
            60, *worker("print-env", "print-place", "exit-zero-on-term"), prefix=self.network.prefix(number))

    def round_of(self, *numbers):
        """Waits until the workers of a round of just these nodes run; returns what each says of the host's address."""
        for number in numbers:
            self.agents[number].wait_for_line(rf"^place \d of {len(numbers)} nodes, rank \d of {len(numbers)}$")
            self.agents[number].wait_for_line("^ready$")
        return {re.findall("^MASTER_ADDR=(.*)$", self.agents[number].out(), re.MULTILINE)[-1] for number in numbers}

    def kill(self, number):
        self.agents[number].send(signal.SIGKILL)
        self.agents[number].wait()

    def cut_off(self, number, *others):
        """The node's cable is dead for so long that the others go on without it."""
        self.network.cut(number)
        found = self.round_of(*others)
        self.network.heal(number)
        self.assertEqual(self.agents[number].wait(), UNAVAILABLE)
        return found

    def end(self):
        for agent in self.agents.values():
            agent.send(signal.SIGTERM)
        for number, agent in self.agents.items():
            self.assertEqual(agent.wait(), PREEMPTED, f"node {number}: {agent.err()}")

    def play(self, endpoint, **oddities):
        self.endpoint, self.agents = endpoint, {}
        host = endpoint.strip("[]")
        with NodeNetwork(NODES, **oddities) as self.network:
            try:
                for number in range(NODES):
                    self.start(number)
                self.assertEqual(self.round_of(0, 1, 2), {host})
                self.kill(2)
                self.assertEqual(self.round_of(0, 1), {host})
                self.start(2)
                self.assertEqual(self.round_of(0, 1, 2), {host})
                self.kill(0)
                self.assertEqual(self.round_of(1, 2), {self.network.address(1)})
                self.start(0)
                self.assertEqual(self.round_of(0, 1, 2), {self.network.address(1)})
                self.assertEqual(self.cut_off(1, 0, 2), {self.network.address(0)})
                self.start(1)
                self.assertEqual(self.round_of(0, 1, 2), {self.network.address(0)})
                self.end()
            except AssertionError as failure:
                said = "\n".join(f"--- node {number}\n{agent.err()}" for number, agent in self.agents.items())
                raise AssertionError(f"{failure}\n{said}") from failure

    def test_ipv6_only(self):
        self.play("[fd78::1]", ipv6=True)

    def test_ipv6_only_by_name(self):
        self.play("node0", ipv6=True)

    def test_an_interface_that_leads_nowhere(self):
        self.play("10.78.0.1", dead_end=True)

    def test_a_name_whose_first_address_leads_nowhere(self):
        self.play("node0", dead_end=True)

    def test_no_names(self):
        self.play("10.78.0.1", named=False)


class HostNames(EndToEndTest):
    def numbers(self, hosts):
        """Of node0, node1 and node2; node1 hosts."""
        with NodeNetwork(NODES) as network:
            agents = [self.launch("--rdzv-backend=c10d", "--rdzv-endpoint=node1:29400", "--nnodes", NODES, *worker("print-env"),
                                  prefix=network.prefix(number), env={"SLURM_JOB_NODELIST": hosts}) for number in range(NODES)]
            for agent in agents:
                self.assertEqual(agent.wait(), 0, agent.err())
        ranks = [line for agent in agents for line in agent.out().splitlines() if line.startswith("GROUP_RANK=")]
        return [int(line.partition("=")[2]) for line in ranks], "\n".join(agent.err() for agent in agents)

    def test_the_order_of_the_list_counts_and_not_that_of_names(self):
        for hosts in ("node2,node[0-1]", "node2.example,node1.example,node0.example", "spare,node[2,1,0]"):
            numbers, said = self.numbers(hosts)
            self.assertEqual(numbers, [2, 0, 1], hosts)
            self.assertNotIn("NODELIST", said)

    def test_without_a_list_or_in_none_the_names_count(self):
        for hosts, lines in (("", 0), ("other[0-2]", 0), ("node[2,1,0", NODES), ("node[0-65536]", NODES)):
            numbers, said = self.numbers(hosts)
            self.assertEqual(numbers, [1, 0, 2], hosts)
            self.assertEqual(said.count("; passed over, and nodes are numbered by their host names"), lines)


if __name__ == "__main__":
    isolate()
    support.main()
