"""Whom signals reach and what they make of the job: --signal-scope, --requeue-on, the grace's words, Ctrl-Z."""

import json
import os
import re
import signal
import subprocess
import tempfile
import time

import support
from process_tree import below
from support import EndToEndTest, ShellTest, free_port, main, program, worker

PREEMPTED = 75


class Scope(EndToEndTest):
    CHILD_TOO = ("fork", "print-signals", "end", "print-signals")

    def end(self, job):
        """By interrupts of which the workers get one."""
        job.send(signal.SIGINT)
        job.wait_for_line("^SIGINT$")
        job.interrupt_until_gone()
        self.assertEqual(job.wait(), 128 + signal.SIGINT)

    def test_the_whole_group_where_that_is_wanted(self):
        for words, env in ((("--signal-scope", "group"), {}), ((), {"DDPRUN_SIGNAL_SCOPE": "group"})):
            job = self.launch(*words, "--grace", 3600, "--forward", "USR1", *worker(*self.CHILD_TOO), env=env)
            job.wait_for_line("^ready$", count=2)
            job.send(signal.SIGUSR1)
            job.wait_for_line("^SIGUSR1$", count=2)
            self.end(job)

    def test_else_the_one_who_handles_it_alone(self):
        for words in ((), ("--signal-scope", "leader")):
            job = self.launch(*words, "--grace", 3600, "--forward", "USR1", *worker(*self.CHILD_TOO))
            job.wait_for_line("^ready$", count=2)
            job.send(signal.SIGUSR1)
            job.wait_for_line("^SIGUSR1$")
            self.end(job)
            self.assertEqual((job.out().count("SIGUSR1"), job.out().count("SIGINT")), (1, 1))

    def test_what_is_left_is_asked_when_the_leader_has_ended(self):
        job = self.launch("--grace", 3600, *worker("fork", "exit-zero-on-term", "end", "exit-zero-on-term"))
        job.wait_for_line("^ready$", count=2)
        job.send(signal.SIGTERM)
        self.assertEqual(job.wait(), PREEMPTED)
        self.assertEqual(job.out().count("got SIGTERM"), 2)

    def test_many_who_leave_it_to_their_children_are_told_by_few_looks(self):
        """The guardian reads the table of processes once for all that are told in one turn, not once for each."""
        def reads(guardian):
            with open(f"/proc/{guardian}/io", encoding="ascii") as counters:
                return int(re.search(r"syscr: (\d+)", counters.read())[1])

        many = 96
        with tempfile.TemporaryDirectory() as folder:
            go = os.path.join(folder, "go")
            job = self.launch("--nproc-per-node", many, "--max-restarts", 1, "--min-uptime", 0, "sh", "-c",
                              f"echo ready; [ $RANK$TORCHELASTIC_RESTART_COUNT = 00 ] || exec sleep 1000; "
                              f"until [ -e {go} ]; do sleep 0.01; done; exit 1")
            job.wait_for_line("^ready$", count=many)
            guardian = below(job.pid, "rank-guardian")
            before = reads(guardian)
            open(go, "w", encoding="ascii").close()
            job.wait_for_line("^ready$", count=many)
            self.assertLess(reads(guardian) - before, many * many)
            job.send(signal.SIGTERM)
            job.wait()

    def test_python_that_catches_sigint_by_itself(self):
        job = self.launch("--grace", 3600, "--no-python", "python3", "-c",
                          "import threading; print('ready', flush=True); threading.Event().wait()")
        job.wait_for_line("^ready$")
        job.send(signal.SIGINT)
        self.assertEqual(job.wait(), 128 + signal.SIGINT)
        self.assertIn("KeyboardInterrupt", job.err())


