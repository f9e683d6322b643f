"""Limits of time: the job's own, the warning before it or before a scheduler's, and the wait for ranks that run on.

Nothing here is measured. Where workers have to be ready before a time has passed, they get more of it until they are.
"""

import json
import os
import tempfile
import time

from support import EndToEndTest, free_port, main, worker

LONG = 3600  # seconds; no test waits for it
TRIES = (1, 4, 16, 60)  # seconds for a job's workers to be ready
PREEMPTED = 75
OVERDUE = 124


class TimesTest(EndToEndTest):
    def two_nodes(self, *words, flags=(), nproc=(2, 2)):
        """Agents of one job; flags for all, or a pair of them for each node."""
        port = free_port()
        per_node = flags if flags and isinstance(flags[0], tuple) else (flags, flags)
        return [self.launch("--nnodes", 2, "--node-rank", rank, "--nproc-per-node", nproc[rank], "--master-addr", "127.0.0.1",
                            "--master-port", port, *per_node[rank], *words) for rank in (0, 1)]

    def count(self, agents, line):
        return sum(agent.seen["out"].count(line) for agent in agents)

    def end(self, agents):
        """Ends the job and returns the agents' exit codes."""
        for agent in agents:
            if agent.process.poll() is None:
                agent.send(9)
        return [agent.wait() for agent in agents]


class TimeLimit(TimesTest):
    def test_it_ends_the_job_on_all_nodes_and_says_why(self):
        with tempfile.TemporaryDirectory() as folder:
            result = os.path.join(folder, "result")
            for seconds in TRIES:
                # The limit of node 1 is not the job's.
                agents = self.two_nodes(*worker("ready-then-wait"), flags=(
                    ("--time-limit", f"{seconds}s", "--max-restarts", 3, "--result-file", result), ("--time-limit", "1ms")))
                codes = [agents[0].wait()]
                if self.count(agents, "ready") > 0:
                    break
                self.end(agents)
            codes.append(agents[1].wait())
            self.assertEqual(codes, [143, 143])
            for agent in agents:
                self.assertRegex(agent.err(), r"worker_stub was stopped, because the time limit "
                                              rf"\(--time-limit {seconds}s\) has passed\n")
                self.assertNotIn("sent to ddprun", agent.err())
            with open(result, encoding="utf-8") as file:
                written = json.load(file)
            self.assertEqual(written["outcome"], "signalled")
            self.assertEqual(written["first_failure"]["kind"], "signalled")
            self.assertEqual(written["first_failure"]["message"], f"the time limit (--time-limit {seconds}s) has passed")
            self.assertEqual(written["restart_count"], 0)

    def test_workers_that_save_and_end_with_0_are_preempted(self):
        for seconds in TRIES:
            job = self.launch("--time-limit", seconds, "--nproc-per-node", 2, *worker("exit-zero-on-term"))
            code = job.wait()
            if job.seen["out"].count("ready") == 2:
                break
        self.assertEqual(code, PREEMPTED, job.err())
        self.assertEqual(job.seen["out"].count("got SIGTERM"), 2)

    def test_it_counts_while_nodes_are_missing(self):
        job = self.launch("--nnodes", 2, "--master-addr", "127.0.0.1", "--master-port", free_port(), "--time-limit",
                          "100ms", "true")
        self.assertEqual(job.wait(), 143)
        self.assertEqual(job.err(), "ddprun: the time limit (--time-limit 100ms) has passed before any worker was started")

    def test_a_job_that_ends_before_hears_nothing_of_it(self):
        job = self.launch("--time-limit", LONG, "--warn-before", 5, "true")
        self.assertEqual((job.wait(), job.err()), (0, ""))


