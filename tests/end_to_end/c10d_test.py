"""Nodes that are told the same and find their numbers by themselves, and those without any address."""

import os
import re
import select
import socket
import tempfile

import support
from agents_test import AgentsTest
from support import free_port, worker


class Unnumbered(AgentsTest):
    """--rdzv-backend=c10d: the same words on every node."""

    def c10d(self, *words, nnodes=3, flags=(), **options):
        return self.launch("--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{self.port}", "--rdzv-id=job7", "--nnodes",
                           nnodes, *flags, *words, **options)

    def test_agents_that_are_told_the_same_find_their_places(self):
        with tempfile.TemporaryDirectory() as folder:
            go = os.path.join(folder, "go")
            words = worker("--only-rank", 5, "print-env", "say", "ready", "wait-for-file", go, "exit", 9, "else", "print-env",
                           "ready-then-wait")
            agents = [self.c10d("--nproc-per-node", 2, *words) for _ in range(3)]
            for agent in agents:
                agent.wait_for_line("^ready$", count=2)
            open(go, "w", encoding="ascii").close()
            for agent in agents:
                self.assertEqual(agent.wait(), 9, agent.err())
        places = []
        for agent in agents:
            lines = dict(line.split("=", 1) for line in agent.out().splitlines() if "=" in line)
            self.assertEqual((lines["WORLD_SIZE"], lines["GROUP_WORLD_SIZE"], lines["MASTER_PORT"]), ("6", "3", str(self.port)))
            self.assertEqual(lines["MASTER_ADDR"], "127.0.0.1")
            ranks = sorted(int(rank) for rank in re.findall(r"^RANK=(\d+)$", agent.out(), re.MULTILINE))
            places.append((int(lines["GROUP_RANK"]), ranks))
            self.assertRegex(agent.err(), r"first failure: rank 5 \(local rank 1\) on node 2 ")
        self.assertEqual(sorted(places), [(0, [0, 1]), (1, [2, 3]), (2, [4, 5])])

    def test_a_number_that_is_given_is_kept(self):
        agents = [self.c10d(*worker("print-env"), nnodes=2, flags=flags) for flags in (("--node-rank", 0), ())]
        self.assertEqual([agent.wait() for agent in agents], [0, 0])
        for agent, number in zip(agents, (0, 1)):
            self.assertIn(f"GROUP_RANK={number}\n", agent.out())

    def test_as_torchrun_a_number_is_none_and_words_may_differ(self):
        for number in (0, 5):
            agents = [self.c10d(*worker("print-env", "say", word), nnodes=2,
                                flags=("--like-torchrun", "--no-python", "--node_rank", number)) for word in ("a", "b")]
            self.assertEqual([agent.wait() for agent in agents], [0, 0], agents[0].err() + agents[1].err())
            self.assertEqual(sorted(re.findall(r"^GROUP_RANK=(\d+)$", agents[0].out() + agents[1].out(), re.MULTILINE)), ["0", "1"])

    def test_who_does_not_host_waits_for_who_does_and_says_how_many_are_missing(self):
        guest = self.c10d(*worker("exit", 0), nnodes=2, flags=("--rdzv-conf", "is_host=0"))
        guest.wait_for_line("^ddprun: waiting for node 0: cannot connect to 127.0.0.1")
        host = self.c10d(*worker("exit", 0), nnodes=2)
        self.assertEqual((guest.wait(), host.wait()), (0, 0))
        lonely = self.c10d(*worker("exit", 0), nnodes=3, flags=("--join-timeout", 12))
        lonely.wait_for_line("^ddprun: joined 1/3, missing 2 nodes; there: ")
        self.assertEqual(lonely.wait(), 69)

    def test_without_an_address_the_nodes_are_this_machine_and_a_line_says_so(self):
        for backend in ("static", "c10d"):
            port = free_port()
            agents = [self.launch("--rdzv-backend", backend, "--master-port", port, "--nnodes", 2, "--node-rank", rank,
                                  *worker("exit", 0)) for rank in (0, 1)]
            for agent in agents:
                self.assertEqual(agent.wait(), 0, agent.err())
                self.assertIn("the nodes meet at 127.0.0.1, which other machines cannot reach", agent.err())

    def test_a_port_that_another_program_holds_is_named_with_its_holder(self):
        me = f"port {self.port} is held by pid {os.getpid()} "
        remedy = "; end that process, or give all nodes another port in --rdzv-endpoint"
        with socket.create_server(("127.0.0.1", self.port)) as stranger:
            # It accepts and never answers: the agent waits, but not for ever, and not without a word.
            agent = self.c10d(*worker("exit", 0), nnodes=2, flags=("--join-timeout", 1))
            self.assertEqual(agent.wait(), 69)
            self.assertIn(f"not reached within 1 s: what listens at 127.0.0.1:{self.port} does not answer; ", agent.err())
            self.assertIn(me, agent.err())
            # It closes each connection, and the agent tries again for a while.
            agent = self.c10d(*worker("exit", 0), nnodes=2)
            connections = 0
            while agent.process.poll() is None:
                if select.select([stranger], [], [], 0.1)[0]:
                    stranger.accept()[0].close()
                    connections += 1
            self.assertEqual(agent.wait(), 71)
            self.assertLess(connections, 50)
            said = agent.err()
            self.assertIn(f"what listens at 127.0.0.1:{self.port} ended the connection without an answer; ", said)
            self.assertIn(me, said)
            self.assertIn(remedy, said)
            self.assertEqual(len(said.splitlines()), 1, said)

    def test_one_node_needs_nothing_of_it(self):
        for flags in (("--rdzv-backend=c10d",), ("--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0"),
                      ("--standalone", "--rdzv-backend=c10d", "--rdzv-endpoint=nosuch.invalid:29400")):
            status, out, err = self.run_job(*flags, *worker("print-env"))
            self.assertEqual((status, err), (0, ""))
            self.assertIn("GROUP_RANK=0\n", out)


