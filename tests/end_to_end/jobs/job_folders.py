"""Jobs in a folder of the test's own, and ddpctl for it: for tests of what ddpctl does."""

import json
import os
import subprocess
import tempfile
import time

import support
from support import EndToEndTest, program


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class JobsTest(EndToEndTest):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.runtime = folder.name
        self.jobs = os.path.join(folder.name, "ddprun")
        self.environment["DDPRUN_JOBS_DIR"] = folder.name
        self.go = os.path.join(folder.name, "go")

    def tearDown(self):
        if os.path.isdir(self.jobs) and not os.path.islink(self.jobs):
            os.chmod(self.jobs, 0o700)
            for name in self.folders():
                subprocess.run([program("ddpctl"), "kill", "--signal", "KILL", name], env=self.environment,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        super().tearDown()

    def folders(self):
        return sorted(os.listdir(self.jobs)) if os.path.isdir(self.jobs) else []

    def start(self, *arguments, **options):
        """The id of a job that was started detached, once ddprun has returned."""
        code, out, err = self.run_job("--detach", *arguments, **options)
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(len(out.splitlines()), 1)
        return out

    def ctl(self, *arguments, **options):
        return self.launch(*arguments, name="ddpctl", **options)

    def run_ctl(self, *arguments, **options):
        return self.run_job(*arguments, name="ddpctl", **options)

    def status(self, job):
        code, out, err = self.run_ctl("status", "--json", job)
        self.assertEqual((code, err), (0, ""))
        return json.loads(out)

    def await_jobs(self, found):
        """What `found` returns, once it returns something."""
        deadline = time.monotonic() + support.HANG_GUARD
        while not (jobs := found()) and time.monotonic() < deadline:
            time.sleep(0.01)  # Python has no event for a folder that gets its name.
        return jobs

    def detached(self):
        """The ids of detached jobs whose workers have run."""
        return [name for name in self.folders() if not name.startswith(".") and os.path.exists(os.path.join(self.jobs, name, "output"))]

    def let_go(self):
        open(self.go, "w", encoding="ascii").close()
