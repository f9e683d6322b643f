"""Preemption: a program whose handler only sets a flag gets to the step that saves, since the signal does not end the
children that its steps need; also behind wrappers. The launcher then says that the job is to be queued again.

DDPRUN_PREEMPTIONS=N repeats the case with PyTorch's DataLoader N times in all.
"""

import os
import signal
import subprocess
import tempfile

from support import EndToEndTest, main

SYSTEM_PYTHON = "/usr/bin/python3"  # the one that Debian's python3-torch is for
TRAINER = os.path.join(os.path.dirname(__file__), "..", "helpers", "preempted_trainer.py")
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
DEFAULT_PREEMPTIONS = 3
RANKS = 2
PREEMPTED = 75
GRACE = 3600  # no test waits for it


def has_torch():
    return subprocess.run([SYSTEM_PYTHON, "-c", "import torch"], stderr=subprocess.DEVNULL, check=False).returncode == 0


class PreemptionTest(EndToEndTest):
    def preempt(self, number, program, nproc=RANKS):
        """Runs the program, whose last words are the folder, the signal and `...`; exit code and how many ranks saved."""
        with tempfile.TemporaryDirectory() as folder:
            words = [word.format(folder=folder, signal=number.name, python=SYSTEM_PYTHON, trainer=TRAINER)
                     for word in program]
            job = self.launch("--nproc-per-node", nproc, "--grace", GRACE, "--requeue-on", "USR1", "--no-python", *words)
            job.wait_for_line("^ready$", count=nproc)
            job.send(number)
            code = job.wait()
            return code, len([name for name in os.listdir(folder) if not name.endswith(".part")]), job.err()


class Checkpoints(PreemptionTest):
    def test_with_a_data_loader(self):
        if not has_torch():
            self.skipTest("PyTorch is not installed (Debian package python3-torch)")
        count = int(os.environ.get("DDPRUN_PREEMPTIONS", DEFAULT_PREEMPTIONS))
        saved = 0
        for turn in range(count):
            number = SIGNALS[turn % len(SIGNALS)]
            code, files, err = self.preempt(number, ("{python}", "-u", "{trainer}", "{folder}", "{signal}", "torch"))
            with self.subTest(signal=number.name, turn=turn):
                self.assertEqual((code, files), (PREEMPTED, RANKS), err)
                saved += 1
        print(f"saved {saved} of {count}")

    def test_with_children_that_the_signal_ends(self):
        for number in SIGNALS:
            with self.subTest(number.name):
                code, files, err = self.preempt(number, ("{python}", "-u", "{trainer}", "{folder}", "{signal}"))
                self.assertEqual((code, files), (PREEMPTED, RANKS), err)
                self.assertEqual("requeue the job" in err, number == signal.SIGUSR1)


class Wrappers(PreemptionTest):
    # The wrapper, and the exit code: a shell without a trap ends by the signal, its program saves all the same. Some
    # versions of dash end by SIGINT though their child has taken care of it.
    DASH = (PREEMPTED, 130)
    RUN = "{python} -u {trainer} {folder} {signal}"
    PLAIN = {
        "exec": (("bash", "-c", f"exec {RUN}"), {}),
        "env": (("env", "A=B", *RUN.split()), {}),
        "a chain": (("env", "A=B", "nice", "bash", "-c", RUN), {}),
        "in the foreground": (("bash", "-c", f"{RUN}; exit $?"), {signal.SIGTERM: 143}),
        "in the foreground of sh": (("sh", "-c", f"{RUN}; exit $?"), {signal.SIGTERM: 143, signal.SIGINT: DASH}),
        "below two shells": (
            ("bash", "-c", f"sh -c '{RUN}; exit $?'; exit $?"), {signal.SIGTERM: 143, signal.SIGINT: DASH}),
        "in the background": (("bash", "-c", f"{RUN} & wait"), {signal.SIGTERM: 143, signal.SIGINT: 130}),
        "a trap that passes it on": (
            ("bash", "-c", f"trap 'kill -TERM $p' TERM; {RUN} & p=$!; wait $p; wait $p"), {signal.SIGINT: 130}),
        "a trap that waits": (("bash", "-c", f"trap : TERM; {RUN}; exit $?"), {}),
    }

    def test_a_program_behind_a_wrapper_saves(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            for name, (program, codes) in self.PLAIN.items():
                with self.subTest(name, signal=number.name):
                    code, files, err = self.preempt(number, program, nproc=1)
                    expected = codes.get(number, PREEMPTED)
                    self.assertIn(code, expected if isinstance(expected, tuple) else (expected,), err)
                    self.assertEqual(files, 1, err)


if __name__ == "__main__":
    main()
