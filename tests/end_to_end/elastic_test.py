"""Nodes that come and go: --nnodes MIN:MAX, spares, newcomers, returning nodes, nodes without workers."""

import os
import signal
import tempfile

from agents_test import AgentsTest
from support import main, worker

PREEMPTED = 75
UNAVAILABLE = 69


class Elastic(AgentsTest):
    def node(self, nnodes, *flags, hosts=0, nproc=1, words=(), **options):
        return self.launch("--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{self.port}", "--rdzv-id=job",
                           "--rdzv-conf", f"is_host={hosts}", "--nnodes", nnodes, "--nproc-per-node", nproc,
                           "--last-call", 0, "--grace", 10, *flags,
                           *(words or worker("print-place", "exit-zero-on-term")), **options)

    def host(self, *arguments, **options):
        return self.node(*arguments, hosts=1, **options)

    def runs(self, agent, node, nodes, rank, world):
        """Waits until the agent's worker of that rank runs, in a round of so many nodes, and handles SIGTERM."""
        agent.wait_for_line(f"^place {node} of {nodes} nodes, rank {rank} of {world}$")
        agent.wait_for_line("^ready$")


class Losses(Elastic):
    def test_the_survivors_go_on_and_a_newcomer_is_let_in(self):
        host = self.host("1:3")
        self.runs(host, 0, 1, 0, 1)
        second = self.node("1:3", nproc=2)
        second.wait_for_line("^ddprun: the job runs on 1 node, which stop to let this one in$")
        self.runs(host, 0, 2, 0, 3)
        self.runs(second, 1, 2, 2, 3)
        self.assertRegex(host.err(), r"ddprun: a node \(\S+\) has come; another round with 2 nodes \(resize 1\) follows")
        second.send(signal.SIGKILL)
        second.wait()
        host.wait_for_line(r"^ddprun: node 1 \(\S+\) lost: the connection to its agent \(pid \d+\) was lost$")
        host.wait_for_line(r"^ddprun: node 1 \(\S+\) was lost; another round with 1 node \(resize 2\) follows in \d+ ms$")
        self.runs(host, 0, 1, 0, 1)
        host.send(signal.SIGTERM)
        self.assertEqual(host.wait(), PREEMPTED)
        self.assertEqual(host.out().count("place 0 of 1 nodes"), 2)
        self.assertIn("resizes so far: 2", host.err())

    def test_a_spare_takes_the_place_of_a_lost_node(self):
        host = self.host("2:3", "--spares", 1)
        second = self.node("2:3", "--spares", 1)
        self.runs(host, 0, 2, 0, 2)
        self.runs(second, 1, 2, 1, 2)
        spare = self.node("2:3", "--spares", 1)
        spare.wait_for_line("^ddprun: the job has its 2 nodes; this one waits for a place$")
        second.send(signal.SIGKILL)
        second.wait()
        self.runs(spare, 1, 2, 1, 2)
        self.assertNotIn("of 1 nodes", host.out())
        self.runs(host, 0, 2, 0, 2)
        host.send(signal.SIGTERM)
        self.assertEqual((host.wait(), spare.wait()), (PREEMPTED, PREEMPTED))

    def test_a_node_of_a_fixed_number_returns_to_its_place(self):
        def start(number):
            return self.node(3, "--node-rank", number, "--max-restarts", 2, "--min-uptime", 0, hosts=int(number == 0))
        agents = [start(number) for number in range(3)]
        for number, agent in enumerate(agents):
            self.runs(agent, number, 3, number, 3)
        agents[1].send(signal.SIGKILL)
        agents[1].wait()
        agents[2].wait_for_line(r"^ddprun: node 1 \(\S+\) was lost; restart 1 of 2 in \d+ ms$")
        agents[2].wait_for_line(r"^ddprun: joined 2/3, missing node 1; there: node 0 \(\S+\), node 2 \(\S+\); ")
        agents[1] = start(1)
        for number, agent in enumerate(agents):
            self.runs(agent, number, 3, number, 3)
        agents[2].send(signal.SIGTERM)
        self.assertEqual([agent.wait() for agent in agents], [PREEMPTED] * 3)

    def test_nobody_is_waited_for_beyond_the_join_timeout(self):
        host = self.host("2:3", "--join-timeout", 8)
        second = self.node("2:3")
        self.runs(second, 1, 2, 1, 2)
        second.send(signal.SIGKILL)
        second.wait()
        host.wait_for_line("^ddprun: joined 1, the job needs 2 to 3 nodes; ")
        self.assertEqual(host.wait(), UNAVAILABLE)
        self.assertIn("no node has come in its place within 8 s (--join-timeout)", host.err())
        self.assertRegex(host.err(), r"node 1 \(\S+\) was lost")


class Leaving(Elastic):
    def test_a_signalled_agent_leaves_and_the_others_go_on(self):
        host, second, third = (self.node("2:3", "--node-rank", number, hosts=int(number == 0)) for number in range(3))
        for number, agent in enumerate((host, second, third)):
            self.runs(agent, number, 3, number, 3)
        second.send(signal.SIGTERM)
        self.runs(third, 1, 2, 1, 2)
        self.assertEqual(second.wait(), PREEMPTED)
        self.assertIn("the job goes on without this node", second.err())
        self.runs(host, 0, 2, 0, 2)
        third.send(signal.SIGTERM)
        self.assertEqual((host.wait(), third.wait()), (PREEMPTED, PREEMPTED))

    def test_signals_to_all_are_the_jobs_end(self):
        agents = [self.node("1:3", "--node-rank", number, "--last-call", 3600, hosts=int(number == 0)) for number in range(3)]
        for agent in agents:
            self.runs(agent, r"\d", 3, r"\d", 3)
        for agent in reversed(agents):
            agent.send(signal.SIGTERM)
        self.assertEqual([agent.wait() for agent in agents], [PREEMPTED] * 3)
        for agent in agents:
            self.assertEqual(agent.out().count("place"), 1)


class Hosts(Elastic):
    def test_a_node_without_workers_hosts_a_job_of_others(self):
        with tempfile.TemporaryDirectory() as folder:
            go = os.path.join(folder, "go")
            words = worker("print-place", "say", "ready", "wait-for-file", go, "exit", 0)
            login = self.host("2:3", nproc=0, words=words)
            others = [self.node("2:3", words=words)]
            self.runs(others[0], r"\d", 2, 0, 1)
            others[0].send(signal.SIGKILL)
            others[0].wait()
            login.wait_for_line("^ddprun: joined 1, the job needs 2 to 3 nodes; ")
            others[0] = self.node("2:3", words=words)
            self.runs(others[0], r"\d", 2, 0, 1)
            open(go, "w", encoding="ascii").close()
            self.assertEqual((login.wait(), others[0].wait()), (0, 0))
        self.assertEqual(login.out(), "")

    def test_no_workers_anywhere_is_an_error(self):
        agents = [self.node(2, nproc=0, hosts=hosts) for hosts in (1, 0)]
        for agent in agents:
            self.assertEqual(agent.wait(), 2)
            self.assertIn("no node has workers: --nproc-per-node is 0 on each", agent.err())


if __name__ == "__main__":
    main()