class Unexpected(EndToEndTest):
    """Signals that nobody has given a meaning end the job as SIGTERM does."""

    def test_it_ends_with_a_word_and_the_grace(self):
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGXCPU, signal.SIGPWR, signal.SIGPROF,
                       signal.SIGVTALRM, signal.SIGIO, signal.SIGRTMIN, signal.SIGRTMAX):
            job = self.launch("--grace", 3600, "--nproc-per-node", 2, *worker("exit-zero-on-term"))
            job.wait_for_line("^ready$", count=2)
            job.send(number)
            self.assertEqual(job.wait(), PREEMPTED, number)
            self.assertEqual(job.out().count("got SIGTERM"), 2)
            self.assertRegex(job.err(), r"(?m)^ddprun: .*SIG\S+ came, which has no meaning here \(--forward ")

    def test_one_that_the_job_was_started_to_ignore_is_ignored(self):
        job = self.launch("--grace", 3600, *worker("exit-zero-on-term"), prefix=("sh", "-c", 'trap "" USR2; exec "$@"', "-"))
        job.wait_for_line("^ready$")
        job.send(signal.SIGUSR2)
        job.send(signal.SIGTERM)
        self.assertEqual(job.wait(), PREEMPTED)
        self.assertNotIn("SIGUSR2", job.err())

    def test_who_blocks_signals_starts_a_launcher_that_hears_them(self):
        blocking = ("import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals()); "
                    "os.execv(sys.argv[1], sys.argv[1:])")
        job = self.launch("--grace", 3600, *worker("exit-zero-on-term"), prefix=("python3", "-c", blocking))
        job.wait_for_line("^ready$")
        job.send(signal.SIGTERM)
        self.assertEqual(job.wait(), PREEMPTED)


class Grace(EndToEndTest):
    def test_who_has_not_ended_is_said_at_half_the_grace_and_at_its_end(self):
        with tempfile.TemporaryDirectory() as folder:
            result = os.path.join(folder, "result.json")
            job = self.launch("--nproc-per-node", 3, "--grace", 1, "--result-file", result,
                              *worker("--only-rank", "1", "exit-zero-on-term", "else", "ignore-term"))
            job.wait_for_line("^ready$", count=3)
            job.send(signal.SIGTERM)
            self.assertEqual(job.wait(), 128 + signal.SIGTERM)
            # On a slow machine rank 1 is among them.
            self.assertRegex(job.err(), r"(?m)^ddprun: ranks 0(,|-)2 have not ended 0\.5 s after SIGTERM; SIGKILL in "
                                        r"0\.5 s \(--grace 1\)$")
            self.assertRegex(job.err(), r"(?m)^ddprun: ranks 0(,|-)2 have not ended 1 s after SIGTERM: SIGKILL "
                                        r"\(--grace 1\)$")
            self.assertRegex(job.err(), r"rank 2 .*: stopped by ddprun, signal 9 \(SIGKILL\) when --grace had passed")
            with open(result, encoding="utf-8") as file:
                ranks = json.load(file)["ranks"]
            self.assertTrue(ranks[0]["outlasted_grace"] and ranks[2]["outlasted_grace"], ranks)

    def test_a_stop_after_a_failure_that_takes_long_says_for_how_long(self):
        with tempfile.TemporaryDirectory() as folder:
            mark = os.path.join(folder, "mark")
            job = self.launch("--nproc-per-node", 3, "--grace", 40,
                              *worker("--only-rank", 1, "wait-for-file", mark, "exit", 3, "else", "ignore-term"))
            job.wait_for_line("^ready$", count=2)
            open(mark, "w", encoding="ascii").close()
            job.wait_for_line(r"^ddprun: waiting for ranks 0,2 to end, up to 38 s more \(--grace\)$")
            job.interrupt_until_gone()
            self.assertEqual(job.wait(), 3)

    def test_at_half_the_grace_the_group_is_asked(self):
        job = self.launch("--grace", 2, "--signal-scope", "leader",
                          *worker("fork", "exit-zero-on-term", "end", "ignore-term"))
        job.wait_for_line("^ready$", count=2)
        job.send(signal.SIGTERM)
        self.assertEqual(job.wait(), 128 + signal.SIGTERM)
        self.assertIn("got SIGTERM", job.out())

    def test_python_that_is_ending_by_then_keeps_its_exit_code(self):
        # What Python does last, without its handlers.
        script = """if True:
            import os, signal, sys, time
            class Slow:
                def __del__(self, os=os, time=time, print=print, go=sys.argv[1]):
                    print("ending", flush=True)
                    # By now the program has no loop, and no event tells of a file that appears.
                    while not os.path.exists(go): time.sleep(0.01)
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
            slow = Slow()
            print("ready", flush=True)
            while True: signal.pause()
            """
        with tempfile.TemporaryDirectory() as folder:
            go, result = os.path.join(folder, "go"), os.path.join(folder, "result.json")
            job = self.launch("--grace", 8, "--result-file", result, "--no-python", "python3", "-c", script, go)
            job.wait_for_line("^ready$")
            job.send(signal.SIGTERM)
            job.wait_for_line("^ending$")
            job.wait_for_line("has not ended 4 s after SIGTERM; ")
            open(go, "w", encoding="ascii").close()
            job.wait()
            with open(result, encoding="utf-8") as file:
                self.assertEqual(json.load(file)["ranks"][0]["exit_code"], 75)

    def test_nothing_is_said_where_all_end_or_quiet_is_wanted(self):
        for words, modes in (((), "exit-zero-on-term"), (("--quiet", "--grace", 1), "ignore-term")):
            job = self.launch(*words, *worker(modes))
            job.wait_for_line("^ready$")
            job.send(signal.SIGTERM)
            job.wait()
            self.assertNotIn("have not ended", job.err())


