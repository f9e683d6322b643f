#!/usr/bin/env python3
"""Ranks in two containers of one machine, which here are namespaces of processes and of names: what they are told, and what they share."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import support

SOURCES = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "apps", "python"))
PROGRAM = """import sys
from ddprun.collectives import Communicator
with Communicator.connect(sys.argv[1], int(sys.argv[2]), 4) as comm:
    comm.all_reduce(total := memoryview(bytearray(8)).cast("q"))
    with open("/proc/self/maps") as maps: sys.stdout.write(f"{comm.rank} {'ddprun-collectives' in maps.read()}\\n")
"""
RANKS = "hostname $1; for rank in $2; do \"$3\" -c \"$4\" \"$5\" $rank & done; wait"


class Containers(support.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.isolated = ["unshare", "--uts", *(["--user", "--map-root-user"] if os.geteuid() != 0 else [])]
        if subprocess.run([*self.isolated, "--pid", "--fork", "--mount-proc", "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("skipped: namespaces of processes are not permitted")
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.environment.update(PYTHONPATH=SOURCES, PYTHONDONTWRITEBYTECODE="1", DDPRUN_BUILD=os.path.dirname(support.BIN))

    def said_by_two(self, *own, **env):
        """What the ranks say, two in each of the containers, and the lines of the library."""
        store = f"file://{os.path.join(self.folder, self.id() + str(len(env)))}"
        both = [subprocess.Popen([*self.isolated, *own, "bash", "-c", RANKS, "bash", name, ranks, sys.executable, PROGRAM, store],
                                 env={**self.environment, **env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                for name, ranks in (("one", "0 1"), ("two", "2 3"))]
        said = [process.communicate(timeout=support.HANG_GUARD) for process in both]
        return sorted("".join(out for out, _ in said).splitlines()), "".join(err for _, err in said).splitlines()

    def test_containers_that_cannot_share_memory_are_told_why(self):
        out, err = self.said_by_two("--pid", "--fork", "--mount-proc")
        self.assertEqual(out, [f"{rank} True" for rank in range(4)])  # each container its own
        self.assertEqual(len(err), 1, err)
        self.assertRegex(err[0], re.escape("ddprun: ranks 0, 1 on one and 2, 3 on two are in containers of one machine"))

    def test_with_one_name_and_processes_in_common_they_share_it(self):
        self.assertEqual(self.said_by_two(DDPRUN_HOSTID="both"), ([f"{rank} True" for rank in range(4)], []))

    def test_nothing_is_told_where_tcp_was_asked_for(self):
        self.assertEqual(self.said_by_two("--pid", "--fork", "--mount-proc", DDPRUN_TRANSPORT="tcp"), ([f"{rank} False" for rank in range(4)], []))


if __name__ == "__main__":
    support.main()
