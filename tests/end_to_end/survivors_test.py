"""Nothing survives: every way a job can end, for every kind of process a worker may leave behind.

A process of the job is known by the job's id in its environment. DDPRUN_MATRIX_REPEATS says how often each cell of the
matrix is run (2 by default; 20 for the record).
"""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

import support
from process_tree import all_below, below, kill_if_there, process_table
from support import EndToEndTest, free_port, processes_of_job, program

REPEATS = int(os.environ.get("DDPRUN_MATRIX_REPEATS", "2"))
GRACE = 1  # seconds
WORKERS = 2
# What must be gone, is gone this long after the grace, and sooner than who kills what is left. The test waits for it as an event where it can.
PATIENCE = 8.0 if not os.environ.get("DDPRUN_SANITIZED") else support.HANG_GUARD

GUARDIAN = "rank-guardian"
KEEPER = "rank-keeper"

# What each worker is, once it has said "ready"; {go} is a file that lets the crash happen.
KINDS = {
    "plain": ("ready-then-wait",),
    "setsid grandchild": ("setsid-grandchild", "ready-then-wait"),
    "daemon": ("daemon", "ready-then-wait"),
    "ignores SIGTERM": ("ignore-term",),
    "stopped": ("stop-itself",),
}
# The same, but rank 0 crashes when the file is there.
CRASHING = {
    "plain": (),
    "setsid grandchild": ("setsid-grandchild",),
    "daemon": ("daemon",),
    "ignores SIGTERM": ("fork", "ignore-term", "end"),
    "stopped": ("fork", "stop-itself", "end"),
}
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class SurvivorsTest(EndToEndTest):
    def job_mark(self, launcher, lines):
        """The mark of the job, from a worker's environment."""
        out = launcher.out()
        self.assertGreaterEqual(len(re.findall("^ready$", out, re.MULTILINE)), lines)
        return re.search(r"^DDPRUN_RUN_ID=.+$", out, re.MULTILINE)[0]

    def start(self, kind, *flags, **options):
        """A job of this kind, ready; returns it and its mark."""
        job = self.launch("--nproc-per-node", WORKERS, "--grace", GRACE, *flags, program("worker_stub"), "print-env",
                          *KINDS[kind], **options)
        job.wait_for_line("^ready$", count=WORKERS)
        return job, self.job_mark(job, WORKERS)

    def crashing(self, kind, go, *flags, **options):
        hold = KINDS[kind]
        crash = (*CRASHING[kind], "say", "ready", "wait-for-file", go, "signal", "11")
        job = self.launch("--nproc-per-node", WORKERS, "--grace", GRACE, *flags, program("worker_stub"), "--only-rank",
                          "0", "print-env", *crash, "else", *hold, **options)
        job.wait_for_line("^ready$", count=WORKERS)
        return job, self.job_mark(job, WORKERS)

    def assert_nothing_left(self, mark, since, what):
        """Nothing of the job is there soon after the grace has passed."""
        deadline = max(since + GRACE, time.monotonic()) + PATIENCE
        left = processes_of_job(mark)
        while left and time.monotonic() < deadline:
            time.sleep(0.002)  # The end of a process that is not our child is no event for us.
            left = processes_of_job(mark)
        table = process_table()
        self.assertEqual([(pid, table.get(pid)) for pid in left], [], what)


