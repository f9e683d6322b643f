"""The right answer to a failure: nodes that are left out (--exclude-after), and programs that are asked (--on-failure)."""

import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

from elastic_test import PREEMPTED, Elastic
from support import HANG_GUARD, main, program, worker

NOT_ADMITTED = 77
FAILED = 7


def can_name_hosts():
    return subprocess.run(["unshare", "--uts", "hostname", "gpu07"], capture_output=True, check=False).returncode == 0


class Answers(Elastic):
    """Agents of which some fail in every round, once `go` is there."""

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.go = os.path.join(folder.name, "go")

    def start(self, number, nnodes, *flags, bad=False, **options):
        stub = program("worker_stub")
        words = ["sh", "-c", f'if [ -n "$BAD" ]; then exec {stub} print-place fail-when-file {self.go}; fi; '
                             f'echo "restarts: $TORCHELASTIC_RESTART_COUNT"; exec {stub} print-place exit-zero-on-term']
        return self.launch("--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{self.port}", "--rdzv-conf",
                           f"is_host={int(number == 0)}", "--nnodes", nnodes, "--node-rank", number, "--last-call", 60,
                           "--grace", 10, "--max-restarts", 9, "--min-uptime", 0, *flags, *words,
                           env={"BAD": "1"} if bad else {}, **options)

    def fail(self):
        open(self.go, "w", encoding="ascii").close()

    def end(self, *agents):
        for agent in agents:
            agent.send(signal.SIGTERM)
        for agent in agents:
            self.assertEqual(agent.wait(), PREEMPTED, agent.err())


class Exclusion(Answers):
    def test_a_spare_takes_the_place_of_a_node_that_fails_again_and_again(self):
        flags = ("--spares", 1, "--exclude-after", 2)
        host, bad = self.start(0, "2:3", *flags), self.start(1, "2:3", *flags, bad=True)
        self.runs(host, 0, 2, 0, 2)
        self.runs(bad, 1, 2, 1, 2)
        spare = self.start(2, "2:3", *flags)
        spare.wait_for_line("^ddprun: the job has its 2 nodes; this one waits for a place$")
        self.fail()
        why = r"its workers failed first in 2 rounds \(--exclude-after 2\)"
        host.wait_for_line(rf"^ddprun: node 1 \(\S+\) is left out: {why}$")
        self.assertEqual(bad.wait(), FAILED)
        self.assertRegex(bad.err(), f"the job goes on without this node: {why}")
        self.assertEqual(bad.out().count("place 1 of 2"), 2)
        self.runs(spare, 1, 2, 1, 2)
        # The rounds before may have ended before their workers said anything.
        host.wait_for_line("^restarts: 2$")
        self.runs(host, 0, 2, 0, 2)
        self.end(host, spare)

    def test_the_others_go_on_where_min_allows_it(self):
        agents = [self.start(number, "2:3", "--exclude-after", 1, bad=number == 1) for number in range(3)]
        for number, agent in enumerate(agents):
            self.runs(agent, number, 3, number, 3)
        self.fail()
        self.assertEqual(agents[1].wait(), FAILED)
        self.runs(agents[2], 1, 2, 1, 2)
        self.runs(agents[0], 0, 2, 0, 2)
        self.end(agents[0], agents[2])

    def test_nobody_is_left_out_whom_the_job_needs(self):
        flags = ("--exclude-after", 1, "--max-restarts", 2, "--same-failure", 0)
        agents = [self.start(number, 2, *flags, bad=number == 1) for number in range(2)]
        self.fail()
        for agent in agents:
            self.assertEqual(agent.wait(), FAILED)
            self.assertIn("no restart: all 2 of --max-restarts are used up", agent.err())
            self.assertNotIn("left out", agent.err())

    @unittest.skipUnless(can_name_hosts(), "needs the right to give a process another host name")
    def test_a_machine_that_is_left_out_is_refused_when_it_comes_again(self):
        def start(number, **options):
            named = ("unshare", "--uts", "sh", "-c", f'hostname gpu0{number}; exec "$@"', "sh")
            return self.start(number, "1:3", "--exclude-after", 1, prefix=named, **options)
        agents = [start(number, bad=number == 2) for number in range(3)]
        for number, agent in enumerate(agents):
            self.runs(agent, number, 3, number, 3)
        self.fail()
        why = r"its workers failed first in 1 round \(--exclude-after 1\)"
        agents[0].wait_for_line(rf"^ddprun: node 2 \(gpu02\) is left out: {why}$")
        self.assertEqual(agents[2].wait(), FAILED)
        self.runs(agents[1], 1, 2, 1, 2)
        again = start(2)
        self.assertEqual(again.wait(), NOT_ADMITTED)
        self.assertRegex(again.err(), rf"gpu02 is left out of the job: {why}$")
        agents[0].wait_for_line(rf"^ddprun: refused an agent on gpu02 \(pid \d+\): gpu02 is left out of the job: {why}$")
        self.runs(agents[0], 0, 2, 0, 2)
        self.end(*agents[:2])


