"""Which address and interface the workers of several nodes get, and what is said of it, on nodes that are nobody's ideal.

Each has a docker0 with the address that all nodes have, and an interface with a name that no other node has.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [HERE, os.path.join(HERE, "etcd")]

import support
from etcd_test import Etcd
from node_network import NodeNetwork, isolate
from support import EndToEndTest, worker

support.HANG_GUARD = 120.0
USAGE = 2
NAMES = ("eth0", "enp3s0f1", "ens5")  # of the interfaces between the nodes
VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
# Passes on what comes to 10.78.0.3:29500 to node 0, which so sees that address.
RELAY = """
import asyncio
async def copy(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
    writer.close()
async def pass_on(reader, writer):
    there = await asyncio.open_connection("10.78.0.1", 29500)
    await asyncio.gather(copy(reader, there[1]), copy(there[0], writer), return_exceptions=True)
async def serve():
    async with await asyncio.start_server(pass_on, "10.78.0.3", 29500) as server:
        print("relays", flush=True)
        await server.serve_forever()
asyncio.run(serve())
"""


def ip(network, node, *lines):
    for line in lines:
        done = network.run(node, ["ip", *line.split()], stdout=-1, stderr=-1, text=True)
        _, wrong = done.communicate()
        if done.returncode != 0:
            raise AssertionError(f"ip {line}: {wrong}")


class Addresses(EndToEndTest):
    def make_network(self, nodes=2, **oddities):
        self.network = NodeNetwork(nodes, **oddities)
        self.enterContext(self.network)
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        for node in range(nodes):
            ip(self.network, node, "link add docker0 type bridge", "address add 172.17.0.1/16 dev docker0",
               "link set docker0 up")
            if not {"ipv6", "dead_end"} & set(oddities):  # An interface loses its IPv6 addresses when it goes down.
                ip(self.network, node, "link set eth0 down", f"link set eth0 name {NAMES[node]}", f"link set {NAMES[node]} up")

    def agents(self, *flags, nodes=2, own=(), env=(), **more):
        """One on each node, with flags and variables of its own."""
        return [self.launch("--nnodes", nodes, *flags, *(own[node] if own else ()), *worker("print-env"),
                            prefix=self.network.prefix(node), env=env[node] if env else None, **more) for node in range(nodes)]

    def ended(self, agents):
        for agent in agents:
            self.assertEqual(agent.wait(), 0, agent.err())
        return agents

    def variables(self, agent, names=VARIABLES):
        return [dict(line.split("=", 1) for line in agent.out().splitlines() if "=" in line).get(name) for name in names]

    def assert_names(self, agent, interface, why):
        self.assertEqual(self.variables(agent), [interface, "=" + interface, interface])
        self.assertEqual(re.findall(r"^ddprun: .*SOCKET_IFNAME.*$", agent.err(), re.MULTILINE),
                         [f"ddprun: {', '.join(VARIABLES)}={interface}, which {why}"])

    STATIC = ("--master-addr=10.78.0.1",)
    NUMBERS = (("--node-rank=0",), ("--node-rank=1",))

    def test_each_node_names_its_own_interface_for_every_rendezvous(self):
        # As a stock Debian has it.
        self.make_network(hosts=("127.0.1.1 node0 node1",))
        c10d = ("--rdzv-backend=c10d", "--rdzv-endpoint=10.78.0.1:29400")
        for flags, own in ((self.STATIC, self.NUMBERS), (c10d, ())):
            agents = self.ended(self.agents(*flags, own=own))
            self.assert_names(agents[0], "eth0", "has 10.78.0.1, by which other nodes reach this one")
            self.assert_names(agents[1], "enp3s0f1", "carries the way to 10.78.0.1")
            for agent, address in zip(agents, ("10.78.0.1", "10.78.0.2")):
                self.assertEqual(self.variables(agent, ["DDPRUN_NODE_ADDR"]), [address])
                self.assertNotIn("translated", agent.err())

    def test_with_etcd_too(self):
        if not shutil.which("etcd"):
            self.skipTest("there is no etcd (Debian package etcd-server)")
        self.make_network(3)
        subprocess.run(["ip", "address", "add", "10.78.0.254/24", "dev", "bridge0"], check=True)
        folder = self.enterContext(tempfile.TemporaryDirectory())
        etcd = Etcd(folder, self.network.address(2), self.network.prefix(2))
        self.addCleanup(etcd.stop)
        agents = self.ended(self.agents("--rdzv-backend=etcd", f"--rdzv-endpoint={etcd.endpoint}", "--rdzv-id=job"))
        for agent, interface in zip(agents, NAMES):
            self.assertEqual(self.variables(agent), [interface, "=" + interface, interface])
            self.assertEqual(agent.err().count(f"SOCKET_IFNAME={interface}, which "), 1)

    def test_over_ipv6_alone(self):
        self.make_network(ipv6=True)
        agents = self.ended(self.agents("--master-addr=fd78::1", own=self.NUMBERS))
        self.assert_names(agents[0], "eth0", "has fd78::1, by which other nodes reach this one")
        self.assert_names(agents[1], "eth0", "carries the way to fd78::1")

    def test_what_the_user_has_set_stays(self):
        self.make_network()
        said = {name: "eno7" for name in VARIABLES}
        agents = self.ended(self.agents(*self.STATIC, own=self.NUMBERS, env=({}, said)))
        self.assertEqual(self.variables(agents[1]), ["eno7", "eno7", "eno7"])
        self.assertNotIn("SOCKET_IFNAME", agents[1].err())

    def test_on_a_shared_screen_one_line_says_all(self):
        self.make_network()
        steps = [{"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NUM_TASKS": "2",
                  "SLURM_STEP_TASKS_PER_NODE": "1(x2)", "SLURM_STEP_NODELIST": "node0,node1", "SLURM_NODEID": str(number),
                  "SLURM_PROCID": str(number), "SLURM_LOCALID": "0"} for number in range(2)]
        first, second = self.ended([self.launch("--nproc-per-node=1", *worker("print-env"), prefix=self.network.prefix(node),
                                                env=step) for node, step in enumerate(steps)])
        self.assertRegex(first.err(), r"\Addprun: 2 nodes by SLURM_STEP_NUM_NODES, this is node 0 by SLURM_NODEID, they meet at "
                                      r"[^\n;]*; no secret \(ddprun --make-secret makes one\)\Z")
        self.assertEqual(second.err(), "")
        self.assertEqual(self.variables(first), ["eth0", "=eth0", "eth0"])
        self.assertEqual(self.variables(second), ["enp3s0f1", "=enp3s0f1", "enp3s0f1"])

    def test_net_and_local_addr_decide_the_interface(self):
        self.make_network(dead_end=True)
        for flag in ("--net=10.99.0.0/16,10.79.0.0/24", "--local-addr=10.79.0."):
            own = [(number[0], flag + str(node + 1) if flag.endswith(".") else flag) for node, number in enumerate(self.NUMBERS)]
            agents = self.ended(self.agents(*self.STATIC, own=own))
            for node, agent in enumerate(agents):
                self.assert_names(agent, "eth1", f"has 10.79.0.{node + 1}, by {own[node][1].replace('=', ' ')}")
                self.assertEqual(self.variables(agent, ["DDPRUN_NODE_ADDR"]), [f"10.79.0.{node + 1}"])
                self.assertNotIn("nodes differ", agent.err())
        code, out, err = self.run_job("--nnodes=2", *self.STATIC, "--net=10.79.0.0/24", "--explain", "true",
                                      prefix=self.network.prefix(0))
        self.assertEqual(code, 0, err)
        for line in ("  own address: 10.79.0.1 (eth1) (--net)", "  GLOO_SOCKET_IFNAME=eth1", "  DDPRUN_NODE_ADDR=10.79.0.1"):
            self.assertIn(line, out.splitlines())

    def test_a_network_of_no_interface_is_refused(self):
        self.make_network()
        for flags, said in ((("--net=10.99.0.0/16",), ""), ((), "10.99.0.0/16")):
            code, _, err = self.run_job("--nnodes=2", *self.STATIC, *flags, "true", prefix=self.network.prefix(0),
                                        env={"DDPRUN_NET": said})
            self.assertEqual(code, USAGE)
            self.assertEqual(err, "ddprun: --net 10.99.0.0/16: no address of this node is in it, which has 10.78.0.1 (eth0), "
                                  "172.17.0.1 (docker0)" + (" (from DDPRUN_NET)" if said else ""))
        # A node without workers has no use for it.
        self.ended([self.launch("--nnodes=2", f"--node-rank={node}", *self.STATIC, f"--nproc-per-node={node}", "--net=10.78.0.2/32",
                                *worker("print-env"), prefix=self.network.prefix(node)) for node in range(2)])

    def test_a_node_that_is_seen_at_another_address_says_both(self):
        self.make_network(3)
        relay = self.network.run(2, [sys.executable, "-I", "-S", "-c", RELAY], stdout=-1)
        self.addCleanup(relay.communicate)
        self.addCleanup(relay.kill)
        self.assertEqual(relay.stdout.readline(), b"relays\n")
        for own in (self.NUMBERS, (("--node-rank=0",), ("--node-rank=1", "--local-addr=10.78.0.2"))):
            host, guest = self.ended(self.agents("--master-addr=10.78.0.3", "--master-port=29500", "--listen=any", own=own))
            remark = ("ddprun: this node is 10.78.0.2 itself, but 10.78.0.3 to the coordinator (translated on the way?); workers "
                      "use 10.78.0.2, by default; --local-addr ADDRESS decides")
            self.assertEqual(guest.err().count(remark), 1 if own is self.NUMBERS else 0)
            self.assertEqual(self.variables(guest), ["enp3s0f1", "=enp3s0f1", "enp3s0f1"])
            self.assertEqual(host.err().count("other nodes reach this one at 10.78.0.3, which is none of its own addresses"), 1)


if __name__ == "__main__":
    isolate()
    support.main()
