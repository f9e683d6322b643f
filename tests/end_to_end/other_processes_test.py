"""No end of a job looks at processes of others."""

import os
import re
import shutil
import signal
import subprocess
import tempfile

import support
from support import EndToEndTest, program, worker


class OtherProcesses(EndToEndTest):
    """No job opens a file of a process that is not its own, so its end does not depend on how many there are."""

    TRACE = ("strace", "-f", "-qq", "-e", "trace=open,openat,clone,clone3,fork,vfork", "-o")

    def setUp(self):
        super().setUp()
        if os.environ.get("DDPRUN_SANITIZED"):
            self.skipTest("sanitizers do not run beside strace")
        if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
            self.skipTest("this kernel does not list the children of a process")
        if not shutil.which("strace"):
            self.skipTest("strace is missing")
        probe = subprocess.run([*self.TRACE, "/dev/null", "true"], capture_output=True, text=True, check=False)
        if probe.returncode != 0:
            self.skipTest(f"nothing can be traced: {probe.stderr.strip()}")

    def opened_of_others(self, code, *words):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace")
            job = self.launch("--nproc-per-node", 2, "--grace", 1, program("worker_stub"), *words,
                              prefix=[*self.TRACE, path])
            self.assertEqual(job.wait(), code)
            with open(path, encoding="utf-8", errors="replace") as file:
                trace = file.read()
        # One that was killed at once has done nothing but be born.
        own = set(re.findall(r"^(\d+) ", trace, re.MULTILINE))
        own |= set(re.findall(r"(?:clone3?|fork)\b.* = (\d+)$", trace, re.MULTILINE))
        self.assertGreater(len(own), 4)
        return sorted(set(re.findall(r'"/proc/(\d+)/', trace)) - own)

    def test_no_end_looks_at_others(self):
        jobs = tempfile.TemporaryDirectory()
        self.addCleanup(jobs.cleanup)
        self.environment["DDPRUN_JOBS_DIR"] = jobs.name
        # Another job runs, of which ddpctl knows; and one was killed just now.
        killed, runs = (self.launch(*worker("ready-then-wait")) for _ in range(2))
        for launcher in (killed, runs):
            launcher.wait_for_line("^ready$")
        killed.send(signal.SIGKILL)
        killed.wait()
        for code, *words in ((0, "exit", "0"), (0, "daemon", "exit", "0"), (3, "exit", "3"),
                             (3, "--only-rank", "0", "exit", "3", "else", "ready-then-wait"),
                             (3, "--only-rank", "0", "daemon", "exit", "3", "else", "daemon", "ignore-term")):
            with self.subTest(words=words):
                self.assertEqual(self.opened_of_others(code, *words), [])


if __name__ == "__main__":
    support.main()
