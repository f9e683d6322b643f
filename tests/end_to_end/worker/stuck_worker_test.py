#!/usr/bin/env python3
"""A worker that hangs in the kernel (TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT): it has failed, and the report says where it hangs."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support import EndToEndTest, main

VARIABLE = "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT"
# Whoever has called vfork waits in state D until the child has ended.
WORKER = """import ctypes, os, sys, time
if os.environ["RANK"] == "1":
    print("hangs", file=sys.stderr, flush=True)
    ctypes.CDLL(None).vfork()
# It waits for its end, and is no event's to wake.
time.sleep(600)
"""


class StuckWorker(EndToEndTest):
    def test_a_worker_that_waits_in_the_kernel_for_so_long_has_failed(self):
        job = self.launch("--nproc-per-node=2", "--grace=1", sys.executable, "-I", "-c", WORKER, env={VARIABLE: "2"})
        self.assertEqual(job.wait(), 137, job.err())
        self.assertRegex(job.err(), r"first failure: rank 1 .*: signal 9 \(SIGKILL\)")
        self.assertRegex(job.err(), rf"it has not come back from the kernel for 2 s \(state D.*; {VARIABLE}\)")
        self.assertIn("hangs", job.err())

    def test_a_restart_follows_if_one_is_left(self):
        job = self.launch("--nproc-per-node=2", "--grace=1", "--max-restarts=1", "--min-uptime=0", sys.executable, "-I", "-c",
                          'import os\nif os.environ["TORCHELASTIC_RESTART_COUNT"] == "1": os._exit(0)\n' + WORKER, env={VARIABLE: "1"})
        self.assertEqual(job.wait(), 0, job.err())

    def test_without_the_variable_or_with_0_nothing_looks_and_a_wrong_one_is_told(self):
        for value, told in (("0", False), ("soon", True)):
            job = self.launch("--nproc-per-node=1", "true", env={VARIABLE: value})
            self.assertEqual(job.wait(), 0, job.err())
            self.assertEqual(f"{VARIABLE}={value} is no number of seconds" in job.err(), told, job.err())


if __name__ == "__main__":
    main()
