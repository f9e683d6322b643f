"""Where output goes: log folders, consoles that take nothing or too little, progress bars, the launcher's own lines."""

import os
import pty
import re
import resource
import select
import signal
import subprocess
import tempfile
import time

import support
from support import EndToEndTest, HANG_GUARD, free_port, program, run_folders


def shell(script):
    return ["sh", "-c", script]


def stub(*modes):
    return [program("output_stub"), *modes]


def text_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


class OutputTest(EndToEndTest):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.logs = os.path.join(folder.name, "logs")

    def log(self, name, local_rank=0, attempt=0):
        found = [base for base, _, names in os.walk(self.logs)
                 if base.endswith(f"/attempt_{attempt}/{local_rank}") and name in names]
        self.assertEqual(len(found), 1, f"{name} of local rank {local_rank} in attempt {attempt}")
        return os.path.join(found[0], name)


class Pipes(OutputTest):
    """Through a pipe what has not ended its line is seen, too, and goes on where it was."""

    def read_until(self, job, text):
        """Reads the launcher's stdout up to this text."""
        seen = b""
        while not seen.endswith(text):
            ready, _, _ = select.select([job.stdout], [], [], HANG_GUARD)
            self.assertTrue(ready, f"{text} is not in {seen}")
            piece = os.read(job.stdout.fileno(), 1)
            self.assertTrue(piece, f"{text} is not in {seen}")
            seen += piece
        return seen

    def start_job(self, script, *flags):
        job = subprocess.Popen([program("ddprun"), *flags, *shell(script)], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=self.environment)
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.wait)
        return job

    def until(self, name):
        path = os.path.join(self.folder, name)
        return path, f"until [ -e {path} ]; do sleep 0.01; done; "

    def test_words_without_a_line_end_are_shown_and_not_changed(self):
        path, until = self.until("go")
        job = self.start_job(f"printf 'half'; {until} printf ' and half\\nnext\\n'")
        self.assertEqual(self.read_until(job, b"half"), b"half")
        open(path, "w", encoding="ascii").close()
        self.assertEqual(job.stdout.read(), b" and half\nnext\n")

    def test_a_bar_shows_states(self):
        path, until = self.until("go")
        other, then = self.until("then")
        job = self.start_job(f"printf '\\rstep 1'; {until} printf '\\rstep 2'; {then} printf '\\rstep 3\\n'",
                             "--prefix=[{rank}] ")
        self.assertEqual(self.read_until(job, b"step 1"), b"[0] step 1")
        open(path, "w", encoding="ascii").close()
        self.assertEqual(self.read_until(job, b"step 2"), b"\r[0] step 2")
        open(other, "w", encoding="ascii").close()
        self.assertEqual(job.stdout.read(), b"\r[0] step 3\n")

    def test_another_ranks_line_tears_none(self):
        path, until = self.until("go")
        other, then = self.until("then")
        job = self.start_job(f"if [ $RANK = 0 ]; then printf 'half'; {then} printf ' and half\\n'; "
                             f"else {until} echo whole; fi", "--nproc-per-node", "2")
        self.read_until(job, b"half")
        open(path, "w", encoding="ascii").close()
        self.assertEqual(self.read_until(job, b"whole\n"), b"\nwhole\n")
        open(other, "w", encoding="ascii").close()
        self.assertEqual(job.stdout.read(), b"half and half\n")


