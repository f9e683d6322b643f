"""The right answer to a failure: nodes that are left out (--exclude-after), and programs that are asked (--on-failure)."""

import os
import signal
import subprocess
import tempfile
import unittest

from elastic_test import PREEMPTED, Elastic
from support import main, program

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
                             f"exec {stub} print-place exit-zero-on-term"]
        return self.launch("--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{self.port}", "--rdzv-conf",
                           f"is_host={int(number == 0)}", "--nnodes", nnodes, "--node-rank", number, "--last-call", 60,
                           "--grace", 10, "--max-restarts", 9, "--min-uptime", 0, *flags, *words,
                           env={"BAD": "1"} if bad else {}, **options)

    def fail(self):
        open(self.go, "w", encoding="ascii").close()

    def end(self, *agents):
        agents[0].send(signal.SIGTERM)
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


if __name__ == "__main__":
    main()
