#!/usr/bin/env python3
"""--hang-timeout: a job that does not get on is told with the rank that holds it, and ended or begun anew where that was asked for;
one that is quiet, but works, is left alone."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import support
from job_folders import JobsTest

SECRET = f"a-secret-of-hangs-{os.getpid():010}"

# All ranks wait for a byte of the one that is late, as a hub; what that one does meanwhile is the case's.
PROGRAM = '''
import os, socket, sys, threading, time

rank, size, late = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), int(os.environ["LATE"])
port = int(os.environ["HUB_PORT"]) + int(os.environ["TORCHELASTIC_RESTART_COUNT"])


def await_file(name):
    while not os.path.exists(name):
        time.sleep(0.05)  # there is no event for a file of the test's


def sleeps():
    await_file(os.environ["GO"])


def locks():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def prints():
    for _ in range(30):
        sys.stdout.write(".")
        sys.stdout.flush()
        time.sleep(0.1)  # its pace: no event


def notes():
    for step in range(30):
        with open(os.environ["PROGRESS"], "w", encoding="ascii") as file:
            file.write("." * step)
        time.sleep(0.1)  # its pace: no event


def computes():
    while not os.path.exists(os.environ["GO"]):
        sum(range(100000))


def all_meet(connection):
    connection.recv(1)


case = os.environ["CASE"]
if case == "computes":
    computes()
elif os.environ["TORCHELASTIC_RESTART_COUNT"] != "0":
    pass
elif rank == late:
    hub = socket.create_server(("127.0.0.1", port))
    peers = [hub.accept()[0] for _ in range(size - 1)]
    globals()[case]()
    for peer in peers:
        peer.sendall(b"x")
    print("met", flush=True)
    if "END" in os.environ:
        await_file(os.environ["END"])
else:
    while True:
        try:
            connection = socket.create_connection(("127.0.0.1", port))
            break
        except OSError:
            time.sleep(0.01)  # there is no event for a listener of another process
    all_meet(connection)
    if "END" in os.environ:
        await_file(os.environ["END"])
'''

TOLD = r"no progress for \d+ s \(--hang-timeout 1\): rank 2 \(\S+\) %s; ranks? \S+ .*wait.* in all_meet \(train\.py:\d+\)"


class Hang(JobsTest):
    def setUp(self):
        super().setUp()
        self.program = os.path.join(self.runtime, "train.py")
        with open(self.program, "w", encoding="ascii") as file:
            file.write(PROGRAM)
        self.end = os.path.join(self.runtime, "end")
        self.environment.update(HUB_PORT=str(support.free_port()), LATE="2", GO=self.go)

    def job(self, case, *arguments, **options):
        return self.launch("--nproc-per-node", 4, "--grace", 5, "--hang-start-timeout", 1, *arguments, sys.executable, self.program,
                           env={"CASE": case, **options.pop("env", {})}, **options)

    def names(self, count=1):
        found = lambda: [name for name in self.folders() if not name.startswith(".")]
        return self.await_jobs(lambda: len(found()) == count and found())

    def test_a_rank_that_sleeps_while_others_wait_is_told_until_it_goes_on(self):
        events = os.path.join(self.runtime, "events")
        launcher = self.job("sleeps", "--hang-timeout", 1, "--events", events, env={"END": self.end})
        launcher.wait_for_line("no progress for")
        self.assertRegex(launcher.err(), TOLD % r"sleeps in await_file \(train\.py:\d+\)")
        job, = self.names()
        verdict = self.status(job)["verdict"]
        self.assertEqual((verdict["kind"], verdict["suspects"], verdict["waiting"]), ("hang", [2], [0, 1, 3]))
        self.assertGreaterEqual(verdict["age_s"], 1)
        listed, = json.loads(self.run_ctl("list", "--json")[1])
        self.assertEqual(listed["verdict_kind"], "hang")
        stacks = json.loads(self.run_ctl("stacks", "--json", job)[1])
        self.assertEqual(stacks["verdict"]["since_unix_ms"], verdict["since_unix_ms"])
        self.assertIn("hangs", self.run_ctl("status", job)[1])
        self.let_go()
        launcher.wait_for_line("the job gets on again, after")
        self.await_jobs(lambda: self.status(job)["verdict"] is None)
        open(self.end, "w", encoding="ascii").close()
        self.assertEqual(launcher.wait(), 0, launcher.err())
        self.assertEqual(launcher.err().count("no progress for"), 1)
        with open(events, encoding="ascii") as file:
            told = [event for event in map(json.loads, file) if event["name"].startswith("ddprun.hang")]
        self.assertEqual([event["name"] for event in told], ["ddprun.hang", "ddprun.hang.over"])
        self.assertEqual((told[0]["metadata"]["kind"], told[0]["metadata"]["suspects"]), ("hang", [2]))

    def test_stop_ends_the_job_and_the_result_names_the_rank(self):
        result = os.path.join(self.runtime, "result")
        launcher = self.job("locks", "--hang-timeout", "1:stop", "--max-restarts", 3, "--result-file", result)
        self.assertEqual(launcher.wait(), 124, launcher.err())
        self.assertRegex(launcher.err(), TOLD % r"waits for a lock in locks \(train\.py:\d+\)")
        self.assertIn("was stopped, because it hangs: rank 2 ", launcher.err())
        self.assertIn("no restart: --hang-timeout says stop", launcher.err())
        with open(result, encoding="ascii") as file:
            told = json.load(file)
        first = told["first_failure"]
        self.assertEqual((told["exit_code"], told["outcome"], told["restart_count"]), (124, "failed", 0))
        self.assertEqual((first["kind"], first["rank"], first["local_rank"], first["node_rank"], first["exit_code"]), ("hang", 2, 2, 0, 124))
        self.assertRegex(first["message"], r"^rank 2 \(\S+\) waits for a lock in locks")

    def test_restart_uses_up_the_restarts_and_then_stops(self):
        launcher = self.job("sleeps", "--hang-timeout", "1:restart", "--max-restarts", 1)
        self.assertEqual(launcher.wait(), 0, launcher.err())
        self.assertRegex(launcher.err(), r"it hangs: rank 2 .*; restart 1 of 1")
        launcher = self.job("sleeps", "--hang-timeout", "1:restart")
        self.assertEqual(launcher.wait(), 124, launcher.err())

    def test_on_failure_is_asked_about_a_hang(self):
        judge, asked = (os.path.join(self.runtime, name) for name in ("judge", "asked"))
        with open(judge, "w", encoding="ascii") as file:
            file.write(f"#!/bin/sh\ncat >{asked}\necho stop\n")
        os.chmod(judge, 0o700)
        launcher = self.job("sleeps", "--hang-timeout", "1:restart", "--max-restarts", 1, "--on-failure", judge)
        self.assertEqual(launcher.wait(), 124, launcher.err())
        with open(asked, encoding="ascii") as file:
            question = json.load(file)
        self.assertEqual((question["kind"], question["rank"]), ("hang", 2))

    def test_a_job_that_is_quiet_but_works_is_left_alone(self):
        launcher = self.job("computes", "--hang-timeout", "1:stop", "--verbose")
        launcher.wait_for_line("no progress, but no hang")
        self.let_go()
        self.assertEqual(launcher.wait(), 0, launcher.err())
        for case, *arguments in (("prints",), ("notes", "--progress-file", os.path.join(self.runtime, "progress"))):
            launcher = self.job(case, "--hang-timeout", "2:stop", "--hang-start-timeout", 2, *arguments, env={"PROGRESS": os.path.join(self.runtime, "progress")})
            self.assertEqual(launcher.wait(), 0, launcher.err())
            self.assertNotIn("no progress", launcher.err())

    def nodes(self, *arguments, of_first=(), **environment):
        port = support.free_port()
        return [self.launch("--nnodes", 2, "--node-rank", node, "--master-addr", "127.0.0.1", "--master-port", port, "--grace", 5,
                            "--nproc-per-node", 2, "--hang-start-timeout", 1, *arguments, *(() if node else of_first), sys.executable, self.program,
                            env={"CASE": "sleeps", **environment}) for node in range(2)]

    def test_the_suspect_may_be_on_another_node(self):
        self.environment["LATE"] = "3"
        result = os.path.join(self.runtime, "result%r")
        launchers = self.nodes("--hang-timeout", "1:stop", "--result-file", result, DDPRUN_SECRET=SECRET)
        for node, launcher in enumerate(launchers):
            self.assertEqual(launcher.wait(), 124, launcher.err())
            with open(result.replace("%r", str(node)), encoding="ascii") as file:
                first = json.load(file)["first_failure"]
            self.assertEqual((first["kind"], first["rank"], first["local_rank"], first["node_rank"]), ("hang", 3, 1, 1))
        self.assertRegex(launchers[0].err(), r"rank 3 \(\S+\) sleeps in await_file \(train\.py:\d+\); ranks? ")
        self.assertNotIn("no progress for", launchers[1].err())

    def test_signs_of_other_nodes_count_and_every_node_shows_the_verdict(self):
        self.environment["LATE"] = "3"
        launchers = self.nodes("--hang-timeout", 2, "--hang-start-timeout", 2, DDPRUN_SECRET=SECRET, CASE="prints", END=self.end)
        launchers[1].wait_for_line("met")
        self.assertNotIn("no progress for", launchers[0].err())
        open(self.end, "w", encoding="ascii").close()
        for launcher in launchers:
            self.assertEqual(launcher.wait(), 0, launcher.err())
        self.environment["HUB_PORT"] = str(support.free_port())
        launchers = self.nodes("--hang-timeout", 1, DDPRUN_SECRET=SECRET)
        launchers[0].wait_for_line("no progress for")
        for job in self.names(2):
            self.assertEqual(self.status(job)["verdict"]["suspects"], [3])
        self.let_go()
        for launcher in launchers:
            self.assertEqual(launcher.wait(), 0, launcher.err())

    def test_without_a_secret_a_line_says_that_only_node_0_counts(self):
        self.environment["LATE"] = "0"
        launchers = self.nodes("--hang-timeout", 1)
        launchers[0].wait_for_line("--hang-timeout counts the ranks of node 0 only: without a secret")
        launchers[0].wait_for_line(r"no progress for .*: rank 0 \(\S+\) sleeps in await_file")
        self.let_go()
        for launcher in launchers:
            self.assertEqual(launcher.wait(), 0, launcher.err())

    def test_a_node_without_the_option_is_named(self):
        self.environment["LATE"] = "0"
        launchers = self.nodes(of_first=("--hang-timeout", 1), DDPRUN_SECRET=SECRET)
        launchers[0].wait_for_line(r"--hang-timeout does not count node 1 \(\S+\): this node knows no answer to 'quiet'")
        launchers[0].wait_for_line("no progress for .*: rank 0 ")
        self.let_go()
        for launcher in launchers:
            self.assertEqual(launcher.wait(), 0, launcher.err())

    def test_a_bad_value_is_one_line(self):
        for flag, value in (("--hang-timeout", "0.5"), ("--hang-timeout", "x"), ("--hang-timeout", "5:kill"), ("--hang-start-timeout", "0")):
            code, out, err = self.run_job(flag, value, "true")
            self.assertEqual((code, out), (2, ""))
            self.assertRegex(err, rf"^ddprun: {flag} {value}: must be .*$")


if __name__ == "__main__":
    support.main()