class Allocation(AgentsTest):
    """In a Slurm allocation the order of its list counts. The agents share a machine that is in no list, so each is the node
    that Slurm has named."""

    def node(self, name, hosts, *words, nnodes=3, flags=()):
        return self.launch("--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{self.port}", "--rdzv-id=job7", "--nnodes", nnodes,
                           *flags, *words, env={"SLURM_JOB_NODELIST": hosts, "SLURMD_NODENAME": name})

    def host(self, name, hosts, *words, **options):
        """One that others find, since it is there before them and says so."""
        host = self.node(name, hosts, *words, **options)
        host.wait_for_line(r"^ddprun: joined 1/\d, missing ")
        return host

    def assert_numbers(self, *agents):
        for number, agent in enumerate(agents):
            self.assertEqual(agent.wait(), 0, agent.err())
            self.assertIn(f"GROUP_RANK={number}\n", agent.out())

    def test_numbers_follow_the_list_and_not_the_order_of_arrival(self):
        hosts = "z[2-3],a1"
        host = self.host("z3", hosts, *worker("print-env"))
        last = self.node("a1", hosts, *worker("print-env"))
        host.wait_for_line("^ddprun: joined 2/3, missing z2; ")
        self.assert_numbers(host, self.node("z2", hosts, *worker("print-env")), last)

    def test_a_list_that_cannot_be_read_is_one_line(self):
        agents = [self.node("z2", "z[3-", *worker("print-env"), nnodes=2) for _ in range(2)]
        numbers = set()
        for agent in agents:
            self.assertEqual(agent.wait(), 0, agent.err())
            numbers |= {line for line in agent.out().splitlines() if line.startswith("GROUP_RANK=")}
            said = [line for line in agent.err().splitlines() if "NODELIST" in line]
            self.assertEqual(said, ["ddprun: SLURM_JOB_NODELIST: z[3-: a '[' without its ']'; passed over, and nodes are numbered "
                                    "by their host names"])
        self.assertEqual(numbers, {"GROUP_RANK=0", "GROUP_RANK=1"})

    def test_who_numbers_nodes_by_hand_hears_nothing_of_it(self):
        agents = [self.node("z2", "z[3-", *worker("print-env"), nnodes=2, flags=("--node-rank", number)) for number in (0, 1)]
        self.assert_numbers(*agents)
        for agent in agents:
            self.assertNotIn("NODELIST", agent.err())

    def test_the_missing_are_named_until_they_come(self):
        hosts = "z[2-3],a1,b[01-10]"
        words = worker("exit", 0)
        host = self.node("a1", hosts, *words, nnodes=13, flags=("--join-timeout", 60))
        host.wait_for_line("^ddprun: joined 1/13, missing z2, z3, b01, b02, b03, b04, b05, b06 and 4 more; there: ")
        guest = self.node("z3", hosts, *words, nnodes=13)
        for agent in (host, guest):
            agent.wait_for_line("^ddprun: joined 2/13, missing z2, b01, b02, b03, b04, b05, b06, b07 and 3 more; there: ")
        guest.process.kill()
        host.wait_for_line("^ddprun: joined 1/13, missing z2, z3, b01, ")
        host.process.kill()

    def test_of_a_list_that_is_longer_than_the_job_nobody_is_named(self):
        self.host("a1", "a[1-4]", *worker("exit", 0), flags=("--join-timeout", 12))
        self.launchers[0].wait()
        self.assertIn("joined 1/3, missing 2 nodes", self.launchers[0].err())
        self.assertNotIn("a2", self.launchers[0].err())


if __name__ == "__main__":
    support.main()
