"""The batch script of scripts/ under a real Slurm of three nodes: signals, preemption, requeues, cancelled jobs.

Slurm signals here whom it has started itself, the agents, as it does where control groups track processes.
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import slurm_cluster
from support import HANG_GUARD, main, processes_of_job, program

HERE = os.path.dirname(os.path.abspath(__file__))
TEMPLATE = os.path.join(HERE, "..", "..", "..", "scripts", "slurm.sbatch")
TRAINER = ("python3", os.path.join(HERE, "..", "..", "helpers", "counting_trainer.py"))
NODES = 3
NEVER = 1000  # no trainer ends at that count
# A site's defaults that end agents before their grace is over; the script does not depend on them.
SITE = """
KillOnBadExit=1
WaitTime=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=graceful Nodes=ALL PriorityTier=1 GraceTime=600
PartitionName=hasty Nodes=ALL PriorityTier=1 GraceTime=0
PartitionName=urgent Nodes=ALL PriorityTier=9 PreemptMode=OFF
"""


class Job:
    """A batch job, with the file that its output goes to."""

    def __init__(self, cluster, environment, *words):
        self.cluster = cluster
        self.environment = environment
        self.folder = tempfile.TemporaryDirectory()
        self.output = os.path.join(self.folder.name, "output")
        self.saved = os.path.join(self.folder.name, "saved")
        os.mkdir(self.saved)
        words = [word.format(saved=self.saved) for word in words]
        self.id = self.slurm("sbatch", "--parsable", f"--nodes={NODES}", "-o", self.output, *words).strip()

    def slurm(self, *words):
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=HANG_GUARD, check=False,
                              stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise AssertionError(f"{words}: {done.stderr}")
        return done.stdout

    def text(self):
        if not os.path.exists(self.output):
            return ""
        with open(self.output, encoding="utf-8") as file:
            return file.read()

    def await_true(self, condition, what):
        try:
            self.cluster.await_true(condition, what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.text()}") from None

    def await_lines(self, pattern, count=NODES):
        self.await_true(lambda: len(re.findall(pattern, self.text(), re.MULTILINE)) >= count, pattern)

    def shown(self, name):
        return re.search(rf"\b{name}=(\S*)", self.slurm("scontrol", "show", "job", self.id))[1]

    def await_state(self, *states):
        self.await_true(lambda: self.slurm("squeue", "-h", "-t", "all", "-j", self.id, "-o", "%T").strip() in states,
                        f"job {self.id} {' or '.join(states)}")

    def await_turn(self, turn):
        """The job has been requeued, `turn` times in all, and begins where it was."""
        if turn > 0:
            self.await_lines(rf"^rank \d has saved {turn}$")
            self.await_state("PENDING")
            # Slurm has it wait for two minutes.
            self.slurm("scontrol", "update", f"jobid={self.id}", "starttime=now")
        name = f"slurm-{self.id}.0" + (f"-r{turn}" if turn else "")
        self.await_lines(rf"^rank \d of {NODES} begins at {turn} as {re.escape(name)}$")


class SlurmJobs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        why = slurm_cluster.missing()
        if why:
            raise unittest.SkipTest(why)
        cls.cluster = slurm_cluster.SlurmCluster(NODES, proctrack="pgid", more=SITE)
        cls.addClassCleanup(cls.cluster.end)

    def submit(self, *words):
        """As people do, who have ddprun on their PATH. The job's processes have the test's mark in their environment."""
        self.mark = f"DDPRUN_TEST_MARK={os.getpid()}-{self.id()}"
        name, value = self.mark.split("=")
        environment = {**self.cluster.environment, "DDPRUN_AUTH": "off", name: value}
        environment["PATH"] = f"{os.path.dirname(program('ddprun'))}:{environment['PATH']}"
        job = Job(self.cluster, environment, *words)
        self.addCleanup(job.folder.cleanup)
        return job

    def assert_nothing_left(self):
        self.cluster.await_true(lambda: not processes_of_job(self.mark), "rid of the job's processes")
        self.cluster.await_true(lambda: self.cluster.states() == ["idle"] * NODES, "its nodes back")

    def count(self, job, pattern):
        return len(re.findall(pattern, job.text(), re.MULTILINE))

    def test_a_job_that_is_ended_again_and_again_goes_on_where_it_was(self):
        job = self.submit("-p", "graceful", TEMPLATE, *TRAINER, "{saved}", "4")
        job.await_turn(0)
        job.slurm("scontrol", "requeue", job.id)
        job.await_turn(1)
        # Another job wants its nodes. Slurm would let it end then, and not queue it again by itself.
        self.submit("-p", "urgent", "--exclusive", "--wrap", "true")
        job.await_turn(2)
        job.slurm("scontrol", "requeue", job.id)
        job.await_turn(3)
        # As Slurm does some time before the limit (sbatch --signal=USR1@120).
        job.slurm("scancel", "--signal=USR1", job.id)
        job.await_turn(4)
        job.await_state("COMPLETED")
        self.assertEqual((job.shown("ExitCode"), job.shown("Restarts")), ("0:0", "4"))
        self.assertEqual(self.count(job, "^rank . gets SIGTERM$"), 4 * NODES, job.text())
        self.assertEqual(self.count(job, "gets SIGUSR1"), 0)
        # All agents write to one screen.
        self.assertEqual(self.count(job, r"^ddprun: \S+ was stopped by SIGTERM"), 3, job.text())
        self.assertEqual(self.count(job, "^ddprun: all ranks ended with 0 after a signal of --requeue-on"), 1, job.text())
        self.assert_nothing_left()

    def test_a_preemption_without_notice_requeues_it_once(self):
        job = self.submit("-p", "hasty", TEMPLATE, *TRAINER, "{saved}", "1")
        job.await_turn(0)
        self.submit("-p", "urgent", "--exclusive", "--wrap", "true")
        job.await_turn(1)
        job.await_state("COMPLETED")
        self.assertEqual((job.shown("ExitCode"), job.shown("Restarts")), ("0:0", "1"))
        self.assert_nothing_left()

    def test_a_job_that_is_cancelled_is_not_queued_again(self):
        job = self.submit(TEMPLATE, *TRAINER, "{saved}", str(NEVER))
        job.await_turn(0)
        job.slurm("scancel", job.id)
        job.await_lines("^rank . has saved 1$")
        job.await_state("CANCELLED")
        self.assertEqual(job.shown("Restarts"), "0")
        self.assert_nothing_left()

    def test_cancelled_with_processes_that_have_gone_astray(self):
        job = self.submit(TEMPLATE, "sh", "-c", "setsid setsid sleep 600 & echo up; sleep 600")
        job.await_lines("^up$")
        self.assertGreater(len(processes_of_job(self.mark)), 3 * NODES)
        job.slurm("scancel", job.id)
        job.await_state("CANCELLED")
        self.assert_nothing_left()

    def test_the_exit_code_is_the_workers_and_the_report_stands_once(self):
        job = self.submit(TEMPLATE, "--nproc-per-node=2", "sh", "-c", "[ $RANK = 3 ] && exit 7; sleep 600")
        job.await_state("FAILED")
        self.assertEqual(job.shown("ExitCode"), "7:0")
        self.assertEqual(self.count(job, r"first failure: rank 3 \(local rank 1\) on node 1 \(n2\), .* exit code 7"), 1, job.text())
        self.assert_nothing_left()

    def test_a_signal_that_every_agent_gets_is_one(self):
        script = "trap : USR2; srun ddprun --forward USR1,USR2 " + " ".join((*TRAINER, "{saved}", str(NEVER)))
        job = self.submit("--ntasks-per-node=1", "--wrap", script)
        job.await_turn(0)
        # The agents; the batch script and all of the agents; the same again, which is another signal.
        for turn, (flag, name) in enumerate((("-v", "USR1"), ("--full", "USR2"), ("-v", "USR1")), 1):
            job.slurm("scancel", flag, f"--signal={name}", job.id)
            job.await_lines(rf"^rank . gets SIG{name}$", NODES * (1 + turn // 3))
        job.slurm("scancel", job.id)
        job.await_state("CANCELLED")
        for rank in range(NODES):
            for name, times in (("USR1", 2), ("USR2", 1)):
                self.assertEqual(self.count(job, f"^rank {rank} gets SIG{name}$"), times, job.text())
        self.assert_nothing_left()


if __name__ == "__main__":
    main()
