"""Where the workers of a job of --hosts find the store: at node 0 itself, so that programs may open ports at MASTER_ADDR, unless
its user wants it sealed.

JAX is tested by the Python of INTEROP_JAX_PYTHON, which scripts/interop.sh names.
"""

import os
import subprocess
import sys

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [TESTS, os.path.join(TESTS, "security")]

import support
from node_network import NodeNetwork, isolate
from start_test import StartTest
from strangers_test import add

support.HANG_GUARD = 120.0
NOT_ADMITTED = 77
PORT = 29500  # below those that the system gives to anybody
SECRET = {"DDPRUN_SECRET": "a-secret-for-tests-0123456789"}
DOOR = "ddprun: --store door: MASTER_ADDR is each node's own loopback"
SYSTEM_PYTHON = "/usr/bin/python3"  # the one that Debian's python3-torch is for
WITH_JAX = os.path.join(TESTS, "..", "..", "scripts", "interop", "programs", "with_jax.py")

SERVER = f"""
import os, socket, sys, time
place = (sys.argv[1], {PORT + 1})
if os.environ["RANK"] == "0":
    socket.create_server(place).accept()[0].sendall(b"a word of rank 0")
    sys.exit()
deadline = time.monotonic() + {support.HANG_GUARD / 2}
while True:
    try:
        print(socket.create_connection(place, timeout=5).recv(100).decode())
        break
    except OSError:
        if time.monotonic() > deadline:
            raise
        time.sleep(0.05)  # That rank 0 listens is no event for us.
"""
TORCH = f"""
import datetime, os, sys, torch
from torch import distributed
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
del os.environ["TORCHELASTIC_USE_AGENT_STORE"]  # or rank 0 would wait for somebody else's store there, as under torchrun
distributed.init_process_group("gloo", init_method="tcp://" + sys.argv[1] + ":{PORT + 1}", rank=rank, world_size=size,
                               timeout=datetime.timedelta(seconds={support.HANG_GUARD / 2}))
sum = torch.ones(1)
distributed.all_reduce(sum)
print("sum", int(sum))
"""


def imports(python, module):
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0


class StoreTest(StartTest):
    """On machines of their own, which a script reaches in place of ssh."""

    def setUp(self):
        super().setUp()
        self.network = self.enterContext(NodeNetwork(3))
        self.rsh = self.remote_shell("rsh", "exec ")
        self.environment["XDG_CONFIG_HOME"] = self.folder  # nobody's secret

    def remote_shell(self, name, on_node_0):
        pids = " ".join(f"node{number}) pid={holder.pid};;" for number, holder in enumerate(self.network.holders))
        return self.script(name, f'case $1 in {pids} esac\nenter="nsenter --target $pid --net --uts"\n'
                                 f'[ "$1" != node0 ] || {on_node_0} $enter /bin/sh -c "$2"\nexec $enter /bin/sh -c "$2"')

    def on_hosts(self, *words, env=None):
        return self.launch("--rsh", self.rsh, "--hosts", "node0,node1", f"--master-port={PORT}", "--grace=2", *words, env=env)

    def ended(self, *words, env=None):
        job = self.on_hosts(*words, env=env)
        return job.wait(), sorted(job.out().splitlines()), job.err()


class StoreOfHosts(StoreTest):
    def test_it_is_sealed_where_the_user_wants_that_and_then_a_line_says_so(self):
        own_file = {"XDG_CONFIG_HOME": self.path("own")}
        self.assertEqual(self.run_job("--make-secret", env=own_file)[0], 0)
        for words, env, is_sealed in (((), {}, False), ((), SECRET, True), ((), own_file, True), (("--auth=required",), {}, True),
                                      (("--store=door",), {}, True), (("--store=auto",), SECRET, True),
                                      (("--store=direct",), SECRET, False), ((), SECRET | {"DDPRUN_STORE": "direct"}, False),
                                      (("--auth=off",), SECRET, False)):
            with self.subTest(words=words, env=env):
                code, out, err = self.ended(*words, "sh", "-c", "echo $MASTER_ADDR of $DDPRUN_MASTER_ADDR", env=env)
                self.assertEqual((code, out), (0, [f"{'127.0.0.1' if is_sealed else 'node0'} of node0"] * 2), err)
                self.assertEqual(err.count(DOOR), int(is_sealed), err)

    def test_agents_are_sealed_all_the_same_and_other_machines_kept_out(self):
        job = self.on_hosts("sh", "-c", "echo ready; exec sleep 1000")
        job.wait_for_line("^ready$", count=2)
        other = self.launch("--nnodes=2", "--node-rank=1", "--master-addr=node0", f"--master-port={PORT}", "true",
                            prefix=self.network.prefix(2))
        self.assertEqual(other.wait(), NOT_ADMITTED)
        self.assertIn("secret", other.err())
        for node, answer in ((1, "number is 1"), (0, "number is 2"), (2, "turned away")):
            self.assertEqual(add("10.78.0.1", PORT, 1, self.network.prefix(node)), answer)
        job.send(15)
        self.assertEqual(job.wait(), 143)


class ProgramsAtMasterAddr(StoreTest):
    """Programs that meet at a port of their own, on node 0."""

    def assert_meet(self, python, program, said):
        for words, env, address in (((), {}, "$MASTER_ADDR"), (("--store=direct",), SECRET, "$MASTER_ADDR"),
                                    ((), SECRET, "$DDPRUN_MASTER_ADDR")):
            with self.subTest(words=words, env=env):
                code, out, err = self.ended(*words, "sh", "-c", f'exec "$0" -c "$1" {address}', python, program, env=env)
                self.assertEqual((code, out), (0, said), err)

    def test_a_socket(self):
        self.assert_meet(sys.executable, SERVER, ["a word of rank 0"])

    def test_a_socket_where_node_0_has_its_own_name_on_loopback(self):
        # As a stock Debian has it.
        with open(self.path("hosts"), "w", encoding="ascii") as file:
            file.write("127.0.0.1 localhost\n127.0.1.1 node0\n10.78.0.2 node1\n")
        own_hosts = f"""'mount --bind {self.path("hosts")} /etc/hosts && exec "$@"'"""
        self.rsh = self.remote_shell("debian", f"exec unshare --mount --propagation private sh -c {own_hosts} sh")
        self.assert_meet(sys.executable, SERVER, ["a word of rank 0"])
        self.assertIn("node0 stands for loopback on this node, where only its own programs reach it; its workers get 10.78.0.1",
                      self.launchers[-1].err())

    def test_pytorch_by_tcp(self):
        if not imports(SYSTEM_PYTHON, "torch.distributed"):
            self.skipTest("no PyTorch here (Debian package python3-torch)")
        self.assert_meet(SYSTEM_PYTHON, TORCH, ["sum 2"] * 2)

    def test_jax(self):
        python = os.environ.get("INTEROP_JAX_PYTHON")
        if not python:
            self.skipTest("INTEROP_JAX_PYTHON names no Python that has JAX; scripts/interop.sh --all does")
        for words, env in (((), {}), (("--store=direct",), SECRET)):
            code, out, err = self.ended(*words, "--no-python", python, WITH_JAX, str(PORT + 1), env=env)
            self.assertEqual((code, [line for line in out if line.startswith("ok ")]), (0, ["ok JAX"] * 2), err)


if __name__ == "__main__":
    isolate()
    support.main()
