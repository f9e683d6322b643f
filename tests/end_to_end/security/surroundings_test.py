"""A launcher whose surroundings are broken: streams, threads, descriptors, memory, /proc that are not there."""

import contextlib
import errno
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from refused_calls import CALLS, refuse, refuse_threads
from support import EndToEndTest, free_port, program, worker

SYSTEM = 71
UNAVAILABLE = 69
SANITIZED = bool(os.environ.get("DDPRUN_SANITIZED"))


def may_unshare():
    return subprocess.run(["unshare", "-m", "umount", "-l", "/proc"], capture_output=True, check=False).returncode == 0


class Surroundings(EndToEndTest):
    def in_shell(self, preparation, *arguments):
        """The launcher after a preparation in the shell that becomes it."""
        return self.run_job(*arguments, prefix=("bash", "-c", preparation + '; exec "$@"', "bash"))

    def assert_refused(self, done, *words):
        code, _, err = done
        self.assertEqual(code, SYSTEM, err)
        self.assertEqual(len(err.splitlines()), 1, err)
        for word in words:
            self.assertIn(word, err)

    def test_missing_streams_are_replaced_before_anything_else_is_opened(self):
        with tempfile.NamedTemporaryFile("r", encoding="utf-8") as seen:
            script = f"for n in 0 1 2; do readlink /proc/$LAUNCHER/fd/$n; done > {seen.name}; exit 7"
            code, out, err = self.in_shell("exec 0<&- 1>&- 2>&-; export LAUNCHER=$$", "--nproc-per-node=1", "sh", "-c", script)
            self.assertEqual((code, out, err), (7, "", ""))
            self.assertEqual(seen.read().split(), ["/dev/null"] * 3)

    @unittest.skipUnless(CALLS, "the numbers of this machine's calls are not known here")
    def test_calls_that_are_refused_end_the_launcher_with_one_line(self):
        job = ("--nproc-per-node=2", *worker("exit", "0"))
        self.assert_refused(self.run_job(*job, preexec_fn=refuse("getrandom")), "random")
        self.assert_refused(self.run_job(*job, preexec_fn=refuse("epoll_create1")), "epoll")
        self.assert_refused(self.run_job(*job, preexec_fn=refuse("epoll_create1", errno.EMFILE)), "ulimit -n")
        # Asio can do without it.
        self.assertEqual(self.run_job(*job, preexec_fn=refuse("eventfd2"))[0], 0)

    @unittest.skipUnless(CALLS, "the numbers of this machine's calls are not known here")
    def test_a_port_that_breaks_while_it_is_served_ends_the_job_in_order(self):
        with tempfile.TemporaryDirectory() as folder:
            code, _, err = self.run_job(f"--result-file={folder}/result", "--nproc-per-node=1", *worker("ready-then-wait"),
                                        preexec_fn=refuse("accept4", errno.EBADF))
            self.assertEqual(code, SYSTEM, err)
            with open(f"{folder}/result", encoding="utf-8") as result:
                self.assertEqual(json.load(result)["exit_code"], SYSTEM)
        self.assertIn("the rendezvous that this node hosts has failed", err)
        self.assertIn("cannot accept connections", err)

    @unittest.skipUnless(CALLS and not SANITIZED, "the sanitizers need a thread of their own")
    def test_no_thread_to_be_had_is_the_systems_refusal(self):
        self.assert_refused(self.run_job("true", preexec_fn=refuse_threads()), "cannot start a thread", "ulimit -u")

    @unittest.skipIf(SANITIZED, "the sanitizers open files of their own at the end")
    def test_too_few_descriptors_for_anything_are_one_line(self):
        for limit in range(6, 34, 3):
            with self.subTest(limit=limit):
                code, _, err = self.in_shell(f"ulimit -n {limit}", "--join-timeout=1", "--nproc-per-node=2", "true")
                self.assertIn(code, (0, SYSTEM, UNAVAILABLE), err)
                self.assertEqual(code != 0, "Too many open files" in err, err)
                self.assertNotIn("internal error", err)

    @unittest.skipIf(SANITIZED, "the sanitizers take terabytes of addresses")
    def test_too_little_memory_for_anything_is_one_line(self):
        for kilobytes in range(16_000, 44_000, 4_000):
            with self.subTest(kilobytes=kilobytes):
                code, _, err = self.in_shell(f"ulimit -v {kilobytes}", "--nproc-per-node=2", "true")
                # Below all this nothing can be loaded: then the loader says so.
                self.assertIn(code, (0, SYSTEM, 127), err)
                self.assertLessEqual(len(err.splitlines()), 1, err)

    @unittest.skipIf(SANITIZED, "the sanitizers take terabytes of addresses")
    def test_a_store_that_is_full_is_told_of_once_and_the_job_goes_on(self):
        port = free_port()
        job = self.launch("--nproc-per-node=1", f"--master-port={port}", *worker("exit-zero-on-term"),
                          prefix=("bash", "-c", 'ulimit -v 600000; exec "$@"', "bash"))
        job.wait_for_line("^ready$")
        value = bytes(20_000_000)  # The store may hold an eighth of the memory.
        for number in range(8):
            key = b"weights-%d" % number
            with socket.create_connection(("127.0.0.1", port), timeout=support.HANG_GUARD) as client, contextlib.suppress(OSError):
                client.sendall(b"\0" + struct.pack("<Q", len(key)) + key + struct.pack("<Q", len(value)) + value)
                client.shutdown(socket.SHUT_WR)
                client.recv(1)
        job.wait_for_line('the store is full, .* keys, .* the largest "weights-')
        job.send(signal.SIGTERM)
        job.wait()
        self.assertEqual(len([line for line in job.err().splitlines() if "the store is full" in line]), 1, job.err())
        self.assertIn("got SIGTERM", job.out())

    def test_the_limit_of_a_files_size_ends_neither_launcher_nor_collectives(self):
        code, out, err = self.in_shell("ulimit -f 1", "--nproc-per-node=2", program("ddpbench"), "all_reduce", "-b", "64K", "-e", "64K")
        self.assertEqual(code, 0, err)
        self.assertIn("65536", out)

    def test_workers_get_the_signal_of_that_limit_back(self):
        with tempfile.NamedTemporaryFile() as file:
            code, _, err = self.in_shell("ulimit -f 1", "--nproc-per-node=1", "sh", "-c", f"exec head -c 100000 /dev/zero > {file.name}")
        self.assertEqual(code, 128 + signal.SIGXFSZ, err)

    @unittest.skipUnless(may_unshare() and not SANITIZED, "needs a mount namespace, and the sanitizers need /proc")
    def test_without_proc_it_is_said_at_the_start_and_when_something_may_be_left(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkfifo(f"{folder}/runs")
            left = f"setsid sh -c 'echo > {folder}/runs; exec sleep 1000' & read line < {folder}/runs"
            code, _, err = self.run_job("--nproc-per-node=1", "sh", "-c", f"{left}; exit 3",
                                        prefix=("unshare", "-m", "sh", "-c", 'umount -l /proc; exec "$@"', "sh"))
        self.assertEqual(code, 3)
        self.assertRegex(err.splitlines()[0], "/proc does not show this process")
        self.assertIn("without /proc nobody can look for them", err)
        self.assertRegex(err, r"survivors: 0, unknown on node 0 \(.+\)")
        for pid in support.processes_of_job(self.marker):
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    support.main()
