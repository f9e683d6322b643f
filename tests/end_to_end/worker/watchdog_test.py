#!/usr/bin/env python3
"""Timers that workers set for themselves (TORCHELASTIC_ENABLE_FILE_TIMER): who is ended by them, and what the report says.

Part of it runs PyTorch's own client, and needs the Debian package python3-torch.
"""

import glob
import json
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from support import EndToEndTest

SYSTEM_PYTHON = "/usr/bin/python3"  # the one that Debian's python3-torch is for

# Functions that write lines as PyTorch's client does; a program goes behind them.
STUB = """import json, os, signal, subprocess, sys, time
rank = os.environ["RANK"]
def write(line):
    with os.fdopen(os.open(os.environ["TORCHELASTIC_TIMER_FILE"], os.O_WRONLY | os.O_NONBLOCK), "wt") as pipe:
        pipe.write(line + chr(10))
def timer(scope, after, pid=os.getpid(), signal=9):
    expires = time.time() + after if after is not None else -1
    write(json.dumps({"version": 1, "pid": pid, "scope_id": scope, "expiration_time": expires, "signal": signal}))
def wait():
    signal.pause()
"""

CLIENT = """import os, signal, time
from torch.distributed.elastic.timer import FileTimerClient, configure, expires
configure(FileTimerClient(os.environ["TORCHELASTIC_TIMER_FILE"]))
with expires(after=60, scope="ends in time"):
    pass
if os.environ["RANK"] == "1":
    with expires(after=0.2, scope="train_step"):
        signal.pause()
with expires(after=3600, scope="long"):
    signal.pause()
"""


