"""Jobs with a secret, whose workers reach the store through their own agents' doors."""

import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from node_network import NodeNetwork, isolate
from strangers_test import ADD, OTHER_USER, PORT, PYTHON, add
from support import EndToEndTest

support.HANG_GUARD = 120.0
USAGE = 2
SECRET = {"DDPRUN_SECRET": "a-secret-for-tests-0123456789"}
# Says where the store is and what it says there, and holds a connection to it.
WORKER = ["sh", "-c", f"""echo "at $MASTER_ADDR:$MASTER_PORT of $DDPRUN_MASTER_ADDR"
{PYTHON} -c "$ADD" "$MASTER_ADDR" "$MASTER_PORT" 1
exec {PYTHON} -c "$HOLD" "$MASTER_ADDR" "$MASTER_PORT" """]
HOLD = """
import socket, sys
store = socket.create_connection((sys.argv[1], int(sys.argv[2])))
store.sendall(b"\\x05" + (1).to_bytes(8, "little") + (5).to_bytes(8, "little") + b"never")
print("ready", flush=True)
print("hung up" if not store.recv(1) else "an answer", flush=True)
"""


class Door(EndToEndTest):
    ipv6 = False

    def setUp(self):
        super().setUp()
        self.network = self.enterContext(NodeNetwork(2, ipv6=self.ipv6))

    def start(self, number, *flags, worker=(), secret=None, workers=3):
        return self.launch("--nnodes=2", f"--node-rank={number}", f"--nproc-per-node={workers}",
                           f"--master-addr={self.network.address(0)}", f"--master-port={PORT}", "--grace=2", *flags,
                           *(worker or WORKER), prefix=self.network.prefix(number),
                           env={"ADD": ADD, "HOLD": HOLD, **(SECRET if secret is None else secret)})

    def both(self, *flags, **options):
        return [self.start(number, *flags, **options) for number in (0, 1)]

    def connections(self, node):
        """Of node 0's port, from other machines."""
        shown = subprocess.run([*self.network.prefix(node), "ss", "-tnH", "state", "established"], capture_output=True,
                               text=True, check=True).stdout
        here = f"[{self.network.address(0)}]:{PORT}" if self.ipv6 else f"{self.network.address(0)}:{PORT}"
        return [line for line in shown.splitlines() if here in line and "127.0.0.1" not in line]

    def end(self, agents):
        agents[0].send(15)
        self.assertEqual([agent.wait() for agent in agents], [143, 143], agents[0].err() + agents[1].err())

    def test_workers_come_to_the_store_by_their_agents(self):
        agents = self.both()
        for agent in agents:
            agent.wait_for_line(rf"^at 127\.0\.0\.1:\d+ of {self.network.address(0)}$")
            agent.wait_for_line("^ready$", count=3)
        seen = sorted(int(line.rsplit(" ", 1)[1]) for agent in agents for line in agent.out().splitlines() if "number is" in line)
        self.assertEqual(seen, [1, 2, 3, 4, 5, 6])
        # One for the agent, one for all of its workers; each has two ends.
        self.assertEqual(len(self.connections(1)), 2, self.connections(1))
        # The other node's workers have no other way, and other users not that one.
        self.assertEqual(add(self.network.address(0), PORT, 100, self.network.prefix(1)), "turned away")
        agents[0].wait_for_line("was turned away: workers on other machines come through their agents' doors")
        door = int(agents[1].out().split("127.0.0.1:")[1].split()[0])
        self.assertEqual(add("127.0.0.1", door, 1, self.network.prefix(1)), "number is 7")
        if os.geteuid() == 0:
            other = [*self.network.prefix(1), "setpriv", f"--reuid={OTHER_USER}", "--clear-groups"]
            self.assertEqual(add("127.0.0.1", door, 100, other), "turned away")
            agents[1].wait_for_line(f"user {OTHER_USER} of this machine was turned away")
        self.end(agents)

    def test_every_round_has_an_empty_store(self):
        worker = ["sh", "-c", f"""echo "round $TORCHELASTIC_RESTART_COUNT"; {PYTHON} -c "$ADD" "$MASTER_ADDR" "$MASTER_PORT" 1
            test "$TORCHELASTIC_RESTART_COUNT$RANK" != 01 || exit 3
            exec {PYTHON} -c "$HOLD" "$MASTER_ADDR" "$MASTER_PORT" """]
        agents = self.both("--max-restarts=1", worker=worker, workers=1)
        for agent in agents:
            agent.wait_for_line("^round 1$")
            agent.wait_for_line("^number is [12]$")
            agent.wait_for_line("^ready$")
        self.assertNotIn("number is 3", agents[0].out() + agents[1].out())
        self.end(agents)
        # That it is one, and what to give for another way, node 0 says once.
        said = [agent.err().count("--store door: MASTER_ADDR is each node's own loopback") for agent in agents]
        self.assertEqual(said, [1, 0], agents[0].err())

    def test_direct_is_as_without_a_secret(self):
        agents = [self.start(0, "--store=direct"), self.start(1)]
        for agent in agents:
            agent.wait_for_line("^ready$", count=3)
            self.assertEqual(agent.out().count(f"at {self.network.address(0)}:{PORT} of {self.network.address(0)}"), 3, agent.out())
            self.assertNotIn("door", agent.err())
        self.assertEqual(add(self.network.address(0), PORT, 1, self.network.prefix(1)), "number is 7")
        self.end(agents)
        plain = self.both(secret={})
        for agent in plain:
            agent.wait_for_line(rf"^at {self.network.address(0)}:{PORT} of", count=3)
        self.end(plain)

    def test_a_door_without_a_secret_is_a_mistake(self):
        agent = self.start(0, "--store=door", secret={"XDG_CONFIG_HOME": "/nonexistent"})
        self.assertEqual(agent.wait(), USAGE)
        self.assertEqual(agent.err().splitlines()[-1], "ddprun: --store door: agents need a secret for that (--make-secret)")


class DoorOfIpv6Only(Door):
    ipv6 = True


if __name__ == "__main__":
    isolate()
    support.main()
