"""What a launcher that was killed (SIGKILL) would have put right itself."""

import fcntl
import os
import pty
import signal
import subprocess
import sys
import tempfile
import termios
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from support import EndToEndTest, Screen, program, worker


def wait_until(condition, what):
    deadline = time.monotonic() + support.HANG_GUARD
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(what)
        time.sleep(0.01)  # What a process of another's does is no event for us.


class KilledLauncher(EndToEndTest):
    def lend_terminal(self):
        """A job with --tty in a terminal whose session leader outlives it, as a person's shell does: the terminal, how it was,
        and the launcher's pid."""
        keyboard, terminal = pty.openpty()
        self.addCleanup(os.close, keyboard)
        self.addCleanup(os.close, terminal)
        before = termios.tcgetattr(terminal)
        job = ["env", self.marker, program("ddprun"), "--nproc-per-node=2", "--tty=0", *worker("ready-then-wait")]
        shell = subprocess.Popen(["sh", "-c", '"$@"; exec sleep 1000', "sh", *job], stdin=terminal, stdout=terminal, stderr=terminal,
                                 start_new_session=True,
                                 preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.addCleanup(shell.wait)
        self.addCleanup(shell.kill)
        Screen(keyboard).expect(r"ready$[\s\S]*ready$")
        wait_until(lambda: termios.tcgetattr(terminal) != before, "the terminal was not lent")
        with open(f"/proc/{shell.pid}/task/{shell.pid}/children", encoding="ascii") as children:
            return terminal, before, int(children.read())

    def test_the_terminal_of_one_rank_is_as_it_was(self):
        terminal, before, launcher = self.lend_terminal()
        os.kill(launcher, signal.SIGKILL)
        wait_until(lambda: termios.tcgetattr(terminal) == before, "the terminal stays as it was lent")

    def test_modes_that_others_set_meanwhile_stay(self):
        terminal, before, launcher = self.lend_terminal()
        others = [*before]
        others[3] &= ~termios.ECHO
        termios.tcsetattr(terminal, termios.TCSANOW, others)
        os.kill(launcher, signal.SIGKILL)
        # The guardian has looked at the terminal before it ends.
        wait_until(lambda: not support.processes_of_job(self.marker), "the guardian is still there")
        self.assertEqual(termios.tcgetattr(terminal), others)

    def test_its_empty_folder_among_the_temporary_files_goes(self):
        with tempfile.TemporaryDirectory() as folder:
            job = self.launch("--nproc-per-node=1", *worker("ready-then-wait"), env={"TMPDIR": folder})
            job.wait_for_line("^ready$")
            self.assertRegex(" ".join(os.listdir(folder)), "^ddprun_")
            job.send(signal.SIGKILL)
            self.assertEqual(job.wait(), -signal.SIGKILL)
            wait_until(lambda: not os.listdir(folder), "the folder stays")

    def test_a_folder_that_holds_something_stays(self):
        with tempfile.TemporaryDirectory() as folder:
            job = self.launch("--nproc-per-node=1", *worker("write-error-file", "flat", "last word", "ready-then-wait"), env={"TMPDIR": folder})
            job.wait_for_line("^ready$")
            job.send(signal.SIGKILL)
            self.assertEqual(job.wait(), -signal.SIGKILL)
            wait_until(lambda: not support.processes_of_job(self.marker), "the guardian is still there")
            self.assertEqual(len(os.listdir(folder)), 1)


if __name__ == "__main__":
    support.main()