class OnFailure(Answers):
    """--on-failure: a program of the user's is asked."""

    def judge(self, script):
        path = os.path.join(self.folder, "judge")
        with open(path, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\n" + script)
        os.chmod(path, 0o700)
        return path

    def ask(self, script, *flags, words=("exit", FAILED)):
        """A job of one node, whose worker fails in every round, with a judge; ends by itself."""
        launcher = self.launch("--max-restarts", 2, "--on-failure", self.judge(script), *flags, *worker("say", "round", *words))
        code = launcher.wait()
        return code, launcher.out().splitlines().count("round"), launcher.err()

    def test_the_failure_is_on_its_stdin_as_json(self):
        asked = os.path.join(self.folder, "asked")
        script = f"tr 0 0 > {asked}; env > {asked}.env; echo stop\n"
        code, rounds, err = self.ask(script, "--rdzv-id", "night", words=("complain", "out of luck", "exit", FAILED))
        self.assertEqual((code, rounds), (FAILED, 1))
        self.assertIn("no restart: --on-failure says stop", err)
        with open(asked, encoding="utf-8") as file:
            question = json.load(file)
        told = {"run_id": "night", "round": 0, "restarts": 0, "max_restarts": 2, "nodes": 1, "node_rank": 0, "rank": 0,
                "local_rank": 0, "exit_code": FAILED, "signal": 0, "kind": "worker_failed", "last_lines": ["out of luck"]}
        self.assertEqual({name: question[name] for name in told}, told)
        for name in ("job_id", "host", "message", "error_message", "traceback", "hint", "witness"):
            self.assertIn(name, question)
        with open(asked + ".env", encoding="utf-8") as file:
            environment = file.read().splitlines()
        self.assertIn("DDPRUN_RUN_ID=" + question["job_id"], environment)
        self.assertEqual([line for line in environment if line.startswith("DDPRUN_ON_FAILURE")], [])

    def test_restart_is_stronger_than_all_but_the_budget(self):
        code, rounds, err = self.ask("echo restart\n", "--no-restart-on", FAILED, "--same-failure", 2)
        self.assertEqual((code, rounds), (FAILED, 3))
        self.assertIn("no restart: all 2 of --max-restarts are used up", err)

    def test_without_a_good_answer_ddprun_decides_and_a_line_says_why(self):
        for script, why in (("exit 3\n", "ended by exit code 3"), ("kill -9 $$\n", r"ended by signal 9 \(SIGKILL\)"),
                            ("exit 0\n", "said nothing"), ("echo restart; exit 1\n", "ended by exit code 1"),
                            ("echo please restart\n", "said 'please restart', not restart, stop or exclude NODE"),
                            ("yes | head -c 100000\n", "said 'y', not restart, stop or exclude NODE"),
                            ("echo exclude 0\n", "exclude 0: it hosts the rendezvous"),
                            ("rm $0; exit 4\n", "cannot start '.*judge': no such file")):
            with self.subTest(script=script):
                code, rounds, err = self.ask(script)
                self.assertEqual((code, rounds), (FAILED, 3), err)
                self.assertRegex(err, rf"(?m)^ddprun: --on-failure.*{why}; ddprun decides by itself$")

    def test_one_that_hangs_is_killed_with_all_it_has_started(self):
        stub = program("worker_stub")
        code, rounds, err = self.ask(f"trap '' TERM; {stub} ignore-term & {stub} ignore-term\n", "--max-restarts", 0)
        self.assertEqual((code, rounds), (FAILED, 1))
        self.assertIn(": has not ended within 10 s and was killed; ddprun decides by itself", err)

    def test_one_that_runs_goes_with_the_job(self):
        asked = os.path.join(self.folder, "asked")
        judge = self.judge(f"mkfifo {asked}; echo > {asked}; exec {program('worker_stub')} ignore-term\n")
        launcher = self.launch("--on-failure", judge, "--max-restarts", 2, *worker("exit", FAILED))
        deadline = time.monotonic() + HANG_GUARD
        while not os.path.exists(asked):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)  # The file's coming is no event for us.
        with open(asked, encoding="ascii") as file:
            file.read()
        launcher.send(signal.SIGTERM)
        self.assertEqual(launcher.wait(), 128 + signal.SIGTERM)

    def test_a_program_that_cannot_be_run_is_refused_before_anything_starts(self):
        plain = os.path.join(self.folder, "plain")
        open(plain, "w", encoding="ascii").close()
        for name, why in ((plain, "it is not executable; chmod +x makes it so"), (self.folder, "it is a directory"),
                          ("no-such-program", "not found on PATH"), ("./no-such-program", "no such file")):
            code, out, err = self.run_job("--on-failure", name, *worker("say", "started"))
            self.assertEqual((code, out), (2, ""))
            self.assertEqual(err, f"ddprun: --on-failure {name}: {why}")

    def test_exclude_leaves_that_node_out(self):
        judge = self.judge("echo exclude 1\n")
        flags = ("--on-failure", judge, "--no-restart-on", FAILED)
        agents = [self.start(number, "2:3", *flags, bad=number == 2) for number in range(3)]
        for number, agent in enumerate(agents):
            self.runs(agent, number, 3, number, 3)
        self.fail()
        agents[0].wait_for_line(r"^ddprun: node 1 \(\S+\) is left out: --on-failure says so$")
        self.assertEqual(agents[1].wait(), FAILED)
        self.assertRegex(agents[1].err(), "the job goes on without this node: --on-failure says so")
        # The node that failed has the other's number now, and the job needs it.
        self.assertEqual((agents[0].wait(), agents[2].wait()), (FAILED, FAILED))
        self.assertIn("ddprun: --on-failure: exclude 1: the job needs it; ddprun decides by itself", agents[0].err())
        self.assertIn(f"no restart: exit code {FAILED} is among --no-restart-on", agents[0].err())


if __name__ == "__main__":
    main()
