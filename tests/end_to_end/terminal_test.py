"""What needs a terminal: --tty, by which one rank has it, as under a debugger, and the line that says who is awaited. The
terminal is a real one: a pseudo-terminal that is the launcher's controlling terminal, typed into by the test."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import tempfile
import termios

import support
from support import EndToEndTest, Screen, free_port, program, worker

CTRL_C = b"\x03"
CTRL_Z = b"\x1a"
BOTH_READY = r"ready$[\s\S]*ready$"


class Terminal(Screen):
    """A launcher in a terminal of its own."""

    def __init__(self, arguments, environment):
        keyboard, screen = pty.openpty()
        super().__init__(keyboard)
        self.before = termios.tcgetattr(screen)
        self.process = subprocess.Popen([program("ddprun"), *map(str, arguments)], stdin=screen, stdout=screen,
                                        stderr=screen, env=environment, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.screen = screen  # Kept, to look at its modes.

    def resize(self, rows, columns):
        fcntl.ioctl(self.keyboard, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def modes(self):
        return termios.tcgetattr(self.screen)

    def wait(self):
        """The exit code; what is on the screen then is in `seen`."""
        code = self.process.wait(timeout=support.HANG_GUARD)
        while select.select([self.keyboard], [], [], 0)[0]:
            self.seen += os.read(self.keyboard, 4096).decode(errors="replace").replace("\r", "")
        return code

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.keyboard)
        os.close(self.screen)


class TerminalTest(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.terminals = []

    def tearDown(self):
        for terminal in self.terminals:
            terminal.close()
        super().tearDown()

    def terminal(self, *arguments):
        self.terminals.append(Terminal(arguments, self.environment))
        return self.terminals[-1]


class Waiting(TerminalTest):
    PASSING = r"ddprun: waiting for node 1, (\d+) s of 15 min: joined 1/2(?:; refused an agent on [^;]*)?; there: node 0 \(\S+\)"
    ERASED = r"\x1b\[K"

    def setUp(self):
        super().setUp()
        self.flags = ("--nnodes", 2, "--master-addr", "127.0.0.1", "--master-port", free_port())

    def waiting(self, *flags, words=("true",)):
        """Node 0, whose line has been brought up to date, each time in place of the one before."""
        terminal = self.terminal(*self.flags, *flags, *words)
        terminal.resize(24, 200)
        first = int(terminal.expect(rf"\A{self.PASSING}")[1])
        while int(terminal.expect(rf"\A{self.ERASED}{self.PASSING}")[1]) == first:
            pass
        return terminal

    def test_one_line_is_brought_up_to_date_and_gone_when_the_round_begins(self):
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "log")
            go = os.path.join(folder, "go")
            words = worker("wait-for-file", go, "say", "works")
            terminal = self.waiting("--log-file", log, words=words)
            other = self.launch(*self.flags, "--node-rank", 1, *words)
            # Before the workers have said anything. (Two reads may cut an update in two.)
            terminal.expect(rf"\A({self.ERASED}{self.PASSING})*{self.ERASED}\Z")
            open(go, "w", encoding="ascii").close()
            terminal.expect(rf"\A({self.PASSING})?({self.ERASED}{self.PASSING})*({self.ERASED})?works\n")
            self.assertEqual((other.wait(), terminal.wait(), terminal.seen), (0, 0, ""))
            with open(log, encoding="utf-8") as lines:
                said = [line for line in lines if "joined 1/2" in line]
            self.assertEqual(len(said), 1, "the file has each change once")

    def test_other_lines_take_its_place_and_never_stand_behind_it(self):
        terminal = self.waiting()
        stranger = self.launch(*self.flags, "--node-rank", 1, "--rdzv-id", "other", "true")
        self.assertEqual(stranger.wait(), 77)
        terminal.expect(rf"\A({self.ERASED}{self.PASSING})*{self.ERASED}ddprun: refused an agent on [^\n]*\n"
                        rf"{self.PASSING}")
        terminal.process.send_signal(signal.SIGTERM)
        self.assertEqual(terminal.wait(), 143)
        self.assertRegex(terminal.seen, rf"\A({self.ERASED}{self.PASSING})*{self.ERASED}ddprun: ended by SIGTERM [^\n]*\n\Z")

    def test_it_is_cut_to_the_terminals_width(self):
        terminal = self.terminal(*self.flags, "true")
        terminal.resize(24, 20)
        terminal.expect(rf"\A(?=[^\x1b]{{20}}\x1b)ddprun: waiting for {self.ERASED}")


class TtyTest(TerminalTest):
    def test_ctrl_c_reaches_that_rank_only(self):
        terminal = self.terminal("--nproc-per-node", 2, "--tty", 1, "--prefix={rank} ", program("worker_stub"),
                                 "print-signals")
        terminal.expect(BOTH_READY)
        for _ in range(3):
            terminal.type(CTRL_C)
            terminal.expect(r"^(\^C)?SIGINT$")
        terminal.type(CTRL_Z)
        terminal.expect(r"^(\^Z)?SIGTSTP$")
        # The other rank hears of the end only.
        terminal.process.send_signal(signal.SIGTERM)
        self.assertEqual(terminal.expect("^0 (.*)$")[1], "SIGTERM")
        terminal.process.send_signal(signal.SIGKILL)
        terminal.process.wait(timeout=support.HANG_GUARD)

    def test_an_interpreter_at_the_keyboard(self):
        terminal = self.terminal("--nproc-per-node", 2, "--tty", 0, "--no-python", "sh", "-c",
                                 'if [ "$RANK" = 0 ]; then exec python3 -q -i; else exec sleep 1000; fi')
        terminal.expect("^>>> ")
        self.assertNotEqual(terminal.modes()[3], terminal.before[3], "the real terminal is not raw")
        terminal.type(b"import threading, os; print('tty', os.isatty(0), os.isatty(1), os.isatty(2))\r")
        terminal.expect("^tty True True True$")
        terminal.type(b"print('waits'); threading.Event().wait()\r")
        terminal.expect("^waits$")
        terminal.type(CTRL_C)
        terminal.expect("KeyboardInterrupt")
        terminal.type(b"os._exit(5)\r")
        self.assertEqual(terminal.wait(), 5)
        self.assertIn("survivors: 0", terminal.seen)
        self.assertEqual(terminal.modes(), terminal.before)

    def test_the_size_of_the_window_is_passed_on(self):
        terminal = self.terminal("--nproc-per-node", 1, "--tty", 0, "--no-python", "sh", "-c",
                                 "trap 'stty size; exit 0' WINCH; echo ready; while :; do read line; done")
        terminal.expect("^ready$")
        terminal.resize(33, 77)
        terminal.expect("^33 77$")
        self.assertEqual(terminal.wait(), 0)

    def test_the_terminal_is_put_back_after_a_signal(self):
        terminal = self.terminal("--nproc-per-node", 2, "--tty", 0, "--grace", 1, program("worker_stub"),
                                 "ignore-term")
        terminal.expect(BOTH_READY)
        terminal.process.send_signal(signal.SIGTERM)
        self.assertEqual(terminal.wait(), 128 + signal.SIGTERM)
        self.assertEqual(terminal.modes(), terminal.before)

    def test_without_a_terminal_that_rank_has_the_stdin(self):
        reader, writer = os.pipe()
        process = subprocess.Popen([program("ddprun"), "--nproc-per-node", "2", "--tty", "1", "--no-python", "sh", "-c",
                                    'echo "rank $RANK: $(cat)"'], stdin=reader, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=self.environment, text=True)
        os.close(reader)
        os.write(writer, b"for one only\n")
        os.close(writer)
        out, err = process.communicate(timeout=support.HANG_GUARD)
        self.assertEqual((process.returncode, err), (0, ""))
        self.assertEqual(sorted(out.splitlines()), ["rank 0: ", "rank 1: for one only"])


if __name__ == "__main__":
    support.main()
