"""PyTorch's own store client against our server, and our client against PyTorch's server.

The servers run in processes of their own, because PyTorch's client holds the interpreter's lock while it connects.
Needs the Debian package python3-torch; without it the test is skipped.
"""

import datetime
import os
import signal
import socket
import subprocess
import sys
import unittest

SYSTEM_PYTHON = "/usr/bin/python3"  # the one that Debian's python3-torch is for

try:
    from torch.distributed import PrefixStore, TCPStore
    import torch
except ImportError as error:
    if os.path.exists(SYSTEM_PYTHON) and not os.path.samefile(sys.executable, SYSTEM_PYTHON):
        os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, "-B", *sys.argv])
    print(f"skipped: PyTorch's client is not installed (Debian package python3-torch): {error}")
    sys.exit(77)

FOLDER = sys.argv.pop(1)  # of the programs
HANG_GUARD = datetime.timedelta(seconds=60)
KIB, MIB = 1 << 10, 1 << 20

HOST_PYTORCH_STORE = """
import datetime, sys
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", 0, None, True, timeout=datetime.timedelta(seconds=60))
print("ready", store.port, flush=True)
sys.stdin.read()
"""


class Server:
    """A store in a process of its own, which ends when its standard input does."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        words = self.process.stdout.readline().split()
        assert words[:1] == ["ready"], words
        self.port = int(words[1])

    def stop(self):
        self.process.stdin.close()
        code = self.process.wait(timeout=60)
        self.process.stdout.close()
        return code


def connect(port, world_size=None):
    return TCPStore("127.0.0.1", port, world_size, False, timeout=HANG_GUARD)


def in_child(action):
    """Runs the action in a forked process and returns its pid."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            action()
            status = 0
        finally:
            os._exit(status)
    return pid