class OpenLines(OutputTest):
    """Where all goes to one place, the launcher's lines begin at the left edge, whatever a worker has begun."""

    def run_into(self, sink, script, *flags):
        return subprocess.run([program("ddprun"), *flags, *shell(script)], stdout=sink, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL, env=self.environment, timeout=HANG_GUARD, check=False)

    def shown(self, script, *flags):
        """The exit code and what has come, by a pipe and by a file."""
        job = self.run_into(subprocess.PIPE, script, *flags)
        yield job.returncode, job.stdout.decode()
        path = os.path.join(self.folder, "shown")
        with open(path, "wb") as file:
            job = self.run_into(file, script, *flags)
        yield job.returncode, text_of(path)

    def test_a_report_begins_on_a_line_of_its_own(self):
        for stream in ("1", "2"):
            for flags in ((), ("--nproc-per-node", "2")):
                for code, text in self.shown(f"printf 'step 3' >&{stream}; exit 3", *flags):
                    self.assertEqual(code, 3)
                    self.assertRegex(text, r"\Astep 3\n(step 3\n)?ddprun: sh failed; first failure: ")

    def test_a_line_that_nothing_follows_stays_as_it_is(self):
        for result in self.shown("printf 'step 3'"):
            self.assertEqual(result, (0, "step 3"))


class NoTemporaryFiles(OutputTest):
    def test_a_job_whose_output_goes_to_files_too_runs_where_none_can_be_made(self):
        for flags in ((), ("--tee", 3), ("--redirects", 3)):
            code, out, err = self.run_job(*flags, *shell("echo ran"), env={"TMPDIR": "/sys"})
            self.assertEqual(code, 0, err)
            self.assertRegex(out, r"ran\Z")
            self.assertRegex(err, r"\Addprun: cannot create the folder /sys/ddprun_\w+ for logs and error files "
                             r"\(by TMPDIR or --log-dir\): .*; workers get no error files.*\Z")


class LogFolders(OutputTest):
    def test_every_attempt_has_files_of_its_own(self):
        code, _, _ = self.run_job("--nproc-per-node", 2, "--max-restarts", 2, "--redirects", 3, "--log-dir", self.logs, *shell(
            'echo "$RANK in $TORCHELASTIC_RESTART_COUNT, $TORCHELASTIC_ERROR_FILE"; '
            '[ $TORCHELASTIC_RESTART_COUNT = 2 ] || exec sh -c "[ $RANK = 0 ] && exit 1; exec sleep 1000"'))
        self.assertEqual(code, 0)
        attempts, = run_folders(self.logs)
        self.assertRegex(os.path.basename(attempts), "^none_[^_]{6}$")
        self.assertEqual(sorted(os.listdir(attempts)), ["attempt_0", "attempt_1", "attempt_2", "run.json"])
        for attempt in range(3):
            for rank in range(2):
                path = self.log("stdout.log", rank, attempt)
                error_file = os.path.join(os.path.dirname(path), "error.json")
                # A worker may be stopped before it has printed anything, but only because rank 0 had failed.
                lines = ["", f"{rank} in {attempt}, {error_file}\n"]
                self.assertIn(text_of(path), lines if rank == 1 and attempt < 2 else lines[1:])

    def test_a_log_dir_that_is_no_folder_is_bad_input(self):
        path = os.path.join(self.folder, "plain")
        with open(path, "w", encoding="ascii"):
            pass
        code, out, err = self.run_job("--log-dir", path, *shell("echo started"))
        self.assertEqual((code, out, len(err.splitlines())), (2, "", 1))
        self.assertIn("--log-dir", err)
        self.assertIn(path, err)

    def test_where_the_logs_are_is_said(self):
        said = r"^ddprun:   logs: (\S+/attempt_0) \(rank 1: 1/stderr\.log\)$"
        script = shell('[ $RANK = 1 ] || exec sleep 1000; echo word >&2; exit 4')
        temporary = {"TMPDIR": self.folder}
        code, _, err = self.run_job("-v", "--nproc-per-node", 2, "--tee", 3, *script, env=temporary)
        folder = re.fullmatch(said, err.splitlines()[-1])[1]
        self.assertEqual((code, text_of(os.path.join(folder, "1", "stderr.log"))), (4, "word\n"))
        self.assertIn(f"ddprun: logs: {folder}\n", err)
        # Only on the node that has them, and only if there are any.
        flags = ("--nnodes=2", "--master-addr=127.0.0.1", "--master-port", free_port(), "--log-dir", self.logs)
        agents = [self.launch(*flags, "--node-rank", node, "--redirects", 2, *script) for node in (0, 1)]
        self.assertEqual([agent.wait() for agent in agents], [4, 4])
        self.assertNotIn("logs:", agents[0].err())
        self.assertRegex(agents[1].err().splitlines()[-1], r"logs: \S+/attempt_0 \(rank 1: 0/stderr\.log\)$")
        for flags in ((), ("--redirects", 1), ("--redirects", 3, "--log-dir", "/dev/null")):
            self.assertNotIn("logs: ", self.run_job(*flags, *shell("exit 4"), env=temporary)[2])

    def test_what_killed_launchers_left_is_swept_but_for_logs(self):
        write = shell('echo {} >"$TORCHELASTIC_ERROR_FILE"; echo ready; exec sleep 1000')
        for flags in ((), ("--redirects", 2), ("--tee", 3)):
            job = self.launch(*flags, *write, env={"TMPDIR": self.folder})
            job.wait_for_line("ready$")
            job.send(signal.SIGKILL)
            job.wait()
        left = os.listdir(self.folder)
        self.assertEqual(len(left), 3)
        self.run_job("true", env={"TMPDIR": self.folder})
        self.assertEqual(sorted(os.listdir(self.folder)), sorted(left), "they are young")
        for name in left:
            os.utime(os.path.join(self.folder, name), (0, 0))
        self.run_job("true", env={"TMPDIR": self.folder})
        kept = [name for _, _, names in os.walk(self.folder) for name in names if name.endswith(".log")]
        self.assertEqual(len(os.listdir(self.folder)), 2)
        self.assertIn("stdout.log", kept)


