#!/usr/bin/env python3
"""Ranks in two containers of one machine, which here are namespaces of processes, of names and of IPC: what they are told, and what they
share."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import support

SOURCES = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "apps", "python"))
PROGRAM = """import ctypes, os, sys
from ddprun.collectives import Communicator
with Communicator.connect(sys.argv[1], int(sys.argv[2]), 4) as comm:
    comm.all_reduce(total := memoryview(bytearray(8)).cast("q"))
    got = bytearray(1 << 20)
    work = comm.start.recv_tagged(got, (comm.rank + 2) % 4, 7)
    comm.send_tagged(bytes([comm.rank]) * len(got), (comm.rank + 2) % 4, 7)
    work.wait()
    assert set(got) == {(comm.rank + 2) % 4}
    part = comm.split(comm.rank % 2)  # one rank of each container
    for one in (comm, part):
        for data in (bytearray(1 << 20), comm.allocate(1 << 20)):
            numbers = (ctypes.c_longlong * (1 << 17)).from_buffer(data)
            numbers[-1] = comm.rank + 1
            one.all_reduce(numbers)
            assert numbers[-1] == (10 if one is comm else 4 + 2 * (comm.rank % 2))
    # Each container has devices of its own.
    assert (comm.local_world_size, part.local_world_size) == ((4, 2) if "DDPRUN_HOSTID" in os.environ else (2, 1))
    part.finalize()
    with open("/proc/self/maps") as file: maps = file.read()
    sys.stdout.write(f"{comm.rank} {[name for name in ('ddprun-collectives', 'SYSV') if name in maps]}\\n")
"""
KILLED = """import os, signal, sys
from ddprun.collectives import CollectiveError, Communicator
with Communicator.connect(sys.argv[1], int(sys.argv[2]), 4) as comm:
    total = memoryview(bytearray(8)).cast("q")
    for _ in range(100): comm.all_reduce(total)
    with open("/proc/self/maps") as file: assert "SYSV" in file.read()
    if comm.rank == 3: os.kill(os.getpid(), signal.SIGKILL)
    try:
        while True: comm.all_reduce(total)
    except CollectiveError as error:
        sys.stdout.write(f"{comm.rank} {error.code} {list(error.ranks)}\\n")
"""
# Containers as they are with --ipc=host, and as they are without. Both have the same numbers of processes, and the same addresses
# within: who takes a message out of the memory of a process of that number takes his own.
CONTAINER = ("--pid", "--fork", "--mount-proc", "setarch", "-R")
CLOSED = ("--ipc", *CONTAINER, "sh", "-ec", 'mount -t tmpfs none /dev/shm; exec "$@"', "sh")
RANKS = "hostname $1; for rank in $2; do \"$3\" -c \"$4\" \"$5\" $rank & done; wait"


class Containers(support.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.isolated = ["unshare", "--uts", *(["--user", "--map-root-user"] if os.geteuid() != 0 else [])]
        if subprocess.run([*self.isolated, *CLOSED, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("skipped: namespaces of processes and of IPC are not permitted")
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.environment.update(PYTHONPATH=SOURCES, PYTHONDONTWRITEBYTECODE="1", DDPRUN_BUILD=os.path.dirname(support.BIN))

    def said_by_two(self, *own, program=PROGRAM, **env):
        """What the ranks say, two in each of the containers, and the lines of the library."""
        store = f"file://{os.path.join(self.folder, str(len(os.listdir(self.folder))))}"
        both = [subprocess.Popen([*self.isolated, *own, "bash", "-c", RANKS, "bash", name, ranks, sys.executable, program, store],
                                 env={**self.environment, **env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                for name, ranks in (("one", "0 1"), ("two", "2 3"))]
        said = [process.communicate(timeout=support.HANG_GUARD) for process in both]
        return sorted("".join(out for out, _ in said).splitlines()), "".join(err for _, err in said).splitlines()

    def test_containers_that_cannot_share_memory_are_told_why(self):
        out, err = self.said_by_two(*CLOSED)
        self.assertEqual(out, [f"{rank} ['ddprun-collectives']" for rank in range(4)])  # each container its own
        self.assertEqual(len(err), 1, err)
        self.assertRegex(err[0], re.escape("ddprun: ranks 0, 1 on one and 2, 3 on two are in containers of one machine"))
        self.assertIn("--ipc=host", err[0])

    def test_with_ipc_in_common_they_share_it_and_leave_none(self):
        before = left_in_memory()
        self.assertEqual(self.said_by_two(*CONTAINER), ([f"{rank} ['SYSV']" for rank in range(4)], []))
        self.assertEqual(left_in_memory() - before, set())

    def test_a_death_in_the_other_container_is_told(self):
        before = left_in_memory()
        out, err = self.said_by_two(*CONTAINER, program=KILLED)
        self.assertEqual(out, [f"{rank} peer_died [3]" for rank in range(3)], err)
        self.assertEqual(left_in_memory() - before, set())

    def test_with_one_name_and_processes_in_common_they_share_it(self):
        self.assertEqual(self.said_by_two(DDPRUN_HOSTID="both"), ([f"{rank} ['ddprun-collectives']" for rank in range(4)], []))

    def test_nothing_is_told_where_tcp_was_asked_for(self):
        for own in (CONTAINER, CLOSED):
            self.assertEqual(self.said_by_two(*own, DDPRUN_TRANSPORT="tcp"), ([f"{rank} []" for rank in range(4)], []))


def left_in_memory():
    """The numbers of System V's memory of this user that nobody maps."""
    with open("/proc/sysvipc/shm", encoding="ascii") as listed:
        rows = [line.split() for line in listed.read().splitlines()]
    return {row[1] for row in rows[1:] if (row[6], row[7]) == ("0", str(os.geteuid()))}


if __name__ == "__main__":
    support.main()