class OurServer(unittest.TestCase):
    words = ()  # for the program that hosts it

    def setUp(self):
        self.server = Server(os.path.join(FOLDER, "store_host_program"), *self.words)
        self.addCleanup(lambda: self.assertEqual(self.server.stop(), 0))
        self.store = connect(self.server.port)

    def other(self, **options):
        return connect(self.server.port, **options)

    def test_set_and_get(self):
        for value in (b"value", b"", b"\0nul\0s\0", bytes(range(256))):
            self.store.set("key", value)
            self.assertEqual(self.store.get("key"), value)
            self.assertEqual(self.other().get("key"), value)

    def test_values_around_the_clients_flush_size_and_large_ones(self):
        for size in (*range(1400, 1460), 1 * KIB, 64 * KIB, 1 * MIB, 8 * MIB):
            value = b"v" * (size - 1) + b"e"
            self.store.set("key", value)
            self.assertTrue(self.store.get("key") == value, f"{size} bytes")

    def test_long_keys(self):
        for size in (1, 1 * KIB, 8 * KIB, 60 * KIB):
            self.store.set("k" * size, str(size))
            self.assertEqual(self.store.get("k" * size), str(size).encode())

    def test_add(self):
        self.assertEqual(self.store.add("n", 5), 5)
        self.assertEqual(self.store.add("n", -7), -2)
        self.assertEqual(self.store.get("n"), b"-2")
        self.assertEqual(self.store.add("fresh", 0), 0)
        self.assertEqual(self.store.get("fresh"), b"0")
        self.store.set("text", " 12abc")
        self.assertEqual(self.store.add("text", 1), 13)

    def test_add_to_what_is_no_number_ends_that_connection_only(self):
        self.store.set("text", "abc")
        victim = self.other()
        with self.assertRaises(RuntimeError):
            victim.add("text", 1)
        self.assertEqual(self.store.get("text"), b"abc")

    def test_compare_set_in_its_four_cases(self):
        self.assertEqual(self.store.compare_set("key", "old", "new"), b"old")
        self.assertEqual(self.store.num_keys(), 0)
        self.assertEqual(self.store.compare_set("key", "", "one"), b"one")
        self.assertEqual(self.store.compare_set("key", "zero", "two"), b"one")
        self.assertEqual(self.store.compare_set("key", "one", "two"), b"two")
        self.assertEqual(self.store.get("key"), b"two")

    def test_wait_that_is_over_already(self):
        self.store.set("a", "1")
        self.store.wait(["a"])
        self.store.wait(["a", "a"], HANG_GUARD)

    def test_wait_is_ended_by_another_client_in_any_order(self):
        keys = ["a", "b", "c"]
        for order in (keys, keys[::-1]):
            waiter = in_child(lambda: self.other().wait(keys, HANG_GUARD))
            for key in order:
                self.store.add(key, 1)
            self.assertEqual(os.waitpid(waiter, 0)[1], 0)
            for key in order:
                self.store.delete_key(key)

    def test_get_waits(self):
        getter = in_child(lambda: self.assertEqual(self.other().get("later"), b"value"))
        self.store.set("later", "value")
        self.assertEqual(os.waitpid(getter, 0)[1], 0)

    def test_compare_set_wakes(self):
        waiter = in_child(lambda: self.other().wait(["key"], HANG_GUARD))
        self.store.compare_set("key", "", "value")
        self.assertEqual(os.waitpid(waiter, 0)[1], 0)

    def test_wait_times_out_and_the_server_goes_on(self):
        with self.assertRaises(RuntimeError):
            self.other().wait(["never"], datetime.timedelta(milliseconds=10))
        impatient = self.other()
        impatient.set_timeout(datetime.timedelta(milliseconds=10))
        with self.assertRaises(RuntimeError):
            impatient.get("never")
        self.store.set("never", "now")
        self.assertEqual(self.other().get("never"), b"now")

    def test_delete_and_count(self):
        self.store.set("a", "1")
        self.store.set("b", "2")
        self.assertEqual(self.store.num_keys(), 2)
        self.assertTrue(self.store.delete_key("a"))
        self.assertFalse(self.store.delete_key("a"))
        self.assertEqual(self.store.num_keys(), 1)

    def test_a_world_size_counts_in_its_workers(self):
        first = self.other(world_size=2)
        self.assertEqual(first.num_keys(), 1)
        second = self.other(world_size=2)
        self.assertEqual(second.num_keys(), 1)
        raw = socket.create_connection(("127.0.0.1", self.server.port))
        raw.sendall(b"\x02" + (5).to_bytes(8, "little") + b"init/")
        self.assertEqual(raw.recv(9, socket.MSG_WAITALL), (1).to_bytes(8, "little") + b"2")
        raw.close()

    def test_prefixes_nest(self):
        PrefixStore("a/b", PrefixStore("c", self.store)).set("key", "value")
        self.assertEqual(self.store.get("c/a/b/key"), b"value")

    def test_concurrent_adds(self):
        def add_thousand():
            store = self.other()
            for _ in range(1000):
                store.add("n", 1)

        children = [in_child(add_thousand) for _ in range(2)]
        for child in children:
            self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(self.store.add("n", 0), 2000)

    def test_a_client_killed_while_it_waits(self):
        def wait_forever():
            store = self.other()
            store.add("arrived", 1)
            store.wait(["never"], HANG_GUARD)

        child = in_child(wait_forever)
        self.store.wait(["arrived"], HANG_GUARD)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        self.store.set("never", "now")
        self.assertEqual(self.store.get("never"), b"now")

    def test_half_a_command_holds_up_nobody(self):
        with socket.create_connection(("127.0.0.1", self.server.port)) as raw:
            raw.sendall(b"\x00" + (100).to_bytes(8, "little") + b"half")
            for number in range(100):
                self.assertEqual(self.store.add("n", 1), number + 1)

    def test_a_process_group_on_our_store(self):
        def rank(number):
            store = self.other(world_size=3)
            torch.distributed.init_process_group("gloo", store=store, rank=number, world_size=3, timeout=HANG_GUARD)
            total = torch.tensor([number + 1.0])
            torch.distributed.all_reduce(total)
            subgroup = torch.distributed.new_group([0, 1])
            if number < 2:
                torch.distributed.all_reduce(total, group=subgroup)
            torch.distributed.barrier()
            self.assertEqual(total.item(), 12.0 if number < 2 else 6.0)

        children = [in_child(lambda number=number: rank(number)) for number in range(3)]
        for child in children:
            self.assertEqual(os.waitpid(child, 0)[1], 0)


class OurServerThroughADoor(OurServer):
    """The same, by way of an agent with the job's secret on another node."""

    words = ("--door",)


class TheirServer(unittest.TestCase):
    def test_our_client_speaks_its_dialect(self):
        server = Server(sys.executable, "-c", HOST_PYTORCH_STORE)
        self.addCleanup(server.stop)
        done = subprocess.run([os.path.join(FOLDER, "tcp_store_program"), str(server.port)], timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        legacy = tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 1)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "legacy\n" if legacy else "modern\n", ""))
        theirs = connect(server.port)
        self.assertEqual(theirs.get("theirs/n"), b"-2")
        self.assertEqual(theirs.get("theirs/done"), b"yes")
        # The probe's key is gone: large, empty, n, done.
        self.assertEqual(theirs.num_keys(), 4)


if __name__ == "__main__":
    print(f"PyTorch {torch.__version__}")
    unittest.main(verbosity=1)
