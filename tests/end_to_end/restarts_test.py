"""Rounds after failures, and signals that do not end the job."""

import os
import re
import signal
import tempfile

import support
from support import EndToEndTest, free_port, program, worker


def shell(script):
    return ["sh", "-c", script]


class Restarts(EndToEndTest):
    def agents(self, *words, nproc=2, flags=(), nnodes=2, **options):
        port = free_port()
        return [self.launch("--nnodes", nnodes, "--node-rank", rank, "--nproc-per-node", nproc, "--master-addr",
                            "127.0.0.1", "--master-port", port, *flags, *words, **options) for rank in range(nnodes)]

    def test_attempt_and_reason_are_the_same_on_all_ranks(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        # The rank that fails waits until all four have spoken.
        agents = self.agents(*shell(
            'echo "try $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS round $DDPRUN_ROUND: '
            '$DDPRUN_RESTART_REASON"; if [ $TORCHELASTIC_RESTART_COUNT = 2 ]; then exit 0; fi; '
            f'touch {folder.name}/$DDPRUN_ROUND.$RANK; '
            f'if [ $RANK = $TORCHELASTIC_RESTART_COUNT ]; then for rank in 0 1 2 3; do '
            f'while [ ! -e {folder.name}/$DDPRUN_ROUND.$rank ]; do sleep 0.01; done; done; exit 5; fi; exec sleep 1000'),
            flags=("--max-restarts", 3))
        for agent in agents:
            self.assertEqual(agent.wait(), 0, agent.err())
            lines = agent.out().splitlines()
            self.assertEqual(lines.count("try 0 of 3 round 0: "), 2)
            for attempt in (1, 2):
                found = [line for line in lines if line.startswith(f"try {attempt} of 3 round {attempt}: ")]
                self.assertEqual(len(found), 2)
                self.assertRegex(found[0], rf"rank {attempt - 1} on node 0 \(.+\): exit code 5$")
                self.assertEqual(found[0], found[1])
            self.assertRegex(agent.err(), "restart 1 of 3")
            self.assertRegex(agent.err(), "restart 2 of 3")

    def test_the_budget_is_the_jobs_whichever_node_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            # Each round another rank fails; the rounds are counted in a file.
            agents = self.agents(*shell(
                f'if [ $RANK = $((DDPRUN_ROUND % 4)) ]; then echo x >> {folder}/rounds; exit 9; fi; exec sleep 1000'),
                flags=("--max-restarts", 5, "--min-uptime", "0", "--same-failure", 0))
            for agent in agents:
                self.assertEqual(agent.wait(), 9)
                self.assertIn("all 5 of --max-restarts are used up", agent.err())
            with open(os.path.join(folder, "rounds"), encoding="ascii") as rounds:
                self.assertEqual(len(rounds.readlines()), 6)

    def test_a_new_round_finds_an_empty_store_and_no_old_worker(self):
        port = free_port()
        with tempfile.TemporaryDirectory() as folder:
            lock = os.path.join(folder, "lock")
            # A worker that takes its time to end must be gone before the next round begins.
            code, out, err = self.run_job(
                "--master-port", port, "--nproc-per-node", 2, "--max-restarts", 1, *shell(
                    f'if [ $RANK = 1 ]; then trap "sleep 0.3; rmdir {lock}; exit 0" TERM; mkdir {lock} || echo OLD WORKER; '
                    f'[ $DDPRUN_ROUND = 1 ] && rmdir {lock} && exit 0; echo ready; while :; do sleep 0.05; done; fi; '
                    f'[ $DDPRUN_ROUND = 1 ] && exit 0; while [ ! -d {lock} ]; do sleep 0.05; done; exit 3'))
            self.assertEqual(code, 0, err)
            self.assertNotIn("OLD WORKER", out)

    def test_which_failures_are_restarted(self):
        for flags, code, rounds in ((("--restart-on", "3,64-78"), 3, 2), (("--restart-on", "3,64-78"), 4, 1),
                                    (("--no-restart-on", "4"), 4, 1), (("--no-restart-on", "4"), 5, 2)):
            with self.subTest(flags=flags, code=code):
                status, out, _ = self.run_job("--max-restarts", 1, *flags, *worker("say", "round", "exit", str(code)))
                self.assertEqual((status, out.count("round")), (code, rounds))
        status, _, err = self.run_job("--max-restarts", 3, "./no-such-program")
        self.assertEqual(status, 127)
        self.assertEqual(err, "ddprun: ./no-such-program: no such file")

    def test_three_restarts_without_progress_are_enough(self):
        status, out, err = self.run_job("--max-restarts", 50, *shell("echo round; exit $((DDPRUN_ROUND + 5))"))
        self.assertEqual((status, out.count("round")), (8, 4))
        self.assertIn("3 restarts in a row without progress", err)

    def test_the_same_failure_again_ends_the_job_before_its_budget(self):
        # Whichever rank of whichever node fails, and whatever it says of itself.
        agents = self.agents(*shell(
            'if [ $RANK = $((DDPRUN_ROUND % 4)) ]; then echo "[rank$RANK] pid $$: no such file" >&2; exit 9; fi; '
            'exec sleep 1000'), flags=("--max-restarts", 10, "--min-uptime", 0))
        for agent in agents:
            self.assertEqual(agent.wait(), 9, agent.err())
            self.assertIn("restart 2 of 10", agent.err())
            self.assertNotIn("restart 3 of 10", agent.err())
            self.assertIn("no restart: the same failure 3 times in a row (--same-failure 3)\n", agent.err())

    def test_another_failure_in_between_is_no_row(self):
        flags = ("--max-restarts", 4, "--min-uptime", 0, "--same-failure", 2)
        status, out, err = self.run_job(*flags, *shell("echo round; exit $((DDPRUN_ROUND % 2 + 5))"))
        self.assertEqual((status, out.count("round")), (5, 5))
        self.assertIn("all 4 of --max-restarts are used up", err)
        status, out, err = self.run_job(*flags, *shell("echo round; exit $((DDPRUN_ROUND / 2 + 5))"))
        self.assertEqual((status, out.count("round")), (5, 2))
        self.assertIn("the same failure 2 times in a row (--same-failure 2)", err)

    def test_a_progress_file_that_changes_keeps_the_job_going(self):
        with tempfile.TemporaryDirectory() as folder:
            progress = os.path.join(folder, "progress")
            status, out, _ = self.run_job("--max-restarts", 6, "--progress-file", progress, *shell(
                f'echo round; echo $DDPRUN_ROUND >> {progress}; exit 6'))
            self.assertEqual((status, out.count("round")), (6, 7))
            status, out, err = self.run_job("--max-restarts", 6, "--progress-file", progress, "--same-failure", 0,
                                            *worker("say", "round", "exit", "6"))
            self.assertEqual((status, out.count("round")), (6, 4))
            self.assertIn("--progress-file did not change", err)

    def test_a_pause_between_rounds_ends_early_by_a_signal(self):
        job = self.launch("--max-restarts", 1, "--backoff", "1h", *worker("exit", "6"))
        job.wait_for_line(r"restart 1 of 1 in \d+ ms")
        job.send(signal.SIGTERM)
        self.assertEqual(job.wait(), 143)

    def test_no_restart_after_the_user_ended_the_job(self):
        job = self.launch("--max-restarts", 5, "--grace", 30, *worker("say", "round", "ready-then-wait"))
        job.wait_for_line("^ready$")
        job.send(signal.SIGTERM)
        self.assertEqual(job.wait(), 143)
        self.assertEqual(job.out().count("round"), 1)


class Notices(EndToEndTest):
    def test_a_notice_reaches_every_rank_of_every_node_exactly_once(self):
        port = free_port()
        agents = [self.launch("--nnodes", 2, "--node-rank", rank, "--nproc-per-node", 2, "--master-addr", "127.0.0.1",
                              "--master-port", port, "--grace", 8, "--forward", "USR1,USR2=WINCH", *worker("print-signals"))
                  for rank in (0, 1)]
        for agent in agents:
            agent.wait_for_line("^ready$", count=2)
        agents[1].send(signal.SIGUSR1)
        for agent in agents:
            agent.wait_for_line("^SIGUSR1$", count=2)
        agents[0].send(signal.SIGUSR2)
        for agent in agents:
            agent.wait_for_line("^SIGWINCH$", count=2)
        agents[0].send(signal.SIGTERM)
        for agent in agents:
            agent.wait_for_line("^SIGTERM$", count=2)
        for agent in agents:
            agent.wait()
            # Who has not ended at half the grace is asked again.
            for name, times in (("SIGUSR1", 1), ("SIGWINCH", 1), ("SIGTERM", 2)):
                self.assertEqual(len(re.findall(f"^{name}$", agent.out(), re.MULTILINE)), 2 * times, name)
            self.assertNotIn("SIGUSR2", agent.out())

    def test_which_signals_end_the_job_can_be_chosen(self):
        job = self.launch("--signals-to-handle", "SIGUSR2,NOSUCH", *worker("ready-then-wait"))
        job.wait_for_line("^ready$")
        job.send(signal.SIGUSR2)
        self.assertEqual(job.wait(), 128 + signal.SIGUSR2)
        self.assertIn("NOSUCH", job.err())


if __name__ == "__main__":
    support.main()
