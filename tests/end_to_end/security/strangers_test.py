"""Who reaches the job's port, and is none of the job: another machine, another user; and jobs that need no network."""

import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from node_network import NodeNetwork, isolate
from refused_calls import CALLS, refuse_socket_owners
from support import EndToEndTest, free_port

support.HANG_GUARD = 120.0
PREEMPTED = 75
OTHER_USER = 61234
PORT = 29500
# Of the machine, which any user may run.
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable

# Adds DELTA to a number of the store in PyTorch's protocol before 2.1, and says what it is then, or that nobody answers.
ADD = """
import os, socket, struct, sys
address, port, delta = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with socket.create_connection((address, port)) as store:
    try:
        store.sendall(b"\\x03" + struct.pack("<Q", 6) + b"number" + struct.pack("<q", delta))
        answer = store.recv(8)
    except ConnectionError:
        answer = b""
    print(f"number is {struct.unpack('<q', answer)[0]}" if answer else "turned away", flush=True)
"""
# A worker that does so by what it was told, and then waits until its input ends or a signal comes.
WORKER = ["sh", "-c", f"""{PYTHON} -c "$ADD" "$MASTER_ADDR" "$MASTER_PORT" 1; echo ready; exec sleep 1000"""]


def add(address, port, delta, prefix=()):
    done = subprocess.run([*prefix, PYTHON, "-c", ADD, address, str(port), str(delta)], capture_output=True, text=True,
                          timeout=support.HANG_GUARD, check=True)
    return done.stdout.strip()


class ThirdMachine(EndToEndTest):
    """Two nodes have a job; the third one is a stranger's."""

    def setUp(self):
        super().setUp()
        self.network = self.enterContext(NodeNetwork(3))

    def start(self, number, *flags, **popen):
        return self.launch("--nnodes=2", f"--node-rank={number}", "--nproc-per-node=1", f"--master-addr={self.network.address(0)}",
                           f"--master-port={PORT}", "--grace=2", *flags, *WORKER, prefix=self.network.prefix(number), env={"ADD": ADD}, **popen)

    def test_a_stranger_has_no_store(self):
        here = self.network.address(0)
        host = self.start(0)
        host.wait_for_line("joined 1/2")
        # Not even that of a node to be: agents come first.
        for caller in (1, 2):
            self.assertEqual(add(here, PORT, 100, self.network.prefix(caller)), "turned away")
        host.wait_for_line(f"a store client at {self.network.address(2)} was turned away: no node of this job's round calls from there")
        other = self.start(1)
        for agent in (host, other):
            agent.wait_for_line("^number is [12]$")
            agent.wait_for_line("^ready$")
        self.assertEqual(add(here, PORT, 100, self.network.prefix(2)), "turned away")
        self.assertEqual(add(here, PORT, 1, self.network.prefix(1)), "number is 3")
        host.send(15)
        self.assertEqual((host.wait(), other.wait()), (143, 143), host.err() + other.err())

    @unittest.skipUnless(CALLS, "the numbers of this machine's system calls are not known here")
    def test_where_the_system_does_not_say_who_calls_a_job_works_and_that_is_told(self):
        host = self.start(0, preexec_fn=refuse_socket_owners())
        other = self.start(1)
        for agent in (host, other):
            agent.wait_for_line("^number is [12]$")
            agent.wait_for_line("^ready$")
        self.assertEqual(add(self.network.address(0), PORT, 100, self.network.prefix(2)), "turned away")
        host.send(15)
        self.assertEqual((host.wait(), other.wait()), (143, 143), host.err() + other.err())
        self.assertEqual(host.err().count("does not say whose connections from this machine are"), 1, host.err())

    def test_node_0_listens_where_it_has_to(self):
        host = self.start(0)
        host.wait_for_line("joined 1/2")
        listening = subprocess.run([*self.network.prefix(0), "ss", "-ltnH"], capture_output=True, text=True, check=True).stdout
        self.assertEqual({line.split()[3] for line in listening.splitlines()}, {f"{self.network.address(0)}:{PORT}", f"127.0.0.1:{PORT}"})
        host.send(15)
        host.wait()
        anywhere = self.start(0, "--listen=any")
        anywhere.wait_for_line("joined 1/2")
        listening = subprocess.run([*self.network.prefix(0), "ss", "-ltnH"], capture_output=True, text=True, check=True).stdout
        self.assertEqual({line.split()[3] for line in listening.splitlines()}, {f"*:{PORT}"})
        anywhere.send(15)
        anywhere.wait()


@unittest.skipUnless(os.geteuid() == 0, "not root, so nobody else can be had")
class OtherUser(EndToEndTest):
    prefix = ("setpriv", f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}", "--clear-groups")

    def setUp(self):
        super().setUp()
        if subprocess.run([*self.prefix, "test", "-x", support.program("ddprun")], check=False).returncode != 0:
            self.skipTest("another user cannot run the programs that were built here")
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)

    def test_loopback_is_no_way_in(self):
        port = free_port()
        job = self.launch("--nproc-per-node=1", f"--master-port={port}", "--grace=2", *WORKER, env={"ADD": ADD})
        job.wait_for_line("^number is 1$")
        self.assertEqual(add("127.0.0.1", port, 100, self.prefix), "turned away")
        job.wait_for_line(f"user {OTHER_USER} of this machine was turned away from the job's port: only user 0 and root may use it")
        self.assertEqual(add("127.0.0.1", port, 1), "number is 2")
        job.send(15)
        self.assertEqual(job.wait(), 143)

    def test_root_is_let_in(self):
        port = free_port()
        job = self.launch("--nproc-per-node=1", f"--master-port={port}", "--grace=2", *WORKER, prefix=self.prefix, env={"ADD": ADD})
        job.wait_for_line("^number is 1$")
        self.assertEqual(add("127.0.0.1", port, 1), "number is 2")
        job.send(15)
        self.assertEqual(job.wait(), 143)


class WithoutNetwork(EndToEndTest):
    def job(self, prepare, *flags):
        return self.run_job("--nproc-per-node=2", *flags, "sh", "-c", "echo $MASTER_ADDR", prefix=("unshare", "--net", "sh", "-c", f'{prepare} exec "$@"', "sh"))

    def test_one_node_needs_no_network(self):
        self.assertEqual(self.job(""), (0, "127.0.0.1\n127.0.0.1", ""))

    def test_ipv6_does(self):
        self.assertEqual(self.job("ip link set lo up; ip address delete 127.0.0.1/8 dev lo;"), (0, "::1\n::1", ""))

    def test_the_address_may_be_ipv6_loopback(self):
        self.assertEqual(self.job("ip link set lo up;", "--master-addr=::1"), (0, "::1\n::1", ""))


if __name__ == "__main__":
    isolate()
    support.main()
