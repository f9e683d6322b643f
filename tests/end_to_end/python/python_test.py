#!/usr/bin/env python3
"""The Python package of the checkout: the collectives by ctypes, spawn(), and jobs as a notebook starts them."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import support

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, "..", "..", ".."))
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/lib/python3/dist-packages/numpy") else sys.executable


def has_numpy():
    return subprocess.run([PYTHON, "-c", "import numpy"], capture_output=True, check=False).returncode == 0


@unittest.skipUnless(has_numpy(), "skipped: NumPy is not installed")
class Package(support.EndToEndTest):
    def setUp(self):
        super().setUp()
        # As `pip install --target` lays it out.
        folder = self.enterContext(tempfile.TemporaryDirectory())
        shutil.copytree(os.path.join(ROOT, "apps", "python", "ddprun"), os.path.join(folder, "ddprun"))
        os.symlink(support.BIN, os.path.join(folder, "bin"))
        os.mkdir(os.path.join(folder, "ddprun-0.dist-info"))
        with open(os.path.join(folder, "ddprun-0.dist-info", "RECORD"), "w", encoding="ascii") as record:
            record.write("../../bin/ddprun,,\n../../bin/ddpctl,,\n")
        jobs = self.enterContext(tempfile.TemporaryDirectory())
        library = os.path.join(support.BIN, "..", "collectives", "package", "libddprun_collectives.so")
        self.environment.update(PYTHONPATH=f"{folder}:{HERE}", DDPRUN_COLLECTIVES_LIBRARY=library, PYTHONDONTWRITEBYTECODE="1",
                                OMP_NUM_THREADS="1", PYTHON_EXEC=PYTHON, DDPRUN_JOBS_DIR=jobs)

    def python(self, *words, code=0):
        done = subprocess.run([PYTHON, *words], env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=support.HANG_GUARD, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def test_every_operation_by_spawn(self):
        self.python("-c", "import ddprun, ranks; ddprun.spawn(ranks.operations, "
                    "(['float32', 'float64', 'int32', 'int64', 'uint8', 'float16'],), 3)")

    def test_survivors_name_the_dead_and_go_on(self):
        done = self.python("-m", "ddprun", "--nproc-per-node", "3", PYTHON, os.path.join(HERE, "ranks.py"), "survivors")
        self.assertEqual(done.stdout, "went on\n" * 2)

    def test_a_rank_with_few_addresses_is_no_rank_apart(self):
        for limited in ("none", "0", "2"):
            done = self.python("-m", "ddprun", "--nproc-per-node", "3", PYTHON, os.path.join(HERE, "ranks.py"), "pools", limited)
            self.assertEqual(done.stdout, "reduced\n" * 3)

    def test_who_is_late_is_named_by_the_number_that_ddprun_gave(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.python("-m", "ddprun", "--nproc-per-node", "3", PYTHON, os.path.join(HERE, "ranks.py"), "late",
                               os.path.join(folder, "store"), code=1)
        self.assertRegex(done.stderr, r"first failure: rank 1 .* has not come \(rank [02] says: barrier")

    def test_the_example(self):
        apps = os.path.join(ROOT, "apps")
        done = self.python("-m", "ddprun", "--nproc-per-node", "3", os.path.join(apps, "examples", "kmeans.py"), os.path.join(apps, "data", "digits.csv"))
        self.assertRegex(done.stdout, r"^1797 points on 3 ranks, mean squared distance 6\d\d\.\d+, the centres are bit-equal on 3 of 3 ranks\n$")

    def test_a_function_of_the_script_itself(self):
        script = os.path.join(os.path.dirname(self.environment["PYTHONPATH"].split(":")[0]), f"ddprun-script-{os.getpid()}.py")
        self.addCleanup(os.remove, script)
        with open(script, "w", encoding="utf-8") as file:
            file.write("import os, ddprun\n"
                       "def work(rank, word):\n"
                       "    print(word, rank, os.environ['WORLD_SIZE'], os.environ['MASTER_ADDR'], flush=True)\n"
                       "if __name__ == '__main__':\n"
                       "    later = ddprun.spawn(work, ('word',), 2, join=False)\n"
                       "    assert later.join() and later.join(0)\n")
        self.assertEqual(sorted(self.python(script).stdout.splitlines()), ["word 0 2 127.0.0.1", "word 1 2 127.0.0.1"])

    def test_a_failure_has_the_first_ranks_traceback(self):
        done = self.python("-c", "import ddprun, ranks\n"
                           "try: ddprun.spawn(ranks.fails, (1,), 3)\n"
                           "except ddprun.JobFailed as error:\n"
                           "    print(error)\n"
                           "    print(error.exit_code, error.result['first_failure']['rank'], [rank['manner'] for rank in error.result['ranks']])")
        self.assertRegex(done.stdout, "(?s)^\\S+ failed; first failure: rank 1 .*: exit code 1:\nTraceback .*in fails.*KeyError: .rank's own words")
        self.assertTrue(done.stdout.endswith("\n1 1 ['stopped', 'failed', 'stopped']\n"), done.stdout)

    def test_a_spawn_is_ended_when_it_is_dropped(self):
        done = self.python("-c", "import ddprun, time, os\n"
                           "later = ddprun.spawn(time.sleep, (), 2, join=False, options=['--grace', '1'])\n"
                           "assert not later.join(0)\n"
                           "process = later.process\n"
                           "del later\n"
                           "print(process.returncode is not None)")
        self.assertEqual(done.stdout, "True\n")

    def test_what_a_spawn_reads_again_is_held_against_the_cleaner_of_tmp(self):
        self.environment["TMPDIR"] = self.enterContext(tempfile.TemporaryDirectory())
        done = self.python("-c", "import ddprun, fcntl, glob, os, time\n"
                           "held = lambda: set(glob.glob(os.path.join(os.environ['TMPDIR'], 'ddprun-spawn-*')))\n"
                           "later = ddprun.spawn(time.sleep, (), 1, join=False)\n"
                           "folder, = held()\n"
                           "try: fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
                           "except BlockingIOError: print('held')\n"
                           "later.join()\n"
                           "del later\n"
                           "print(held())")
        self.assertEqual(done.stdout, "held\nset()\n")

    def test_nothing_is_left_of_a_spawn_whose_caller_is_killed(self):
        with subprocess.Popen([PYTHON, "-c", "import ddprun, ranks; ddprun.spawn(ranks.waits, (), 2)"], env=self.environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as caller:
            self.assertEqual([caller.stdout.readline() for _ in range(2)], ["ready\n"] * 2)
            caller.kill()
            self.assertIn("SIGTERM", caller.stdout.read())  # to its end, which is that of the last of them

    def test_failures_travel_with_all_members_and_handles_do_not(self):
        done = self.python("-c", "import travels; travels.main()")
        self.assertEqual(done.stdout, "travelled\n")

    def test_a_dropped_work_holds_nobody(self):
        done = self.python("-m", "ddprun", "--nproc-per-node", "2", "--grace", "5", PYTHON, os.path.join(HERE, "ranks.py"), "dropped")
        self.assertEqual(sorted(done.stdout.splitlines()), ["dropped", "got what was dropped"])
        self.assertEqual(done.stderr.count("a Work was dropped before its end"), 1, done.stderr)

    def test_truth_values_stay_truth_values(self):
        self.python("-c", "import ddprun, ranks; ddprun.spawn(ranks.truths, (), 2)")

    def test_wrong_calls_are_refused(self):
        for call, words in (("spawn(3)", "fn: must be a function, not int"), ("spawn(print, nprocs=0)", "nprocs: must be 1 or more, not 0"),
                            ("spawn(print, nprocs=True)", "nprocs: must be 1 or more, not True"),
                            ("Job('x').logs(tail=True)", "tail: must be a number of lines, not True"),
                            ("spawn(lambda rank: 0)", "fn, args: cannot be given to other processes"),
                            ("launch('true')", "words: must be a list of words, not the text 'true'")):
            self.assertIn(f"ValueError: {words}", self.python("-c", f"import ddprun; ddprun.{call}", code=1).stderr)

    def test_a_job_is_looked_at_waited_for_and_ended(self):
        done = self.python("-c", "import ddprun\n"
                           "job = ddprun.launch(['--nproc-per-node', '2', 'bash', '-c', 'echo said; exit 3'])\n"
                           "print(job.wait(), job.status()['state'], 'said' in job.logs())\n"
                           "try: job.wait(check=True)\n"
                           "except ddprun.JobFailed as error: print(str(error).startswith('bash failed; first failure: rank '), error.exit_code)\n"
                           "job = ddprun.launch(['--nproc-per-node', '2', 'sleep', '1000'])\n"
                           "print(job.status()['state'], ddprun.Job(job.id).status()['job']['workers'])\n"
                           "try: job.wait(0)\n"
                           "except TimeoutError as error: print('goes on')\n"
                           "job.kill()\n"
                           "print(job.wait(), job.status()['state'])\n"
                           "try: ddprun.launch(['--no-such-option'])\n"
                           "except ddprun.JobFailed as error: print(error.exit_code, '--no-such-option' in str(error))\n"
                           "try: ddprun.Job('nobody').status()\n"
                           "except RuntimeError as error: print(error)\n")
        lines = done.stdout.splitlines()
        self.assertEqual(lines[:6], ["3 ended True", "True 3", "running 2", "goes on", "143 ended", "2 True"])
        self.assertIn("nobody", lines[6])


if __name__ == "__main__":
    support.main()
