"""What the end-to-end tests share: starting the real programs, waiting for what they say, leaving nothing behind.

Usage of a test file: `TEST_FILE BIN_DIR [unittest arguments]`; see main() at the bottom.
"""

import contextlib
import os
import pty
import random
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

HANG_GUARD = 90.0  # seconds; generous, only against tests that would never end

# Who is missing, as an agent says where another one comes 3 s after it: on a busy machine any does.
WAITING = re.compile(r"ddprun: (\S+: )?(joined \d+/\d+, missing |waiting for node 0: ).* of at most .*\(--join-timeout\)$")

# What ddprun would take from the one who runs the tests: options, a key, a job's scheduler, another launcher's ranks.
READ_BY_DDPRUN = re.compile(
    r"(DDPRUN|PET|TORCHELASTIC|TORCH_ELASTIC|SLURM|SLURMD|OMPI|PMI|PMIX|MPI|MV2|HYDI|PALS|JSM|FLUX|HOROVOD|PBS|LSB|LSF|LOADL|SGE|"
    r"COBALT|OAR|KUBERNETES|JOB|JOBSET|REPLICATED|TRAINING|LWS|VC|VK|SM|AZ|AZUREML|AWS_BATCH|SKYPILOT|DSTACK|LEPTON)_.*|"
    r"(MASTER|NODE|GROUP|ROLE|LOCAL|WORLD|LOCAL_WORLD|GROUP_WORLD|ROLE_WORLD)_(ADDR|PORT|RANK|NAME|SIZE)|RANK|NNODES|NPROC_PER_NODE|"
    r"PE_HOSTFILE|PYTHON_EXEC|(NCCL|GLOO|TP)_SOCKET_IFNAME|(CUDA|HIP|ROCR)_VISIBLE_DEVICES|ZE_AFFINITY_MASK|GPU_DEVICE_ORDINAL|"
    r"OMP_NUM_THREADS|(TRITON|TORCHINDUCTOR)_CACHE_DIR|CUDA_CACHE_PATH")
# But for what says how the tests are to run.
READ_BY_TESTS = ("DDPRUN_SANITIZED", "DDPRUN_CULPRIT_ROUNDS", "DDPRUN_MATRIX_SEED", "DDPRUN_MATRIX_REPEATS", "DDPRUN_PREEMPTIONS")

BIN = ""


def program(name):
    return os.path.join(BIN, name)


def worker(*modes):
    """The words of a worker that does one thing after the other; see worker_stub.cpp."""
    return [program("worker_stub"), *modes]


def run_folders(logs):
    """The paths of the runs' own folders in that of --log-dir, by name."""
    return [os.path.join(logs, name) for name in sorted(os.listdir(logs))]


# The names by which ports were given out.
HELD = []


def free_port():
    """A port that nobody has, and no other test is given while this process lives: one of those that the kernel gives to nobody."""
    while True:
        port = random.randrange(10000, 20000)
        name = socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0ddprun-test-port-{port}")
            with socket.socket() as probe:
                probe.bind(("", port))
        except OSError:
            name.close()
            continue
        HELD.append(name)
        return port


class Launcher:
    """One running ddprun (or `name`) with its output as lines, read by threads so that no full pipe ever blocks."""

    def __init__(self, arguments, prefix=(), name="ddprun", **popen):
        self.seen = {"out": [], "err": []}
        self.passed = {"out": 0, "err": 0}
        self.more = threading.Condition()
        self.process = subprocess.Popen([*prefix, program(name), *arguments], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                                        errors="surrogateescape", **popen)
        self.pid = self.process.pid
        self.readers = [threading.Thread(target=self._read, args=(name, pipe), daemon=True)
                        for name, pipe in (("out", self.process.stdout), ("err", self.process.stderr))]
        for reader in self.readers:
            reader.start()

    def _read(self, name, pipe):
        for line in pipe:
            with self.more:
                self.seen[name].append(line.rstrip("\n"))
                self.more.notify()

    def wait_for_line(self, pattern, count=1):
        """Waits until `count` lines, of either stream, match; returns the last match.

        Each stream is read on from where the last match in it was. Nothing is said about the order of lines of
        different streams, so none of one is passed over while a line of the other is waited for.
        """
        deadline = time.monotonic() + HANG_GUARD
        looked_at = dict(self.passed)
        with self.more:
            while True:
                for name, lines in self.seen.items():
                    while looked_at[name] < len(lines):
                        match = re.search(pattern, lines[looked_at[name]])
                        looked_at[name] += 1
                        if match:
                            self.passed[name] = looked_at[name]
                            count -= 1
                            if count == 0:
                                return match
                if not self.more.wait(timeout=max(0.0, deadline - time.monotonic())):
                    raise AssertionError(f"no line like {pattern!r} in {self.seen}")

    def wait_until_idle(self):
        """Waits until the launcher's main thread has finished what it has begun, and waits for events."""
        deadline = time.monotonic() + HANG_GUARD
        while True:
            with open(f"/proc/{self.pid}/wchan", encoding="ascii") as wchan:
                if re.search("epoll|ep_poll", wchan.read()):
                    return
            if time.monotonic() > deadline:
                raise AssertionError(f"the launcher does not wait for events: {self.seen}")
            time.sleep(0.01)  # That another process falls asleep is no event for us.

    def send(self, number):
        self.process.send_signal(number)

    def interrupt_until_gone(self):
        """As a user who presses Ctrl-C until it helps; what comes within a second of the first one is the same one."""
        pause = 1.2  # Longer each time: one that comes when the launcher has ended all but itself would kill it.
        deadline = time.monotonic() + HANG_GUARD
        while True:
            self.send(signal.SIGINT)
            try:
                return self.process.wait(timeout=pause)
            except subprocess.TimeoutExpired:
                pause *= 2
                if time.monotonic() > deadline:
                    raise AssertionError(f"interrupts do not end the launcher; it said {self.seen}") from None

    def wait(self):
        """The exit code, -N for a signal; afterwards out() and err() are complete."""
        try:
            code = self.process.wait(timeout=HANG_GUARD)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"the launcher did not end; it said {self.seen}") from None
        for reader in self.readers:
            reader.join(timeout=HANG_GUARD)
        self.process.stdout.close()
        self.process.stderr.close()
        return code

    def out(self):
        return "\n".join(self.seen["out"])

    def err(self):
        """But for who is missing."""
        return "\n".join(line for line in self.seen["err"] if not WAITING.match(line))

    def err_and_waiting(self):
        return "\n".join(self.seen["err"])