class Suspended(EndToEndTest):
    def test_a_node_that_ctrl_z_stops_is_not_lost(self):
        for suspended in (0, 1):
            port = free_port()
            # A group of its own, in which a shell could continue it.
            agents = [self.launch("--nnodes", 2, "--node-rank", rank, "--master-addr", "127.0.0.1", "--master-port", port,
                                  "--heartbeat", 3, *worker("exit-zero-on-term"), process_group=0) for rank in (0, 1)]
            for agent in agents:
                agent.wait_for_line("^ready$")
            agents[suspended].send(signal.SIGTSTP)
            os.waitid(os.P_PID, agents[suspended].pid, os.WSTOPPED | os.WNOWAIT)
            time.sleep(5)  # longer than the limit: no event tells that nothing happens
            agents[suspended].send(signal.SIGCONT)
            agents[0].send(signal.SIGTERM)
            for agent in agents:
                self.assertEqual(agent.wait(), PREEMPTED, agent.err())
                self.assertNotIn("lost", agent.err())


class Requeue(EndToEndTest):
    def run_two_nodes(self, *words, modes=("exit-zero-on-term",)):
        """USR1, as SIGTERM to the workers, to the agent of node 1; exit codes and result files of both."""
        with tempfile.TemporaryDirectory() as folder:
            port = free_port()
            files = [os.path.join(folder, str(rank)) for rank in (0, 1)]
            agents = [self.launch("--nnodes", 2, "--node-rank", rank, "--nproc-per-node", 2, "--master-addr",
                                  "127.0.0.1", "--master-port", port, "--forward", "USR1=TERM", "--result-file",
                                  files[rank], *words, *worker(*modes)) for rank in (0, 1)]
            for agent in agents:
                agent.wait_for_line("^ready$", count=2)
            agents[1].send(signal.SIGUSR1)
            codes = [agent.wait() for agent in agents]
            outcomes = []
            for path in files:
                with open(path, encoding="utf-8") as file:
                    outcomes.append(json.load(file)["outcome"])
            return codes, outcomes, [agent.err() for agent in agents]

    def test_all_zero_afterwards_means_75_on_every_node(self):
        codes, outcomes, texts = self.run_two_nodes("--requeue-on", "USR1")
        self.assertEqual((codes, outcomes), ([PREEMPTED] * 2, ["preempted"] * 2))
        for text in texts:
            self.assertIn("ddprun: all ranks ended with 0 after a signal of --requeue-on: requeue the job", text)

    def test_no_signal_changes_a_code_that_is_decided(self):
        """Signals come until the very end of each agent, which has a thread for names besides."""
        port = free_port()
        agents = [self.launch("--nnodes=3", "--node-rank", node, "--master-addr=localhost", "--master-port", port,
                              "sh", "-c", "trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done") for node in range(3)]
        for agent in agents:
            agent.wait_for_line("^ready$")
        left = list(agents)
        while left:
            for agent in left:
                agent.send(signal.SIGTERM)
            left = [agent for agent in left if agent.process.poll() is None]
        self.assertEqual([agent.wait() for agent in agents], [PREEMPTED] * 3)

    def test_a_signal_that_is_only_forwarded_changes_no_exit_code(self):
        codes, outcomes, texts = self.run_two_nodes("--requeue-on", "USR2")
        self.assertEqual((codes, outcomes, texts), ([0, 0], ["succeeded"] * 2, ["", ""]))

    def test_a_worker_that_fails_has_its_own_code(self):
        codes, outcomes, _ = self.run_two_nodes("--requeue-on", "USR1",
                                                modes=("--only-rank", "3", "ready-then-wait", "else", "exit-zero-on-term"))
        self.assertEqual((codes, outcomes), ([128 + signal.SIGTERM] * 2, ["failed"] * 2))