class WatchdogTest(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.temporary = os.path.join(self.folder, "tmp")
        os.mkdir(self.temporary)
        self.environment.update(TORCHELASTIC_ENABLE_FILE_TIMER="1", TMPDIR=self.temporary)

    def words(self, program, *options):
        return [*options, "python3", "-c", STUB + program]

    def nothing_left(self):
        self.assertEqual(glob.glob(os.path.join(self.temporary, "ddprun_timers_*")), [])

    def test_a_worker_whose_timer_expires_is_the_first_failure_and_the_timer_its_cause(self):
        code, _, err = self.run_job(*self.words("""
timer("done", 3)
timer("done", None)
if rank == "2": timer("save", 3.1)
wait()
""", "--nproc-per-node", 3))
        self.assertEqual(code, 128 + signal.SIGKILL, err)
        self.assertRegex(err, "first failure: rank 2 .*: signal 9")
        self.assertRegex(err, r"its watchdog timer 'save' of 3(\.\d+)? s expired, and ddprun sent SIGKILL")
        self.assertNotIn("OOM", err)
        self.nothing_left()

    def test_the_signal_is_the_timers_own_and_a_child_of_a_worker_may_be_meant(self):
        code, _, err = self.run_job(*self.words("""
child = subprocess.Popen(["sleep", "1000"])
timer("child", 0.05, child.pid, 10)
end = child.wait()
print("the child ended by", -end, file=sys.stderr)
sys.exit(9)
"""))
        self.assertEqual(code, 9, err)
        self.assertIn("the child ended by 10", err)
        self.assertRegex(err, r"(?m)^ddprun: rank 0: its watchdog timer 'child' of 0(\.\d+)? s of its process \d+ expired, and "
                              "ddprun sent SIGUSR1$")
        self.assertRegex(err, r"its watchdog timer 'child' of 0(\.\d+)? s of its process \d+ expired, and ddprun sent SIGUSR1")

    def test_nobody_but_the_jobs_own_processes_is_sent_anything(self):
        with subprocess.Popen(["sleep", "1000"], env=self.environment) as stranger:
            code, _, err = self.run_job(*self.words(f"""
timer("stranger", 0, {stranger.pid})
timer("the guardian", 0, os.getppid())
timer("mine", 0)
wait()
"""))
            self.assertEqual(code, 128 + signal.SIGKILL, err)
            self.assertRegex(err, rf"timer 'stranger' of 0 s of process {stranger.pid} expired, which is none of this")
            self.assertIsNone(stranger.poll())
            stranger.kill()

    def test_lines_that_are_none_are_passed_over_with_one_warning(self):
        code, _, err = self.run_job(*self.words("""
write("hello")
write("{" * 5000)
write("x" * 5000)
timer("after them", None)
"""))
        self.assertEqual(code, 0, err)
        self.assertEqual(len(re.findall("passed over", err)), 1, err)
        self.assertIn("it is no JSON object; it begins with: hello", err)

    def test_the_pipe_is_where_the_user_says_and_gone_at_the_end(self):
        place = os.path.join(self.folder, "timers")
        os.mkfifo(place)
        launcher = self.launch(*self.words('print("pipe", os.environ["TORCHELASTIC_TIMER_FILE"], flush=True); wait()'),
                               env={"TORCHELASTIC_TIMER_FILE": place})
        self.assertEqual(launcher.wait_for_line("^pipe (.*)$")[1], place)
        self.assertTrue(stat.S_ISFIFO(os.stat(place).st_mode))
        # A second agent of this machine, with the same variable.
        code, out, err = self.run_job(*self.words('print("pipe", os.environ["TORCHELASTIC_TIMER_FILE"]); timer("a", 0); wait()'),
                                      env={"TORCHELASTIC_TIMER_FILE": place})
        self.assertEqual(code, 128 + signal.SIGKILL, err)
        self.assertNotIn(place, out)
        self.assertIn("TORCHELASTIC_TIMER_FILE is another launcher's", err)
        launcher.send(signal.SIGTERM)
        launcher.wait()
        self.assertFalse(os.path.exists(place))
        self.nothing_left()

    def test_a_file_at_that_place_is_left_as_it_is(self):
        place = os.path.join(self.folder, "notes")
        with open(place, "w", encoding="utf-8") as file:
            file.write("mine")
        code, _, err = self.run_job(*self.words("pass"), env={"TORCHELASTIC_TIMER_FILE": place})
        self.assertEqual(code, 71, err)
        self.assertIn("no named pipe", err)
        with open(place, encoding="utf-8") as file:
            self.assertEqual(file.read(), "mine")

    def test_a_killed_launcher_leaves_no_pipe(self):
        launcher = self.launch(*self.words('print("pipe", os.environ["TORCHELASTIC_TIMER_FILE"], flush=True); wait()'))
        pipe = launcher.wait_for_line("^pipe (.*)$")[1]
        self.assertTrue(os.path.exists(pipe))
        launcher.send(signal.SIGKILL)
        launcher.wait()
        # The reader of the workers' output ends when the last of them has; the guardian goes after it.
        deadline = time.monotonic() + support.HANG_GUARD
        while support.processes_of_job(self.marker) and time.monotonic() < deadline:
            time.sleep(0.01)  # The end of a process that is not our child is no event for us.
        self.assertFalse(os.path.exists(pipe))

    def test_every_round_has_its_own_timers_and_a_restart_tells_of_the_one_that_expired(self):
        code, out, err = self.run_job(*self.words("""
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    timer("first round", 0.05)
    wait()
print(os.environ["DDPRUN_RESTART_REASON"])
""", "--max-restarts", 1, "--nproc-per-node", 2))
        self.assertEqual(code, 0, err)
        reason = (r"rank \d on node 0 \(.*\): signal 9 \(its watchdog timer 'first round' of 0(\.\d+)? s expired, and ddprun "
                  r"sent SIGKILL\)")
        self.assertRegex(err, rf"(?m)^ddprun: {reason}; restart 1 of 1$")
        self.assertRegex(out, rf"^{reason}\n{reason}$")
        self.nothing_left()

    def test_each_timer_that_expires_is_an_event(self):
        events = os.path.join(self.folder, "events")
        code, _, err = self.run_job(*self.words("""
timer("only told", 0.05, signal=0)
timer("ends", 0.1)
wait()
""", "--events", events))
        self.assertEqual(code, 128 + signal.SIGKILL, err)
        with open(events, encoding="utf-8") as file:
            own = [(line["name"], line["metadata"]) for line in map(json.loads, file) if line.get("source") == "DDPRUN"]
        names = [name for name, _ in own]
        told = [facts for name, facts in own if name == "ddprun.timer.expired"]
        self.assertEqual([(facts["rank"], facts["local_rank"], facts["round"], facts["scope"], facts["signal"])
                          for facts in told], [(0, 0, 0, "only told", None), (0, 0, 0, "ends", "SIGKILL")])
        ended = dict(own)["ddprun.worker.ended"]
        self.assertEqual({facts["pid"] for facts in told}, {ended["pid"]})
        self.assertTrue(all(0 <= facts["length_ms"] <= 100 for facts in told), told)
        self.assertLess(names.index("ddprun.timer.expired"), names.index("ddprun.worker.ended"))

    def test_there_are_timers_in_a_clean_environment_too(self):
        for place in ({}, {"TORCHELASTIC_TIMER_FILE": os.path.join(self.folder, "timers")}):
            code, out, err = self.run_job(*self.words("""
print(os.environ["TORCHELASTIC_TIMER_FILE"], flush=True)
timer("clean", 0)
wait()
""", "--clean-env"), env=place)
            self.assertEqual(code, 128 + signal.SIGKILL, err)
            self.assertTrue(out.startswith(place.get("TORCHELASTIC_TIMER_FILE", self.temporary)), out)

    def test_without_the_variable_there_is_no_pipe(self):
        code, out, err = self.run_job(*self.words('print(os.environ.get("TORCHELASTIC_TIMER_FILE"))'),
                                      env={"TORCHELASTIC_ENABLE_FILE_TIMER": "0"})
        self.assertEqual((code, out), (0, "None"), err)

    def test_pytorchs_own_client(self):
        if subprocess.run([SYSTEM_PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode != 0:
            print("skipped: PyTorch is not installed (Debian package python3-torch)")
            self.skipTest("PyTorch is not installed (Debian package python3-torch)")
        script = os.path.join(self.folder, "train.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(CLIENT)
        code, _, err = self.run_job("--nproc-per-node", 2, script, env={"PYTHON_EXEC": SYSTEM_PYTHON})
        self.assertEqual(code, 128 + signal.SIGKILL, err)
        self.assertRegex(err, "first failure: rank 1 ")
        self.assertRegex(err, r"its watchdog timer 'train_step' of 0(\.\d+)? s expired, and ddprun sent SIGKILL")


if __name__ == "__main__":
    support.main()