class Matrix(SurvivorsTest):
    def cells(self):
        return [kind for kind in KINDS for _ in range(REPEATS)]

    def test_a_signal_to_the_launcher(self):
        for number in SIGNALS:
            for kind in self.cells():
                job, mark = self.start(kind)
                since = time.monotonic()
                job.send(number)
                self.assertEqual(job.wait(), 128 + number)
                self.assert_nothing_left(mark, since, (number, kind))

    def test_sigkill_to_the_launcher(self):
        for kind in self.cells():
            job, mark = self.start(kind)
            since = time.monotonic()
            job.send(signal.SIGKILL)
            self.assertEqual(job.wait(), -signal.SIGKILL)
            self.assert_nothing_left(mark, since, kind)

    def test_sigkill_to_the_guardian(self):
        for kind in self.cells():
            job, mark = self.start(kind, "-v")
            # A worker may be ready before the launcher has heard that it was started.
            job.wait_for_line(f"^ddprun: rank {WORKERS - 1} of {WORKERS}: pid")
            since = time.monotonic()
            os.kill(below(job.pid, GUARDIAN), signal.SIGKILL)
            self.assertEqual(job.wait(), 128 + signal.SIGKILL)
            self.assertIn("ddprun: the guardian, which runs the workers of this node, was killed", job.err())
            self.assert_nothing_left(mark, since, kind)

    def test_sigkill_to_launcher_and_guardian_in_the_same_instant(self):
        for kind in self.cells():
            for companion in (GUARDIAN, KEEPER):
                job, mark = self.start(kind)
                targets = (job.pid, below(job.pid, companion))
                since = time.monotonic()
                for pid in targets:
                    kill_if_there(pid)
                self.assertEqual(job.wait(), -signal.SIGKILL)
                self.assert_nothing_left(mark, since, (kind, companion))

    def test_a_crash_of_a_worker(self):
        for kind in self.cells():
            with tempfile.TemporaryDirectory() as folder:
                go = os.path.join(folder, "go")
                job, mark = self.crashing(kind, go)
                since = time.monotonic()
                open(go, "w", encoding="ascii").close()
                self.assertEqual(job.wait(), 128 + signal.SIGSEGV)
                self.assert_nothing_left(mark, since, kind)

    def test_the_exception_sigkill_to_all_three(self):
        """With launcher, keeper and guardian killed at once, nobody is left to act: the workers end by their
        parent-death signal, and only what left their sessions may stay."""
        for kind in self.cells():
            job, mark = self.start(kind)
            hidden = [int(pid) for pid in re.findall(r"^pid (\d+)$", job.out(), re.MULTILINE)]
            targets = (job.pid, below(job.pid, KEEPER), below(job.pid, GUARDIAN))
            for pid in targets:
                kill_if_there(pid)
            since = time.monotonic()
            deadline = since + support.HANG_GUARD
            while set(processes_of_job(mark)) - set(hidden) and time.monotonic() < deadline:
                time.sleep(0.002)  # The end of a process that is not our child is no event for us.
            left = processes_of_job(mark)
            self.assertLessEqual(set(left), set(hidden), kind)
            for pid in left:
                kill_if_there(pid)
            job.wait()
            self.remove_cgroups_of(job.pid)

    def test_clean_ups_by_name_leave_one_who_cleans_up(self):
        """pkill, killall and pkill -f, with the launcher's name or the user's program's."""
        for text, name in (("ddprun", "comm"), ("ddprun", "cmdline"), ("worker_stub", "cmdline")):
            job, mark = self.start("setsid grandchild")
            met = []
            for pid in all_below(job.pid):
                with open(f"/proc/{pid}/{name}", "rb") as file:
                    if text.encode() in file.read():
                        met.append(pid)
            self.assertIn(job.pid, met)
            since = time.monotonic()
            for pid in met:
                kill_if_there(pid)
            job.wait()
            self.assert_nothing_left(mark, since, (text, name))

    def remove_cgroups_of(self, agent):
        """The folders that nobody was left to remove."""
        with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
            roots = [line.split()[4] for line in mounts if " - cgroup2 " in line]
        for root in roots:
            for folder, _, _ in os.walk(root, topdown=False):
                if f"/ddprun-{agent}-" in folder:
                    self.remove_when_empty(folder)

    def remove_when_empty(self, folder):
        deadline = time.monotonic() + support.HANG_GUARD
        while True:
            try:
                return os.rmdir(folder)
            except OSError:
                self.assertLess(time.monotonic(), deadline, "a cgroup stays in use")
                time.sleep(0.002)  # That its last process has left it is no event for us.


