"""A kernel that lacks what is new since Linux 5, as containers on the nodes of older clusters have it, and gVisor: a job there
runs, ends, and leaves nothing, as anywhere else."""

import errno
import os
import re
import signal
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from refused_calls import CALLS, refuse_what_is_new
from support import EndToEndTest, free_port, worker

ONLY_RANK_1 = ("--only-rank", "1")
PREEMPTED = 75


@unittest.skipUnless(CALLS, "the numbers of this machine's calls are not known here")
class OldKernel(EndToEndTest):
    says = errno.ENOSYS

    def launch(self, *arguments, **options):
        return super().launch(*arguments, preexec_fn=refuse_what_is_new(self.says), **options)

    def test_a_job_ends_well(self):
        code, out, err = self.run_job("--nproc-per-node=3", *worker("say", "here"))
        self.assertEqual((code, out, err), (0, "here\nhere\nhere", ""))

    def test_a_worker_fails_and_what_others_left_in_other_sessions_is_ended(self):
        words = worker(*ONLY_RANK_1, "setsid-grandchild", "exit", "7", "else", "daemon", "ignore-term")
        code, _, err = self.run_job("--nproc-per-node=2", "--grace=1", *words)
        self.assertEqual(code, 7)
        self.assertRegex(err, r"rank 1 .*exit(ed with)? code 7")
        self.assertEqual(support.processes_of_job(self.marker), [])

    def test_who_is_killed_is_named_with_the_signal(self):
        code, _, err = self.run_job("--nproc-per-node=2", *worker(*ONLY_RANK_1, "signal", "9", "else", "ready-then-wait"))
        self.assertEqual(code, 128 + signal.SIGKILL)
        self.assertRegex(err, r"rank 1 .*SIGKILL")

    def test_it_starts_again(self):
        say = 'echo "round $DDPRUN_ROUND"; exit $((1 - DDPRUN_ROUND))'
        code, out, _ = self.run_job("--nproc-per-node=1", "--max-restarts=1", "sh", "-c", say)
        self.assertEqual((code, out.split("\n")), (0, ["round 0", "round 1"]))

    def test_a_signal_reaches_the_workers_once(self):
        launcher = self.launch("--nproc-per-node=2", *worker("exit-zero-on-term"))
        launcher.wait_for_line("ready", count=2)
        launcher.send(signal.SIGTERM)
        self.assertEqual(launcher.wait(), PREEMPTED)
        self.assertEqual(launcher.out().count("got SIGTERM"), 2)

    def test_a_launcher_that_is_killed_leaves_nothing(self):
        launcher = self.launch("--nproc-per-node=2", *worker("setsid-grandchild", "ignore-term"))
        launcher.wait_for_line("ready", count=2)
        launcher.send(signal.SIGKILL)
        launcher.wait()
        deadline = time.monotonic() + support.HANG_GUARD
        while support.processes_of_job(self.marker):
            self.assertLess(time.monotonic(), deadline, "the guardian has not ended them")
            time.sleep(0.01)  # The end of what is not our child is no event for us.

    def test_two_agents(self):
        port = free_port()
        agents = [self.launch("--nnodes=2", f"--node-rank={rank}", "--master-addr=127.0.0.1", f"--master-port={port}",
                              "--nproc-per-node=2", *worker("print-place")) for rank in (0, 1)]
        self.assertEqual([agent.wait() for agent in agents], [0, 0])
        places = sorted(line for agent in agents for line in agent.out().split("\n"))
        self.assertEqual(places, [f"place {rank // 2} of 2 nodes, rank {rank} of 4" for rank in range(4)])

    def test_the_doctor_answers(self):
        code, out, err = self.run_job("doctor")
        self.assertEqual(code, 1 if re.search("^problem", out, re.MULTILINE) else 0, err)
        # A child has looked at it; ports are others' matter, too.
        self.assertRegex(out, r"(?m)^ok +folder /tmp: ")


class FilterOfAContainer(OldKernel):
    """Which knows not of the calls, and says that they are not permitted."""

    says = errno.EPERM

    def test_it_may_say_any_other_error(self):
        self.says = errno.EACCES
        self.test_a_job_ends_well()
        self.test_a_worker_fails_and_what_others_left_in_other_sessions_is_ended()


if __name__ == "__main__":
    support.main()
