"""Elastic jobs where the network is not what one hopes for: IPv6 only, an interface that leads nowhere, no names.

Each plays the same story: three nodes join, one is lost and comes back, the host is lost and comes back.
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
HEARTBEAT = 4 if os.environ.get("DDPRUN_SANITIZED") else 2
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


if __name__ == "__main__":
    isolate()
    support.main()
