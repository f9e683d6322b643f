"""Limits of open files: who connects, how many workers there are, and what is said when a limit is met."""

import os
import re
import resource
import socket
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from support import EndToEndTest, free_port

SYSTEM = 71
SOFT, HARD = resource.getrlimit(resource.RLIMIT_NOFILE)
USUAL_HARD = 20_000  # or more
STRANGERS = 5_000
WORKERS = 150 if os.environ.get("DDPRUN_SANITIZED") else 1_000


class DescriptorLimits(EndToEndTest):
    def with_limit(self, limit, *arguments):
        """The launcher with these limits, "-Sn 1024" or "-n 1024"."""
        return self.launch(*arguments, prefix=("bash", "-c", f'ulimit {limit}; exec "$@"', "bash"))

    def strangers(self, port, count):
        """Connections that say nothing, until the test is over."""
        resource.setrlimit(resource.RLIMIT_NOFILE, (HARD, HARD))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (SOFT, HARD))
        for _ in range(count):
            stranger = socket.create_connection(("127.0.0.1", port), timeout=support.HANG_GUARD)
            self.addCleanup(stranger.close)

    def restart_among_strangers(self, limit, count, told=None):
        """A worker fails when so many have come, and the launcher has told so, and is started again."""
        port = free_port()
        with tempfile.TemporaryDirectory() as folder:
            os.mkfifo(f"{folder}/fail")
            script = f"[ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0; echo runs; read line < {folder}/fail; exit 3"
            job = self.with_limit(limit, "--nproc-per-node=2", f"--master-port={port}", "--max-restarts=1", "sh", "-c", script)
            job.wait_for_line("runs", 2)
            self.strangers(port, count)
            if told:
                job.wait_for_line(told)
            with open(f"{folder}/fail", "w", encoding="ascii"):
                pass
            return job.wait(), job.err()

    @unittest.skipIf(HARD < USUAL_HARD, "the hard limit is not the usual one")
    def test_thousands_of_silent_connections_do_not_keep_a_job_from_a_restart(self):
        code, err = self.restart_among_strangers("-Sn 1024", STRANGERS)
        self.assertEqual(code, 0, err)
        self.assertNotIn("open files", err)

    def test_where_the_hard_limit_is_low_the_port_leaves_the_job_enough_and_says_so_once(self):
        told = "1024 open files.*ulimit -n"
        code, err = self.restart_among_strangers("-n 1024", 2_000, told)
        self.assertEqual(code, 0, err)
        self.assertEqual(len(re.findall(told, err)), 1, err)

    @unittest.skipIf(HARD < USUAL_HARD, "the hard limit is not the usual one")
    def test_a_thousand_workers_run_at_the_usual_soft_limit(self):
        job = self.with_limit("-Sn 1024", f"--nproc-per-node={WORKERS}", "true")
        self.assertEqual((job.wait(), job.err()), (0, ""))

    def test_a_workers_own_ends_of_its_streams_are_closed_before_all_are_started(self):
        # Two streams with two ends each would be 1,200.
        job = self.with_limit("-n 1024", "--nproc-per-node=300", "true")
        self.assertEqual((job.wait(), job.err()), (0, ""))

    @unittest.skipIf("DDPRUN_SANITIZED" in os.environ, "without a descriptor left, the sanitizer takes a good object for a bad one")
    def test_more_workers_than_the_limit_allows_are_refused_with_what_helps(self):
        job = self.with_limit("-n 128", "--nproc-per-node=100", "sleep", "1000")
        self.assertEqual(job.wait(), SYSTEM)
        self.assertIn("(this process may have 128, ulimit -n): Too many open files", job.err())

    @unittest.skipIf("DDPRUN_SANITIZED" in os.environ, "a sanitizer needs descriptors of its own")
    def test_at_the_lowest_limits_the_number_is_said_and_what_helps(self):
        for limit in range(8, 26):
            job = self.with_limit(f"-n {limit}", "--nproc-per-node=1", "true")
            with self.subTest(limit=limit):
                if job.wait() != 0:
                    self.assertEqual(job.wait(), SYSTEM)
                    self.assertIn(f" (this process may have {limit}, ulimit -n)", job.err())
                    self.assertNotIn("[system:", job.err())


if __name__ == "__main__":
    support.main()
