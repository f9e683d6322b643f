"""Jobs whose users ask for no port by number: each is at the first free one of 29400 to 29407, and its agents find it."""

import os
import re
import signal
import sys
import tempfile

import support
from node_network import NodeNetwork, isolate
from support import EndToEndTest, worker

support.HANG_GUARD = 120.0
PREEMPTED = 75
LISTEN = "import socket, sys; s = socket.create_server(('', 29400)); print('listens', flush=True); sys.stdin.read()"


class Ports(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.network = NodeNetwork(2)
        self.network.__enter__()
        self.addCleanup(self.network.__exit__)

    def agent(self, node, *words, name="a", nnodes=2, flags=()):
        ids = (f"--rdzv-id={name}",) if name else ()
        return self.launch("--rdzv-backend=c10d", "--rdzv-endpoint=node0", *ids, "--nnodes", nnodes, *flags, *words,
                           prefix=self.network.prefix(node))

    def ports(self, agents):
        for agent in agents:
            self.assertEqual(agent.wait(), 0, agent.err())
        return {port for agent in agents for port in re.findall(r"^MASTER_PORT=(\d+)$", agent.out(), re.MULTILINE)}

    def test_jobs_that_start_at_the_same_moment_each_have_their_own(self):
        with tempfile.TemporaryDirectory() as folder:
            go = os.path.join(folder, "go")
            words = worker("print-env", "say", "ready", "wait-for-file", go, "exit", 0)
            jobs = {name: [self.agent(node, *words, name=name, nnodes=3) for node in (1, 0, 0)] for name in "abc"}
            for agents in jobs.values():
                for agent in agents:
                    agent.wait_for_line("^ready$")
            open(go, "w", encoding="ascii").close()
            found = [self.ports(agents) for agents in jobs.values()]
        self.assertEqual([len(ports) for ports in found], [1, 1, 1])
        self.assertEqual(set.union(*found), {"29400", "29401", "29402"})

    def test_another_programs_port_is_passed(self):
        with self.network.run(0, [sys.executable, "-c", LISTEN], stdin=-1, stdout=-1) as stranger:
            self.assertEqual(stranger.stdout.readline(), b"listens\n")
            guest = self.agent(1, *worker("print-env"))
            guest.wait_for_line("^ddprun: waiting for node 0: port 29400 is another program's: what listens at node0:29400 does "
                                "not answer; nobody else from 29400 to 29407; ")
            host = self.agent(0, *worker("print-env"))
            self.assertEqual(self.ports([guest, host]), {"29401"})
            stranger.stdin.close()

    def test_another_jobs_port_is_passed_without_a_word_there(self):
        first = self.agent(0, *worker("exit", 0))
        first.wait_for_line("^ddprun: joined 1/2")
        guest = self.agent(1, *worker("print-env"), name="b")
        guest.wait_for_line('^ddprun: waiting for node 0: port 29400 belongs to another job; nobody else from '
                            "29400 to 29407; ")
        self.assertEqual(self.ports([self.agent(0, *worker("print-env"), name="b"), guest]), {"29401"})
        self.assertEqual((self.agent(1, *worker("exit", 0)).wait(), first.wait()), (0, 0))
        self.assertNotIn("refused", first.err())

    def test_a_job_that_is_not_found_is_so_after_the_join_timeout(self):
        lonely = self.agent(1, "true", flags=("--join-timeout", 4))
        self.assertEqual(lonely.wait(), 69)
        self.assertRegex(lonely.err(), r"node 0 was not reached within 4 s: cannot connect to node0:294\d\d: Connection refused; "
                                       "nor is the job at any other port from 29400 to 29407; --join-timeout")

    def test_no_port_is_left(self):
        listeners = "import socket, sys; s = [socket.create_server(('', 29400 + i)) for i in range(8)]; print('all', flush=True); sys.stdin.read()"
        with self.network.run(0, [sys.executable, "-c", listeners], stdin=-1, stdout=-1) as strangers:
            self.assertEqual(strangers.stdout.readline(), b"all\n")
            host = self.agent(0, "true")
            self.assertEqual(host.wait(), 71)
            self.assertIn(f"29407, held by pid {strangers.pid} ", host.err())
            strangers.stdin.close()

    def test_without_an_id_there_is_one_port(self):
        first = self.agent(0, *worker("exit", 0), name="")
        first.wait_for_line("^ddprun: joined 1/2")
        other = self.agent(0, "true", name="")
        self.assertEqual(other.wait(), 77)
        self.assertIn("for two jobs give each an --rdzv-id", other.err())
        self.assertEqual((self.agent(1, *worker("exit", 0), name="").wait(), first.wait()), (0, 0))

    def test_a_host_that_comes_back_finds_its_job_from_another_port(self):
        flags = ("--last-call", 3600)
        words = worker("print-place", "exit-zero-on-term")
        other = self.agent(0, "true", name="b")
        other.wait_for_line("^ddprun: joined 1/2")
        host, second = (self.agent(node, *words, nnodes="1:2", flags=flags) for node in (0, 1))
        for agent in (host, second):
            agent.wait_for_line(r"^place \d of 2 nodes, ")
            agent.wait_for_line("^ready$")
        host.send(signal.SIGKILL)
        host.wait()
        second.wait_for_line("^place 0 of 1 nodes, ")
        second.wait_for_line("^ready$")
        other.send(signal.SIGTERM)
        other.wait()
        again = self.agent(0, *words, nnodes="1:2", flags=flags)  # at 29400, not 29401 as before
        again.wait_for_line(r"^ddprun: the job runs already; its coordinator is at 10.78.0.2:\d+$")
        for agent in (again, second):
            agent.wait_for_line(r"^place \d of 2 nodes, ")
            agent.wait_for_line("^ready$")
        for agent in (again, second):
            agent.send(signal.SIGTERM)
        self.assertEqual((again.wait(), second.wait()), (PREEMPTED, PREEMPTED))


if __name__ == "__main__":
    isolate()
    support.main()