class StuckConsole(OutputTest):
    def launch_to(self, descriptor, streams, *arguments):
        redirections = " ".join(f"{stream}>&{descriptor}" for stream in streams)
        return self.launch(*arguments, prefix=("sh", "-c", f'exec "$@" {redirections} {descriptor}>&-', "sh"),
                           pass_fds=(descriptor,))

    def test_interrupts_end_a_launcher_whose_output_nobody_reads(self):
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        # More than the pipe takes; the rest fits into the pump and the worker's pipe, so the worker can end.
        job = self.launch_to(writer, (1,), "-v", "--tee", 1, "--log-dir", self.logs, *shell("seq 15000; exit 3"))
        os.close(writer)
        job.wait_for_line("the job is over")
        self.assertIsNone(job.process.poll())
        job.interrupt_until_gone()
        self.assertEqual(job.wait(), 3)
        self.assertRegex(job.err(), r"ddprun: \d+ bytes could not be written to stdout, which took nothing more")
        self.assertIn("sh failed; first failure: rank 0", job.err())
        self.assertEqual(text_of(self.log("stdout.log")), "".join(f"{i}\n" for i in range(1, 15001)))

    def test_nor_does_a_report_that_nobody_reads_hold_it(self):
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        mark = os.path.join(self.folder, "mark")
        job = self.launch_to(writer, (1, 2), *shell(f"seq 15000; touch {mark}; exit 3"))
        os.close(writer)
        deadline = time.monotonic() + HANG_GUARD
        while not os.path.exists(mark) and time.monotonic() < deadline:
            time.sleep(0.01)  # No event tells of a file that a process of somebody else makes.
        job.interrupt_until_gone()

    def test_a_reader_that_comes_late_gets_everything(self):
        reader, writer = os.pipe()
        job = self.launch_to(writer, (1,), "-v", *shell("seq 15000"))
        os.close(writer)
        job.wait_for_line("the job is over")
        with os.fdopen(reader, encoding="ascii") as file:
            self.assertEqual(file.read(), "".join(f"{i}\n" for i in range(1, 15001)))
        self.assertEqual(job.wait(), 0)


