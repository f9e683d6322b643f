"""Detached jobs of several PID namespaces that share the jobs' folder, as containers with one /tmp do."""

import json
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from job_folders import JobsTest
from support import worker


class OtherNamespaces(JobsTest):
    CONTAINER = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")

    def setUp(self):
        super().setUp()
        tried = subprocess.run([*self.CONTAINER, "true"], capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            self.skipTest(f"skipped: no PID namespaces here: {tried.stderr.strip()}")

    def test_launchers_of_two_leave_each_others_jobs_alone(self):
        # Each namespace ends with its first process, so that one stays until the job has ended.
        script = f'"$@" && echo started && while [ ! -e {self.go} ]; do sleep 0.05; done'
        for _ in range(5):
            containers = [self.launch("--detach", *worker("ready-then-wait"), prefix=(
                *self.CONTAINER, "sh", "-c", script, "sh")) for _ in range(2)]
            for container in containers:
                container.wait_for_line("^started$")
            jobs = [container.seen["out"][0] for container in containers]
            # From here, a third one, all of them run, and pids say nothing.
            listed = json.loads(self.run_ctl("list", "--json")[1])
            self.assertEqual({job["id"]: job["state"] for job in listed}, dict.fromkeys(jobs, "running"))
            code, _, err = self.run_ctl("kill", jobs[0])
            self.assertEqual((code, "another PID namespace" in err), (71, True), err)
            self.assertEqual([self.run_ctl("kill", "--no-wait", job)[0] for job in jobs], [0, 0])
            for job in jobs:
                self.wait_for_end(job)
                self.assertEqual(self.status(job)["exit_code"], 143)
            self.let_go()
            self.assertEqual([container.wait() for container in containers], [0, 0])
            os.unlink(self.go)
            for job in jobs:
                shutil.rmtree(os.path.join(self.jobs, job))

    def wait_for_end(self, job):
        deadline = time.monotonic() + support.HANG_GUARD
        while not os.path.exists(os.path.join(self.jobs, job, "result.json")) and time.monotonic() < deadline:
            time.sleep(0.01)  # Its end is no event for us: that is what this test is about.


if __name__ == "__main__":
    support.main()