class Screen:
    """The master's end of a pseudo-terminal: what a person types and sees."""

    def __init__(self, keyboard):
        self.keyboard = keyboard
        self.seen = ""

    def type(self, keys):
        os.write(self.keyboard, keys)

    def expect(self, pattern):
        """Reads the screen until something matches; what was matched is not matched again."""
        deadline = time.monotonic() + HANG_GUARD
        while not (match := re.search(pattern, self.seen, re.MULTILINE)):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.keyboard], [], [], left)[0]:
                raise AssertionError(f"nothing like {pattern!r} in {self.seen!r}")
            self.seen += os.read(self.keyboard, 4096).decode(errors="replace").replace("\r", "")
        self.seen = self.seen[match.end():]
        return match


class Shell(Screen):
    """An interactive shell with job control in a terminal of its own."""

    def __init__(self, environment):
        self.pid, keyboard = pty.fork()
        if self.pid == 0:
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"], {**environment, "PS1": "$ "})
        super().__init__(keyboard)

    def close(self):
        os.close(self.keyboard)
        os.waitpid(self.pid, 0)


def processes_of_job(marker):
    """Pids of live processes that carry `marker` in their environment."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as environ, open(f"/proc/{entry}/stat", "rb") as stat:
                alive = stat.read().rpartition(b")")[2].split()[0] != b"Z"
                if alive and marker.encode() in environ.read():
                    found.append(int(entry))
        except OSError:
            continue
    return found


class EndToEndTest(unittest.TestCase):
    """Marks everything it starts and insists that nothing of it is left when the test is over."""

    def setUp(self):
        self.marker = f"DDPRUN_TEST_MARK={os.getpid()}-{self.id()}"
        name, value = self.marker.split("=")
        self.environment = {**os.environ, name: value}
        self.launchers = []

    def tearDown(self):
        for launcher in self.launchers:
            if launcher.process.poll() is None:
                launcher.process.kill()
            if not launcher.process.stdout.closed:
                launcher.wait()
        deadline = time.monotonic() + HANG_GUARD
        left = processes_of_job(self.marker)
        while left and time.monotonic() < deadline:
            time.sleep(0.01)  # The death of a process that is not our child is no event for us.
            left = processes_of_job(self.marker)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):  # It ended with another one.
                os.kill(pid, signal.SIGKILL)
        self.assertEqual(left, [], "processes of the job were left behind")

    def launch(self, *arguments, prefix=(), env=None, **popen):
        launcher = Launcher([str(argument) for argument in arguments], prefix,
                            env={**self.environment, **(env or {})}, **popen)
        self.launchers.append(launcher)
        return launcher

    def run_job(self, *arguments, **options):
        launcher = self.launch(*arguments, **options)
        return launcher.wait(), launcher.out(), launcher.err()


class ShellTest(EndToEndTest):
    """With a shell on a terminal of its own."""

    def setUp(self):
        super().setUp()
        self.shell = Shell(self.environment)

    def tearDown(self):
        self.shell.close()
        super().tearDown()


def cases_of(suite):
    for test in suite:
        yield from cases_of(test) if isinstance(test, unittest.TestSuite) else [test.id().partition(".")[2]]


def names_of_part(part):
    """Of the file's test cases the first of N parts, for '1/N': each N-th."""
    number, of = (int(word) for word in part.split("/"))
    names = sorted(cases_of(unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])))[number - 1::of]
    return names or sys.exit(f"there is no part {part}")


class ToldSkips(unittest.TextTestResult):
    """Says of each case that is skipped why, on a line that scripts/test.sh shows."""

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        print(f"\nskipped: {reason.removeprefix('skipped: ')} ({test.id().partition('.')[2]})", flush=True)


class Runner(unittest.TextTestRunner):
    resultclass = ToldSkips


def main():
    global BIN
    if len(sys.argv) < 2:
        sys.exit("usage: TEST_FILE BIN_DIR [--part K/N | unittest arguments]")
    # Test files import this module by name, while it may also run as a script's helper: one BIN for both.
    BIN = os.path.abspath(sys.argv.pop(1))
    for name in [name for name in os.environ if READ_BY_DDPRUN.fullmatch(name) and name not in READ_BY_TESTS]:
        del os.environ[name]
    os.environ["XDG_CONFIG_HOME"] = "/dev/null/none"  # No key of whoever runs the tests makes a job another one.
    if sys.argv[1:2] == ["--part"]:
        sys.argv[1:] = names_of_part(sys.argv[2])
    unittest.main(verbosity=1, testRunner=Runner)