class OwnLines(OutputTest):
    def test_quiet_leaves_errors_and_the_report(self):
        words = ("--signals-to-handle", "SIGTERM,SIGNONE", "--max-restarts", 1, *shell("exit 5"))
        code, out, err = self.run_job(*words)
        self.assertEqual((code, out), (5, ""))
        self.assertIn("SIGNONE", err)
        code, out, err = self.run_job("-q", *words)
        self.assertEqual((code, out), (5, ""))
        self.assertNotIn("SIGNONE", err)
        self.assertIn("sh failed; first failure: rank 0", err)
        self.assertEqual(self.run_job("--quiet", "--nproc-per-node", 2, "true"), (0, "", ""))

    def test_quiet_does_not_say_who_is_awaited(self):
        agents = [self.launch(*flags, "--nnodes", 2, "--master-addr", "127.0.0.1", "--master-port", free_port(),
                              "--rdzv-conf", "join_timeout=12", "true") for flags in ((), ("-q",))]
        self.assertEqual([agent.wait() for agent in agents], [69, 69])
        self.assertRegex(agents[0].err_and_waiting(), "(?m)^ddprun: joined 1/2, missing node 1; ")
        self.assertEqual(len(agents[1].seen["err"]), 1, agents[1].err())

    def test_verbose_says_what_happens_marked_and_on_stderr(self):
        code, out, err = self.run_job("-v", "--nproc-per-node", 2, *shell(
            "[ $RANK = 0 ] || exit 3; echo $$; exec sleep 1000"))
        self.assertEqual(code, 3)
        self.assertLessEqual(len(out.splitlines()), 1)
        lines = err.splitlines()
        self.assertTrue(all(line.startswith("ddprun: ") for line in lines), err)
        for pattern in (r"node 0 of 1 serves the rendezvous at 127\.0\.0\.1:\d+", r"round 0 of job none-",
                        r"rank 0 of 2: pid \d+", r"rank 1 of 2: pid \d+",
                        r"rank 0 of 2 on node 0 \(.*\): any of CPU", r"rank 1, pid \d+: exit code 3 after \d+ ms",
                        r"stopping the workers by SIGTERM: rank 1 on node 0 \(.*\): exit code 3",
                        r"rank 0, pid \d+: signal 15 \(SIGTERM\) after \d+ ms, stopped by ddprun",
                        "joining -> running by round_ready", "running -> stopping by worker_failed",
                        "stopping -> leaving by workers_gone", "leaving -> draining_output by finish_ordered"):
            self.assertEqual(len([line for line in lines if re.search(pattern, line)]), 1, f"{pattern} in {err}")
        code, out, err = self.run_job("-v", "echo", "x")
        self.assertEqual((code, out), (0, "x"))
        self.assertNotEqual(err, "")

    def test_quiet_and_verbose_contradict_each_other(self):
        code, _, err = self.run_job("-q", "-v", "true")
        self.assertEqual((code, len(err.splitlines())), (2, 1))
        self.assertEqual(err, "ddprun: -q: contradicts --verbose")