class TwoNodes(SurvivorsTest):
    """On the other agent's side nothing is left either."""

    def pair(self, kind):
        port = free_port()
        jobs = []
        for rank in (0, 1):
            jobs.append(self.launch("--nnodes", 2, "--node-rank", rank, "--nproc-per-node", 1, "--master-addr",
                                    "127.0.0.1", "--master-port", port, "--grace", GRACE, program("worker_stub"),
                                    "print-env", *KINDS[kind]))
        for job in jobs:
            job.wait_for_line("^ready$")
        return jobs, self.job_mark(jobs[0], 1)

    def strikes(self):
        def strike_both(job):
            for pid in (below(job.pid, GUARDIAN), job.pid):
                kill_if_there(pid)

        def strike_worker(job):
            guardian = below(job.pid, GUARDIAN)
            mark = self.job_mark(job, 1)
            os.kill(next(pid for pid, (parent, _, _) in process_table().items()
                         if parent == guardian and pid in processes_of_job(mark)), signal.SIGKILL)

        return [*((number.name, lambda job, number=number: job.send(number)) for number in (*SIGNALS, signal.SIGKILL)),
                ("guardian", lambda job: os.kill(below(job.pid, GUARDIAN), signal.SIGKILL)),
                ("both", strike_both), ("worker", strike_worker)]

    def test_both_sides_end(self):
        for kind in KINDS:
            for target in (0, 1):
                for name, strike in self.strikes() * max(1, REPEATS // 2):
                    with self.subTest(kind=kind, target=target, strike=name):
                        jobs, mark = self.pair(kind)
                        since = time.monotonic()
                        strike(jobs[target])
                        codes = [job.wait() for job in jobs]
                        self.assertNotIn(0, codes)
                        self.assert_nothing_left(mark, since, (kind, target, name))


class Container(SurvivorsTest):
    """ddprun as process 1 of a PID namespace, as in a container without an init of its own."""

    def setUp(self):
        super().setUp()
        self.prefix = ["unshare", "-pf", "--mount-proc"]
        probe = subprocess.run([*self.prefix, "true"], capture_output=True, text=True, check=False)
        if probe.returncode != 0:
            self.skipTest(f"no PID namespace can be made: {probe.stderr.strip()}")

    def test_a_thousand_orphans_leave_no_zombie(self):
        for orphans in (("orphans", "1000"), ("daemon", "orphans", "1000")):
            with tempfile.TemporaryDirectory() as folder:
                go = os.path.join(folder, "go")
                job = self.launch("--nproc-per-node", 1, "--grace", GRACE, program("worker_stub"), *orphans,
                                  "fail-when-file", go, prefix=self.prefix)
                job.wait_for_line("^ready$")
                init = next(pid for pid, (parent, name, _) in process_table().items()
                            if parent == job.pid and name == "ddprun")
                deadline = time.monotonic() + support.HANG_GUARD
                while self.zombies(init) and time.monotonic() < deadline:
                    time.sleep(0.002)  # That a process was reaped by another one is no event for us.
                self.assertEqual(self.zombies(init), [])
                open(go, "w", encoding="ascii").close()
                self.assertEqual(job.wait(), 7)

    def test_orphans_of_process_1_itself_are_reaped(self):
        # What enters the container from outside and is left there becomes a child of process 1.
        if not shutil.which("nsenter"):
            self.skipTest("nsenter is missing")
        job = self.launch("--nproc-per-node", 1, "--grace", GRACE, program("worker_stub"), "ready-then-wait",
                          prefix=self.prefix)
        job.wait_for_line("^ready$")
        init = next(pid for pid, (parent, name, _) in process_table().items()
                    if parent == job.pid and name == "ddprun")
        subprocess.run(["nsenter", "-t", str(init), "-p", "-m", program("worker_stub"), "orphans", "100"], check=True,
                       timeout=support.HANG_GUARD)
        deadline = time.monotonic() + support.HANG_GUARD
        while self.zombies(init) and time.monotonic() < deadline:
            time.sleep(0.002)  # That a process was reaped by another one is no event for us.
        self.assertEqual(self.zombies(init), [])
        os.kill(init, signal.SIGTERM)
        self.assertEqual(job.wait(), 128 + signal.SIGTERM)

    def zombies(self, init):
        table = process_table()
        found = []
        for pid, (parent, _, state) in table.items():
            while parent in table and parent != init:
                parent = table[parent][0]
            if parent == init and state == "Z":
                found.append(pid)
        return found

    def test_sigterm_starts_the_grace(self):
        job = self.launch("--nproc-per-node", 2, "--grace", 60, program("worker_stub"), "exit-zero-on-term",
                          prefix=self.prefix)
        job.wait_for_line("^ready$", count=2)
        init = next(pid for pid, (parent, name, _) in process_table().items()
                    if parent == job.pid and name == "ddprun")
        os.kill(init, signal.SIGTERM)
        self.assertEqual(job.wait(), 75)
        self.assertEqual(job.out().count("got SIGTERM"), 2)


class Unkillable(SurvivorsTest):
    """A process that SIGKILL does not end: the kernel has frozen it (cgroup v1)."""

    def setUp(self):
        super().setUp()
        with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
            roots = [line.split()[4] for line in mounts if re.search(" - cgroup .*freezer", line)]
        try:
            self.folder = tempfile.mkdtemp(prefix="ddprun-test-", dir=roots[0])
        except (IndexError, OSError) as error:
            self.skipTest(f"no freezer cgroup can be made: {error}")

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="ascii") as file:
            file.write(text)

    def tearDown(self):
        self.write("freezer.state", "THAWED")
        super().tearDown()
        os.rmdir(self.folder)

    def test_it_is_named_and_holds_the_launcher_for_15_s(self):
        job = self.launch("--nproc-per-node", 2, "--grace", GRACE, program("worker_stub"), "print-env",
                          "ready-then-wait")
        job.wait_for_line("^ready$", count=2)
        mark = self.job_mark(job, 2)
        frozen = next(pid for pid in processes_of_job(mark) if self.rank_of(pid) == "1")
        self.write("cgroup.procs", str(frozen))
        self.write("freezer.state", "FROZEN")
        since = time.monotonic()
        job.send(signal.SIGTERM)
        self.assertEqual(job.wait(), 128 + signal.SIGTERM)
        self.assertGreaterEqual(time.monotonic() - since, 15)
        if not os.environ.get("DDPRUN_SANITIZED"):
            self.assertLess(time.monotonic() - since, GRACE + 15 + 5)
        process = rf"pid {frozen} \(worker_stub, state D in \w+\)"
        self.assertRegex(job.err(), rf"ddprun: rank 1, {process}, does not end even by SIGKILL")
        self.assertRegex(job.err().splitlines()[-1], rf"survivors: 1: {process}$")

    def rank_of(self, pid):
        with open(f"/proc/{pid}/environ", "rb") as environ:
            return re.search(rb"(?:^|\0)RANK=(\d+)", environ.read())[1].decode()


