"""Several agents on loopback: joining, ranks, one truth about failures, signals, lost agents, refusals."""

import contextlib
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading

import support
from support import EndToEndTest, free_port, program, worker


class AgentsTest(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.port = free_port()

    def agent(self, node_rank, *words, nnodes=2, nproc=1, flags=("--allow-different",), **options):
        return self.launch("--nnodes", nnodes, "--node-rank", node_rank, "--nproc-per-node", nproc, "--master-addr",
                           "127.0.0.1", "--master-port", self.port, *flags, *words, **options)


class Joining(AgentsTest):
    def test_any_order_and_different_worker_counts(self):
        counts = [2, 1, 3]
        for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2]):
            agents = {rank: self.agent(rank, *worker("print-env"), nnodes=3, nproc=counts[rank]) for rank in order}
            base = 0
            ids = set()
            for rank in range(3):
                self.assertEqual(agents[rank].wait(), 0, agents[rank].err())
                out = agents[rank].out()
                self.assertEqual(agents[rank].err(), "")
                self.assertEqual(sorted(map(int, re.findall(r"^RANK=(\d+)$", out, re.MULTILINE))),
                                 list(range(base, base + counts[rank])))
                self.assertEqual(set(re.findall(r"^WORLD_SIZE=(\d+)$", out, re.MULTILINE)), {"6"})
                self.assertEqual(set(re.findall(r"^GROUP_RANK=(\d+)$", out, re.MULTILINE)), {str(rank)})
                self.assertEqual(set(re.findall(r"^MASTER_PORT=(\d+)$", out, re.MULTILINE)), {str(self.port)})
                ids |= set(re.findall(r"^DDPRUN_RUN_ID=(.+)$", out, re.MULTILINE))
                base += counts[rank]
            self.assertEqual(len(ids), 1, "the job's id is one on all nodes")

    def test_agents_of_one_name_and_one_pid_as_in_containers(self):
        container = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
        tried = subprocess.run([*container, "true"], capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            self.skipTest(f"skipped: no PID namespaces here: {tried.stderr.strip()}")
        c10d = ("--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{free_port()}", "--rdzv-id", "job")
        for agents in ([self.agent(node, *worker("print-env"), prefix=container) for node in (1, 0)],
                       [self.launch("--nnodes", 2, *c10d, *worker("print-env"), prefix=container) for _ in range(2)]):
            for agent in agents:
                self.assertEqual(agent.wait(), 0, agent.err())
            self.assertEqual({rank for agent in agents for rank in re.findall(r"^RANK=(\d+)$", agent.out(), re.MULTILINE)}, {"0", "1"})

    def ranks_by(self, order, places):
        """The first rank of each node, of three with 1, 2 and 3 workers; and what the agents say of it."""
        agents = [self.agent(node, *worker("print-env"), nnodes=3, nproc=node + 1, flags=("--allow-different", "--rank-order", order),
                             env={"SLURM_TOPOLOGY_ADDR": places[node]}) for node in range(3)]
        first, said = [], []
        for agent in agents:
            self.assertEqual(agent.wait(), 0, agent.err())
            ranks = sorted(map(int, re.findall(r"^RANK=(\d+)$", agent.out(), re.MULTILINE)))
            self.assertEqual(ranks, list(range(ranks[0], ranks[0] + len(ranks))))
            self.assertEqual(set(re.findall(r"^MASTER_PORT=(\d+)$", agent.out(), re.MULTILINE)), {str(self.port)})
            first.append(ranks[0])
            said.append(agent.err())
        return first, said

    def test_ranks_go_by_switches_or_a_list_if_the_user_wants_that(self):
        self.assertEqual(self.ranks_by("node", ("s2.a", "s1.b", "s1.a")), ([0, 1, 3], ["", "", ""]))
        self.assertEqual(self.ranks_by("topology", ("s10.a", "s9.b", "s9.a")), ([5, 3, 0], ["", "", ""]))
        first, said = self.ranks_by("topology", ("", "s9.b", "s9.a"))
        self.assertEqual((first, said[1:]), ([5, 3, 0], ["", ""]))
        self.assertRegex(said[0], r"^ddprun: --rank-order topology: SLURM_TOPOLOGY_ADDR is not set here; .* behind .*$")
        with tempfile.NamedTemporaryFile("w") as hosts:
            hosts.write(f"other\n{socket.gethostname()}\n")
            hosts.flush()
            self.assertEqual(self.ranks_by(hosts.name, ("", "", "")), ([0, 1, 3], ["", "", ""]))
            hosts.write("n[1-\n")
            hosts.flush()
            for name, wrong in ((hosts.name, "line 3: n.*"), (hosts.name + ".no", ".* no file that can be read: .*")):
                for agent in (self.agent(1, *worker("print-env"), flags=("--rank-order", name)),
                              self.launch("--rank-order", name, *worker("print-env"))):
                    self.assertEqual(agent.wait(), 2)
                    self.assertRegex(agent.err(), rf"^ddprun: --rank-order {name}: {wrong}$")
        # Alone, there is nothing to be ordered.
        with tempfile.NamedTemporaryFile("w") as hosts:
            hosts.write("other\n")
            hosts.flush()
            for order in (hosts.name, "topology"):
                self.assertEqual(self.run_job("--rank-order", order, "true"), (0, "", ""))

    def test_addresses_and_names_reach_the_workers_as_they_were_given(self):
        for host in ("127.0.0.1", "::1", "localhost"):
            agents = [self.launch("--nnodes", 2, "--node-rank", rank, "--master-addr", host, "--master-port", self.port,
                                  *worker("print-env")) for rank in (1, 0)]
            for agent in agents:
                self.assertEqual(agent.wait(), 0, agent.err())
                self.assertIn(f"MASTER_ADDR={host}\n", agent.out())

    def test_two_jobs_do_not_become_one(self):
        first = self.agent(0, *worker("exit", "0"), flags=())
        first.wait_for_line(r"^ddprun: joined 1/2, missing node 1; ")
        other = self.agent(1, "true", "exit", "0", flags=())
        self.assertEqual(other.wait(), 77)
        refusal = r'this agent runs "true exit 0", but node 0 \(.*\) runs "\S*worker_stub exit 0"; .*--allow-different'
        self.assertRegex(other.err(), refusal)
        first.wait_for_line(rf"^ddprun: refused an agent on .* \(pid {other.pid}\): {refusal}")
        second = self.agent(1, *worker("exit", "0"), flags=())
        self.assertEqual([first.wait(), second.wait()], [0, 0])

    def test_the_same_program_spelled_otherwise_is_one_job(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        script, link = os.path.join(folder, "who.py"), os.path.join(folder, "link")
        with open(script, "w", encoding="ascii") as file:
            file.write("print('ran')\n")
        os.symlink(folder, link)
        python = shutil.which("python3")
        for one, other in ((["echo", "ran"], [shutil.which("echo"), "ran"]), (["python3", script], [python, f"{link}/who.py"])):
            agents = [self.agent(node, *words, flags=()) for node, words in enumerate((one, other))]
            self.assertEqual([agent.wait() for agent in agents], [0, 0], agents[1].err())
            self.assertEqual([agent.out() for agent in agents], ["ran", "ran"])
            told = [line for line in agents[0].err().splitlines() if "joined" not in line]
            self.assertEqual(len(told), 1, told)
            self.assertRegex(told[0], rf'^ddprun: nodes differ in arguments: node 1 \(\S+\) has "{" ".join(other[:1])}')

    def test_other_arguments_are_told_and_the_job_runs(self):
        agents = [self.agent(node, "echo", "--out", f"/n{node}", "--lr", "1", flags=()) for node in (0, 1)]
        self.assertEqual([agent.wait() for agent in agents], [0, 0])
        self.assertEqual([agent.out() for agent in agents], ["--out /n0 --lr 1", "--out /n1 --lr 1"])
        told = [line for line in agents[0].err().splitlines() if "joined" not in line]
        self.assertEqual(len(told), 1, told)
        self.assertRegex(told[0], r'^ddprun: nodes differ in arguments: node 1 \(\S+\) has "--out /n1", node 0 \(\S+\) "--out /n0"$')

    def test_strict_env_refuses_other_arguments(self):
        agents = [self.agent(node, "echo", f"/n{node}", flags=("--strict-env",)) for node in (0, 1)]
        self.assertEqual([agent.wait() for agent in agents], [77, 77])
        self.assertIn('differ in arguments', agents[0].err())

    def test_who_may_differ_says_so_or_has_another_role(self):
        for flags in (("--allow-different",), ()):
            self.port = free_port()
            roles = ((), ()) if flags else (("--role=trainer",), ("--role=evaluator",))
            agents = [self.agent(rank, *worker("exit", "0"), str(rank), flags=(*flags, *roles[rank])) for rank in (0, 1)]
            self.assertEqual([agent.wait() for agent in agents], [0, 0], agents[1].err())

    def test_who_waits_says_who_is_missing(self):
        first = self.agent(0, "true", nnodes=3)
        bound = r"\d+ s of at most 15 min \(--join-timeout\)$"
        first.wait_for_line(rf"^ddprun: joined 1/3, missing node 1, node 2; there: node 0 \(\S+\); {bound}")
        third = self.agent(2, "true", nnodes=3)
        for agent in (first, third):
            agent.wait_for_line(
                rf"^ddprun: joined 2/3, missing node 1; there: node 0 \(\S+\), node 2 \(\S+\); {bound}")
        second = self.agent(1, "true", nnodes=3)
        self.assertEqual([agent.wait() for agent in (first, second, third)], [0, 0, 0])

    def test_who_cannot_reach_node_0_says_why_and_joins_when_it_can(self):
        second = self.agent(1, "true")
        second.wait_for_line(rf"^ddprun: waiting for node 0: cannot connect to 127\.0\.0\.1:{self.port}: .*refused")
        self.assertEqual(self.agent(0, "true").wait(), 0)
        self.assertEqual(second.wait(), 0)

    def test_the_join_timeout_ends_with_69_and_the_same_facts(self):
        flags = ("--rdzv-conf", "join_timeout=1")
        first = self.agent(0, "true", flags=flags)
        self.assertEqual(first.wait(), 69)
        self.assertIn("joined 1/2, missing node 1 after 1 s", first.err())
        self.assertIn("--join-timeout", first.err())
        second = self.agent(1, "true", flags=flags)
        self.assertEqual(second.wait(), 69)
        self.assertRegex(second.err(), r"node 0 was not reached within 1 s: .*refused")
        third = self.launch("--nnodes=2", "--node-rank=1", "--master-addr=no-such-host.invalid", *flags, "true")
        self.assertEqual(third.wait(), 69)
        self.assertIn("cannot resolve no-such-host.invalid", third.err())

    def test_agents_that_do_not_belong_are_refused_and_harm_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            flag = os.path.join(folder, "go")
            first = self.agent(0, *worker("fail-when-file", flag))
            first.wait_for_line("^ddprun: joined 1/2")
            for flags, nnodes, rank, words in (
                    (("--rdzv-id", "other"), 2, 1, ['--rdzv-id is "other"', "belongs to another job"]),
                    ((), 3, 1, ["--nnodes is 3", "--nnodes 2"]),
                    ((), 3, 2, ["--nnodes is 3", "--nnodes 2"])):
                stranger = self.agent(rank, "true", nnodes=nnodes, flags=flags)
                self.assertEqual(stranger.wait(), 77)
                for word in words:
                    self.assertIn(word, stranger.err())
            second = self.agent(1, *worker("ready-then-wait"))
            first.wait_for_line("^ready$")
            second.wait_for_line("^ready$")
            late = self.agent(1, "true", flags=("--rdzv-id", "other"))
            self.assertEqual(late.wait(), 77)
            self.assertNotIn('"none"', late.err(), "a stranger is not told the id that would let it in")
            first.wait_for_line(r'^ddprun: refused an agent on \S+ \(pid \d+\): its --rdzv-id is "other", and this job\'s is "none"$')
            double = self.agent(1, "true")
            self.assertEqual(double.wait(), 77)
            self.assertRegex(double.err(), rf"--node-rank 1 has already joined from .* \(agent pid {second.pid}\)")
            open(flag, "w", encoding="ascii").close()
            self.assertEqual((first.wait(), second.wait()), (7, 7))

    def test_a_stranger_on_the_port_harms_nothing(self):
        first = self.agent(0, "true")
        first.wait_for_line("^ddprun: joined 1/2")
        strangers = []
        for words in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, b"DDPR\xff\xff\xff\xff", b"DDP", b""):
            stranger = socket.create_connection(("127.0.0.1", self.port), timeout=support.HANG_GUARD)
            stranger.sendall(words)
            strangers.append(stranger)
        self.assertEqual(self.agent(1, "true").wait(), 0)
        self.assertEqual(first.wait(), 0)
        for stranger in strangers:
            stranger.close()

    def test_a_signal_while_waiting_ends_at_once(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            first = self.agent(0, "true")
            first.wait_for_line("^ddprun: joined 1/2")
            first.send(number)
            self.assertEqual(first.wait(), 128 + number)

    def test_node_0_may_be_started_again_while_others_wait(self):
        first = self.agent(0, "true")
        second = self.agent(1, "true", nnodes=3)
        second.wait()  # refused: nnodes differ; what matters is that node 0 is up
        third = self.agent(2, "true", nnodes=3)
        third.wait()
        first.send(signal.SIGKILL)
        first.wait()
        waiting = self.agent(1, "true")
        waiting.wait_for_line("waiting for node 0")
        self.assertEqual(self.agent(0, "true").wait(), 0)
        self.assertEqual(waiting.wait(), 0)


class Failing(AgentsTest):
    def failing_job(self, *failure, flags=()):
        """Rank 3 of 4 waits for a file, then does `failure`; returns the agents once all workers are ready."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        go = os.path.join(folder.name, "go")
        words = worker("--only-rank", "3", "say", "ready", "wait-for-file", go, *failure, "else", "ready-then-wait")
        agents = [self.agent(rank, *words, nproc=2, flags=flags) for rank in (0, 1)]
        for agent in agents:
            agent.wait_for_line("^ready$", count=2)
        return agents, lambda: open(go, "w", encoding="ascii").close()

    def test_an_agent_that_stands_still_is_lost_to_the_others_and_finds_out_when_it_comes_back(self):
        for frozen, other in ((1, 0), (0, 1)):
            agents, _ = self.failing_job("exit", "3", flags=("--heartbeat", 2, "-v"))
            pids = [int(agents[1].wait_for_line(rf"rank {rank} of 4: pid (\d+)")[1]) for rank in (2, 3)]
            agents[1].wait_until_idle()  # It may take longer than the limit until it has told that they run.
            agents[frozen].send(signal.SIGSTOP)
            agents[other].wait_for_line(rf"^ddprun: node {frozen} \(.*\) lost: no heartbeat for 2 s$")
            if frozen == 1:  # Its guardian does not wait for it.
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):
                        process = os.pidfd_open(pid)
                        self.assertTrue(select.select([process], [], [], support.HANG_GUARD)[0])
                        os.close(process)
            self.assertEqual(agents[other].wait(), 69)
            agents[frozen].send(signal.SIGCONT)
            self.assertEqual(agents[frozen].wait(), 69)
            # The one that hosts the rendezvous finds the others gone.
            self.assertRegex(agents[frozen].err(), r"node 1 \(.*\) lost: (it stood still for about \d+ s|the connection)")

    def test_every_agent_ends_with_the_code_of_the_first_failing_worker(self):
        for failure, code, text in ((("exit", "42"), 42, "exit code 42"), (("exit", "1"), 1, "exit code 1"),
                                    (("exit", "137"), 137, "exit code 137"),
                                    (("signal", "9"), 137, r"signal 9 \(SIGKILL\)"),
                                    (("signal", "6"), 134, r"signal 6 \(SIGABRT"),
                                    (("signal", "15"), 143, r"signal 15 \(SIGTERM\)")):
            agents, go = self.failing_job(*failure)
            go()
            for agent in agents:
                self.assertEqual(agent.wait(), code)
                self.assertRegex(agent.err(), rf"rank 3 \(local rank 1\) on node 1 \(.+\), pid \d+: {text}")
                self.assertEqual(agent.err().count("first failure"), 1)

    def test_a_program_missing_on_one_node_ends_all(self):
        first = self.agent(0, *worker("ready-then-wait"))
        second = self.agent(1, "./no-such-program")
        for agent in (first, second):
            self.assertEqual(agent.wait(), 127)
            self.assertIn("no-such-program", agent.err())
            self.assertIn("node 1", agent.err())

    def test_a_lost_agent_is_named_and_ends_the_others(self):
        agents, _ = self.failing_job()
        agents[1].send(signal.SIGKILL)
        self.assertEqual(agents[0].wait(), 69)
        self.assertRegex(agents[0].err(), rf"node 1 \(.+\).*lost")
        self.assertIn(str(agents[1].pid), agents[0].err())

    def test_a_lost_host_is_named_and_ends_the_others(self):
        agents, _ = self.failing_job()
        agents[0].send(signal.SIGKILL)
        self.assertEqual(agents[1].wait(), 69)
        self.assertRegex(agents[1].err(), r"node 0 .*lost")

    def test_early_success_waits_for_the_others_and_shares_their_fate(self):
        with tempfile.TemporaryDirectory() as folder:
            go = os.path.join(folder, "go")
            first = self.agent(0, *worker("say", "done"))
            second = self.agent(1, *worker("say", "ready", "wait-for-file", go, "exit", "9"))
            first.wait_for_line("^done$")
            second.wait_for_line("^ready$")
            open(go, "w", encoding="ascii").close()
            self.assertEqual((first.wait(), second.wait()), (9, 9))
            self.assertIn("exit code 9", first.err())

    def test_the_host_leaves_last(self):
        # The store must answer as long as any worker lives, also when node 0 has long finished its work.
        with tempfile.TemporaryDirectory() as folder:
            go = os.path.join(folder, "go")
            first = self.agent(0, *worker("say", "done"))
            second = self.agent(1, *worker("say", "ready", "wait-for-file", go))
            first.wait_for_line("^done$")
            second.wait_for_line("^ready$")
            socket.create_connection(("127.0.0.1", self.port), timeout=support.HANG_GUARD).close()
            self.assertIsNone(first.process.poll())
            open(go, "w", encoding="ascii").close()
            self.assertEqual((first.wait(), second.wait()), (0, 0))


class Signals(AgentsTest):
    def test_a_signal_to_one_agent_reaches_every_worker(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            for target in (0, 1):
                agents = [self.agent(rank, *worker("ready-then-wait"), nproc=2) for rank in (0, 1)]
                for agent in agents:
                    agent.wait_for_line("^ready$", count=2)
                agents[target].send(number)
                for agent in agents:
                    self.assertEqual(agent.wait(), 128 + number)
                    self.assertIn(signal.Signals(number).name, agent.err())

    def test_workers_that_end_in_order_after_a_signal_mean_75(self):
        agents = [self.agent(rank, *worker("exit-zero-on-term"), nproc=2) for rank in (0, 1)]
        for agent in agents:
            agent.wait_for_line("^ready$", count=2)
        agents[1].send(signal.SIGTERM)
        for agent in agents:
            self.assertEqual(agent.wait(), 75)
            self.assertEqual(agent.out().count("got SIGTERM"), 2)

    def test_after_the_grace_comes_sigkill(self):
        agents = [self.agent(rank, *worker("ignore-term"), flags=("--shutdown-timeout", "1")) for rank in (0, 1)]
        for agent in agents:
            agent.wait_for_line("^ready$")
        agents[0].send(signal.SIGTERM)
        self.assertEqual([agent.wait() for agent in agents], [143, 143])

    def test_a_second_interrupt_ends_the_grace(self):
        job = self.launch("--grace", 3600, *worker("print-signals"))
        job.wait_for_line("^ready$")
        job.send(signal.SIGINT)
        job.wait_for_line("^SIGINT$")
        job.interrupt_until_gone()
        self.assertEqual(job.wait(), 130)

    def test_a_stopped_worker_ends_too(self):
        job = self.launch("--grace", 3600, *worker("stop-itself"))
        job.wait_for_line("^ready$")
        job.send(signal.SIGTERM)
        self.assertEqual(job.wait(), 143)

    def test_sighup_that_was_ignored_stays_ignored(self):
        with tempfile.TemporaryDirectory() as folder:
            go = os.path.join(folder, "go")
            job = self.launch(*worker("dispositions", "say", "ready", "wait-for-file", go), prefix=["nohup"])
            job.wait_for_line("^ready$")
            self.assertIn("ignored SIGHUP", job.out())
            job.send(signal.SIGHUP)
            open(go, "w", encoding="ascii").close()
            self.assertEqual(job.wait(), 0)

    def test_workers_die_with_the_launcher(self):
        job = self.launch("--nproc-per-node", 3, *worker("ignore-term"))
        job.wait_for_line("^ready$", count=3)
        job.send(signal.SIGKILL)
        job.wait()
        # tearDown insists that nothing is left.


class Many(AgentsTest):
    def test_a_hundred_short_jobs_end_without_noise(self):
        failures = []

        def run(count):
            for _ in range(count):
                code, out, err = self.run_job("--nproc-per-node", 2, "true")
                if (code, out, err) != (0, "", ""):
                    failures.append((code, out, err))

        threads = [threading.Thread(target=run, args=(25,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_the_launcher_is_small(self):
        job = self.launch("--nproc-per-node", 8, *worker("ready-then-wait"))
        job.wait_for_line("^ready$", count=8)
        with open(f"/proc/{job.pid}/status", encoding="ascii") as status:
            peak_kib = int(re.search(r"^VmHWM:\s+(\d+) kB$", status.read(), re.MULTILINE)[1])
        job.send(signal.SIGTERM)
        job.wait()
        if os.environ.get("DDPRUN_SANITIZED"):
            print(f"peak memory {peak_kib} KiB, not judged: a sanitizer's is in it")
        else:
            self.assertLess(peak_kib, 20 * 1024)


if __name__ == "__main__":
    support.main()