class LogFile(OutputTest):
    LINE = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} [+-]\d\d:\d\d (\S+) (debug|info|warning|error) \[\d+\] (.*)"

    def test_agents_append_whole_lines_of_every_level_to_one_file(self):
        path = os.path.join(self.folder, "launcher.log")
        with open(path, "w", encoding="ascii") as file:
            file.write("what was there\n")
        flags = ("--nnodes", 2, "--master-addr", "127.0.0.1", "--master-port", free_port())
        agents = [self.launch(*flags, "--node-rank", node, *options, *shell("echo ran; exit 3"), env=variables)
                  for node, options, variables in ((0, ("--log-file", path), {}), (1, ("-q",), {"DDPRUN_LOG_FILE": path}))]
        self.assertEqual([agent.wait() for agent in agents], [3, 3])
        first, *lines = text_of(path).splitlines()
        self.assertEqual(first, "what was there")
        parts = [re.fullmatch(self.LINE, line) for line in lines]
        self.assertTrue(all(parts), lines)
        said = [part[3] for part in parts]
        self.assertEqual({part[1] for part in parts}, {os.uname().nodename})
        for text in ("joining -> running by round_ready", "leaving -> draining_output by finish_ordered"):
            self.assertEqual([part[2] for part in parts if part[3] == text], ["debug", "debug"])
        self.assertEqual(len([text for text in said if re.fullmatch(r"rank \d of 2: pid \d+", text)]), 2)
        for agent in agents:
            shown = agent.err().splitlines()
            self.assertTrue(shown and {line.removeprefix("ddprun: ") for line in shown} <= set(said), agent.err())
            self.assertNotIn(" -> ", agent.err())

    def test_one_that_is_removed_under_a_running_job_goes_on_where_it_was_opened(self):
        for flag in ("--log-file", "--events"):
            path, until = os.path.join(self.folder, "own"), os.path.join(self.folder, "go")
            job = self.launch(flag, path, *shell(f"echo ready; until [ -e {until} ]; do sleep 0.01; done; exit 3"))
            job.wait_for_line("ready")
            with open(path, encoding="utf-8") as kept:
                os.remove(path)
                open(until, "w", encoding="ascii").close()
                self.assertEqual(job.wait(), 3)
                self.assertRegex(kept.read(), "worker_failed|FAILED")
            self.assertNotIn("own", os.listdir(self.folder))
            self.assertEqual([line for line in job.err().splitlines() if "cannot" in line], [])
            os.remove(until)

    def test_a_file_that_cannot_be_opened_is_bad_input(self):
        for path in (self.folder, os.path.join(self.folder, "no", "file")):
            code, out, err = self.run_job("--log-file", path, *shell("echo started"))
            self.assertEqual((code, out, len(err.splitlines())), (2, "", 1))
            self.assertIn(f"--log-file '{path}'", err)

    def test_a_full_disk_is_said_once_and_the_job_goes_on(self):
        code, out, err = self.run_job("--log-file", "/dev/full", "--nproc-per-node", 2, *shell("echo ran"))
        self.assertEqual((code, out), (0, "ran\nran"))
        self.assertEqual(len(err.splitlines()), 1, err)
        self.assertRegex(err, r"^ddprun: cannot write /dev/full \(--log-file\): No space left on device")

    def test_a_detached_job(self):
        path = os.path.join(self.folder, "launcher.log")
        code, _, _ = self.run_job("--detach", "--log-file", path, "true", env={"DDPRUN_JOBS_DIR": self.folder})
        self.assertEqual(code, 0)
        deadline = time.monotonic() + HANG_GUARD
        while "draining_output" not in text_of(path) and time.monotonic() < deadline:
            time.sleep(0.01)  # a file has no event, and nobody waits for a detached launcher
        self.assertTrue(all(re.fullmatch(self.LINE, line) for line in text_of(path).splitlines()))