class Quiet(SurvivorsTest):
    def test_ctrl_c_of_a_terminal_reaches_the_launcher_only(self):
        # A terminal signals its foreground process group: the launcher's.
        job, mark = self.start("plain", start_new_session=True)
        since = time.monotonic()
        os.killpg(job.pid, signal.SIGINT)
        self.assertEqual(job.wait(), 128 + signal.SIGINT)
        self.assert_nothing_left(mark, since, "SIGINT to the group")

    def test_a_launcher_killed_with_its_group_leaves_nothing(self):
        # As `timeout -s KILL` does.
        job, mark = self.start("daemon", start_new_session=True)
        since = time.monotonic()
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        self.assert_nothing_left(mark, since, "SIGKILL to the group")

    def test_no_cgroup_is_left(self):
        with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
            roots = [line.split()[4] for line in mounts if " - cgroup2 " in line]
        job, mark = self.start("daemon")
        since = time.monotonic()
        job.send(signal.SIGTERM)
        job.wait()
        self.assert_nothing_left(mark, since, "SIGTERM")
        for root in roots:
            left = [folder for folder, _, _ in os.walk(root) if f"/ddprun-{job.pid}-" in folder]
            self.assertEqual(left, [])

    def test_guardian_and_keeper_are_small_and_idle(self):
        job, _ = self.start("plain")
        for name in (GUARDIAN, KEEPER):
            pid = below(job.pid, name)
            with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as smaps:
                own_kib = sum(int(kib) for kib in re.findall(r"^Private_\w+:\s+(\d+) kB$", smaps.read(), re.MULTILINE))
            if not os.environ.get("DDPRUN_SANITIZED"):
                self.assertLess(own_kib, 2 * 1024, name)
        job.send(signal.SIGTERM)
        job.wait()


if __name__ == "__main__":
    support.main()