class ToAllAgents(EndToEndTest):
    def test_what_a_scheduler_sends_to_every_agent_each_worker_gets_once(self):
        trainer = os.path.join(os.path.dirname(__file__), "..", "helpers", "counting_trainer.py")
        port = free_port()
        with tempfile.TemporaryDirectory() as folder:
            agents = [self.launch("--nnodes", 3, "--node-rank", rank, "--nproc-per-node", 2, "--master-addr", "127.0.0.1",
                                  "--master-port", port, "--forward", "USR1", "python3", trainer, folder, 1000)
                      for rank in range(3)]
            for agent in agents:
                agent.wait_for_line("begins at 0", count=2)
            for agent in agents:
                agent.send(signal.SIGUSR1)
            for agent in agents:
                agent.wait_for_line("gets SIGUSR1", count=2)
            # What an agent has said of the first signal comes before what it says of this one.
            for agent in reversed(agents):
                agent.send(signal.SIGTERM)
            self.assertEqual([agent.wait() for agent in agents], [PREEMPTED] * 3, agents[0].err())
            self.assertEqual([agent.out().count("gets SIGUSR1") for agent in agents], [2] * 3)


class KeyboardStop(ShellTest):
    def start(self, form="{}"):
        """Two ranks with two children each; their pids."""
        command = " ".join((program("ddprun"), "--nproc-per-node 2 --grace 3600", *worker(
            "session", "fork", "ready-then-wait", "end", "grandchild", "ready-then-wait")))
        self.shell.type(form.format(command).encode() + b"\n")
        screen = self.shell.expect(r"(?=(?:[\s\S]*^ready$){4})(?=(?:[\s\S]* ppid ){2})").string
        return [int(pid) for pid in re.findall(r"pid (\d+) ppid", screen)]

    def await_states(self, pids, stopped):
        """Until the processes of these groups all are stopped, or none is."""
        deadline = time.monotonic() + support.HANG_GUARD
        while True:
            table = subprocess.run(["ps", "-e", "-o", "pgid=,stat="], capture_output=True, text=True, check=True)
            rows = [line.split() for line in table.stdout.splitlines()]
            states = [state for group, state in rows if int(group) in pids]
            if len(states) == 6 and all((state[0] == "T") == stopped for state in states):
                return
            self.assertLess(time.monotonic(), deadline, states)
            time.sleep(0.01)  # That a process which is not our child was stopped is no event for us.

    def press_ctrl_z(self, pids):
        self.shell.type(b"\x1a")
        self.shell.expect(r"^\[1\]\+\s+Stopped ")
        self.await_states(pids, stopped=True)

    def test_ctrl_z_stops_the_workers_and_fg_continues_them(self):
        pids = self.start()
        for _ in range(2):
            self.press_ctrl_z(pids)
            self.shell.type(b"fg\n")
            self.await_states(pids, stopped=False)
        self.shell.type(b"\x03")
        self.shell.expect("exiting with code 130")
        self.shell.type(b"echo code $?\n")
        self.shell.expect("code 130$")

    def test_bg_continues_the_workers_too(self):
        pids = self.start()
        self.press_ctrl_z(pids)
        self.shell.type(b"bg\n")
        self.await_states(pids, stopped=False)
        self.shell.type(b"kill %1; wait %1; echo code $?\n")
        self.shell.expect("code 143$")

    def test_a_stopped_job_is_ended_by_a_signal(self):
        pids = self.start()
        self.press_ctrl_z(pids)
        self.shell.type(b"kill -TERM %1; fg\n")
        self.shell.expect("exiting with code 143")

    def test_a_launcher_that_was_told_to_ignore_ctrl_z_does(self):
        self.start(form="sh -c \"trap '' TSTP; exec {}\"")
        self.shell.type(b"\x1a")
        # Told after the key, and the only one that has an effect.
        self.shell.type(b"\x03")
        self.shell.expect("exiting with code 130")
        self.assertNotIn("Stopped", self.shell.seen)


if __name__ == "__main__":
    main()