class WarnBefore(TimesTest):
    def ready_before(self, start):
        """Starts a job that is warned so many seconds later; again, with more of them, until it is ready before that.

        SIGURG ends nobody who has no handler for it yet.
        """
        for seconds in TRIES:
            began = time.monotonic()
            agents = start(seconds)
            for agent in agents:
                agent.wait_for_line("^ready$", count=2)
            if time.monotonic() < began + seconds:
                return agents
            self.end(agents)
        raise AssertionError("no time is enough for the workers to be ready")

    def test_all_workers_of_two_nodes_get_the_signal_once(self):
        agents = self.ready_before(lambda seconds: self.two_nodes(
            *worker("print-signals"), flags=("--time-limit", LONG, "--warn-before", f"{LONG - seconds}:URG")))
        agents[0].wait_for_line(r"^ddprun: SIGURG to all workers, \d+ s before the limit \(--warn-before \d+:URG\)$")
        for agent in agents:
            agent.wait_for_line("^SIGURG$", count=2)
        self.end(agents)
        self.assertEqual(self.count(agents, "SIGURG"), 4)
        self.assertNotIn("SIGURG to", agents[1].err())

    def test_slurm_s_end_is_a_limit_and_the_signal_may_requeue(self):
        # Of two limits the earlier one counts, or nobody would wait for the warning.
        job, = self.ready_before(lambda seconds: [self.launch(
            "--time-limit", 3 * LONG, "--warn-before", f"{LONG}:URG", "--requeue-on", "URG", "--nproc-per-node", 2,
            "bash", "-c", f"trap 'exit 0' URG; echo ready; sleep {LONG} & wait",
            env={"SLURM_JOB_END_TIME": str(int(time.time()) + LONG + seconds + 1)})])
        self.assertEqual(job.wait(), PREEMPTED, job.err())
        self.assertIn("requeue the job", job.err())

    def test_an_end_that_has_passed_warns_at_once_and_ends_nothing(self):
        job = self.launch("--warn-before", LONG, *worker("ready-then-wait"), env={"SLURM_JOB_END_TIME": "1"})
        self.assertEqual(job.wait(), 138, job.err())
        self.assertIn("ddprun: SIGUSR1 to all workers, the limit is reached (--warn-before 3600)", job.err())
        self.assertIn("signal 10 (SIGUSR1)", job.err())

    def test_a_round_that_begins_later_is_warned_too(self):
        with tempfile.TemporaryDirectory() as folder:
            job = self.launch("--warn-before", 5, "--max-restarts", 1, "--result-file", os.path.join(folder, "result"),
                              *worker("ready-then-wait"), env={"SLURM_JOB_END_TIME": "1"})
            self.assertEqual(job.wait(), 138, job.err())
            self.assertEqual(job.err().count("SIGUSR1 to all workers"), 2)

    def test_without_a_limit_it_is_refused(self):
        code, _, err = self.run_job("--warn-before", 5, "true", env={"SLURM_JOB_END_TIME": ""})
        self.assertEqual((code, err), (2, "ddprun: --warn-before 5: no limit is known; give --time-limit, or run where Slurm "
                                          "sets SLURM_JOB_END_TIME"))


class ExitWait(TimesTest):
    def test_one_line_on_node_0_names_who_still_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "log")
            gate = os.path.join(folder, "gate")
            agents = self.two_nodes(*worker("--only-rank", "2", "exit", "0", "else", "wait-for-file", gate),
                                    flags=("--exit-wait", "0.2", "--log-file", log))
            line = r"0\.2 s after rank 2 ended with 0, 3 ranks are still running: 0-1,3 \(--exit-wait 0\.2\)"
            agents[0].wait_for_line(rf"^ddprun: {line}$")
            with open(gate, "w", encoding="utf-8"):
                pass
            for agent in agents:
                self.assertEqual(agent.wait(), 0, agent.err())
            self.assertEqual(len(agents[0].err().splitlines()), 1)
            self.assertEqual(agents[1].err(), "")
            with open(log, encoding="utf-8") as file:
                self.assertRegex(file.read(), line)

    def test_with_kill_the_job_ends_and_names_the_first_of_them(self):
        agents = self.two_nodes(*worker("--only-rank", "0", "exit", "0", "else", "exit-zero-on-term"),
                                flags=("--exit-wait", "1:kill"), nproc=(1, 2))
        reason = (r"was stopped, because rank 1 \(local rank 0\) on node 1 \(.*\), pid \d+, was still running 1 s after rank "
                  r"0 had ended with 0 \(--exit-wait 1:kill\)")
        for agent in agents:
            self.assertEqual(agent.wait(), OVERDUE, agent.err())
            self.assertRegex(agent.err(), reason)
        self.assertRegex(agents[0].err(), r"2 ranks are still running: 1-2 \(--exit-wait 1:kill\)")

    def test_who_ends_in_time_is_not_named(self):
        for flag in (LONG, f"{LONG}:kill"):
            job = self.launch("--nproc-per-node", 3, "--exit-wait", flag, "true")
            self.assertEqual((job.wait(), job.err()), (0, ""))

    def test_with_kill_a_restart_may_follow(self):
        with tempfile.TemporaryDirectory() as folder:
            gate = os.path.join(folder, "gate")
            job = self.launch("--nproc-per-node", 2, "--exit-wait", "0:kill", "--max-restarts", 1, "--no-python", "bash", "-c",
                              f'[ $RANK = 0 ] || [ -e {gate} ] || {{ touch {gate}; exec sleep {LONG}; }}')
            code = job.wait()
            self.assertIn(code, (0, OVERDUE), job.err())  # the second round's ranks need not end at the same instant
            self.assertRegex(job.err(), r"rank 1 on node 0 \(.*\): still running 0 s after rank 0 had ended with 0 .*; "
                                        r"restart 1 of 1")


if __name__ == "__main__":
    main()