class FullDisk(OutputTest):
    LIMIT = 1_000_000  # more than the half MiB that the thread sanitizer writes into a file of its own as a program starts

    def limit_files(self):
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.LIMIT, self.LIMIT))

    def test_what_does_not_fit_is_counted_and_said_and_harms_no_worker(self):
        # The limit is for each file; the worker itself writes to a pipe only.
        code, out, err = self.run_job("--tee", 1, "--prefix=none", "--log-dir", self.logs, *stub(
            "flood", "3000000", "100", "err", "done\\n"), preexec_fn=self.limit_files)
        self.assertEqual((code, len(out)), (0, 2_999_999), err)
        self.assertIn("done", err.splitlines())
        path = self.log("stdout.log")
        self.assertEqual(os.path.getsize(path), self.LIMIT)
        said = [line for line in err.splitlines() if path in line]
        self.assertEqual(len(said), 2, err)
        self.assertIn("File too large", said[0])
        self.assertIn("2000000 bytes of", said[1])

    def test_a_console_on_a_full_disk(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            job = subprocess.run([program("ddprun"), *stub("flood", "300000", "100", "err", "done\\n")], stdout=full,
                                 stderr=subprocess.PIPE, text=True, timeout=HANG_GUARD, env=self.environment, check=False)
        self.assertEqual(job.returncode, 0)
        self.assertEqual(job.stderr.splitlines(), ["done", "ddprun: 300000 bytes could not be written to stdout"])

    def test_log_max_keeps_head_and_tail(self):
        code, _, _ = self.run_job("--redirects", 1, "--log-max", "8K", "--log-dir", self.logs, *shell("seq 100000"))
        self.assertEqual(code, 0)
        text = text_of(self.log("stdout.log"))
        self.assertLessEqual(len(text), 8192)
        head, note, tail = re.split(r"\n\[ddprun: (\d+) bytes were left out here, see --log-max\]\n", text)
        whole = "".join(f"{i}\n" for i in range(1, 100001))
        self.assertTrue(whole.startswith(head) and whole.endswith(tail))
        self.assertEqual(len(head) + int(note) + len(tail), len(whole))


class ShownInAnyCase(OutputTest):
    def test_the_failing_ranks_stderr_although_it_is_filtered(self):
        script = shell('echo "word of $RANK" >&2; [ $RANK = 1 ] || exec sleep 1000; exit 4')
        for flags in (("--show", "0"), ("--local-ranks-filter", "0"), ("--redirects", 2), ("--log-dir", "/dev/null", "-r", 2)):
            code, _, err = self.run_job("--nproc-per-node", 2, *flags, *script)
            self.assertEqual(code, 4)
            self.assertRegex(err, r"ddprun: .*\| word of 1", str(flags))


    def test_the_same_when_a_restart_follows_and_no_report(self):
        for flags in (("--show", "0"), ("--redirects", 2, "--log-dir", self.logs)):
            code, _, err = self.run_job("--nproc-per-node", 2, "--max-restarts", 1, *flags, *shell(
                '[ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0; echo "word of $RANK" >&2; [ $RANK = 1 ] || exec sleep 1000; exit 4'))
            lines = [line for line in err.splitlines() if line != "word of 0"]
            self.assertEqual((code, len(lines), lines[0]), (0, 2, "word of 1"), err)
            self.assertIn("restart 1 of 1", lines[1])

    def test_what_was_shown_is_not_shown_again(self):
        code, _, err = self.run_job("--max-restarts", 1, *shell(
            '[ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0; echo "word" >&2; exit 4'))
        self.assertEqual((code, err.splitlines().count("word")), (0, 1), err)


class ProgressBars(OutputTest):
    # The bar's own pace: it goes on whatever anybody sees of it, so there is no event to wait for.
    BAR = ("import os, time\nfor i in range(300):\n"
           "    os.write(1, b'\\rstep %d' % i)\n    time.sleep(0.005)\nos.write(1, b'\\rstep 300\\n')\n")

    def run_on_terminal(self, *arguments):
        """What a terminal gets, and for how many seconds the launcher ran."""
        master, slave = pty.openpty()
        begun = time.monotonic()
        process = subprocess.Popen([program("ddprun"), *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=slave,
                                   stderr=subprocess.DEVNULL, env=self.environment)
        os.close(slave)
        text = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # The last writer has closed the terminal.
                break
            text += part
        os.close(master)
        self.assertEqual(process.wait(timeout=HANG_GUARD), 0)
        return text.decode(), time.monotonic() - begun

    def test_two_updates_a_second_on_a_terminal_and_the_last_state_in_the_file(self):
        path = os.path.join(self.folder, "bar.py")
        with open(path, "w", encoding="ascii") as file:
            file.write(self.BAR)
        text, seconds = self.run_on_terminal("--tee", 1, "--log-dir", self.logs, path)
        updates = re.findall(r"step \d+", text)
        self.assertEqual(updates[-1], "step 300")
        self.assertGreater(len(updates), 1)
        # The last state ends its line and is no update.
        self.assertLessEqual(len(updates) - 1, 2 * seconds + 1)
        self.assertEqual(text_of(self.log("stdout.log")), "step 300\n")


if __name__ == "__main__":
    support.main()
