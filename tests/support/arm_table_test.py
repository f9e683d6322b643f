#!/usr/bin/env python3
"""The table that scripts/arm.sh prints of what a system under qemu has said."""

import os
import subprocess
import sys
import tempfile
import unittest

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "arm", "table.py")

# As Catch2, unittest (by support.py) and the system's first program write it.
LOG = """\
=== begin passed
===============================================================================
All tests passed (1234 assertions in 12 test cases)


=== end passed 0 3
=== begin failed
warning:
  skipped: needs root, to make another user's files

===============================================================================
test cases:  5 |  3 passed | 2 failed
assertions: 50 | 48 passed | 2 failed

=== end failed 2 40
=== begin some_skipped
.
skipped: no sshd here (Ssh.test_two_hosts)
s.
skipped: 2 GPUs are needed (Gpus.test_two)
s..
----------------------------------------------------------------------
Ran 6 tests in 1.234s

OK (skipped=2)

=== end some_skipped 0 2
=== begin all_skipped
skipped: ld.gold is missing (Debian package binutils)

=== end all_skipped 77 0
=== begin endless
it waits
"""
ROWS = {
    "passed": "passed                          12       0        0        3\n",
    "failed": "failed                           2       2        1       40\n",
    "some_skipped": "some_skipped                     4       0        2        2\n",
    "all_skipped": "all_skipped                      0       0        1        0\n",
    "endless": "endless                          0       1        0   no end\n",
}
HEAD = "test                        passed  failed  skipped  seconds\n"
REASONS = """\
skipped:
    failed: needs root, to make another user's files
    some_skipped: no sshd here (Ssh.test_two_hosts)
    some_skipped: 2 GPUs are needed (Gpus.test_two)
    all_skipped: ld.gold is missing (Debian package binutils)
"""


class Table(unittest.TestCase):
    def said(self, *names):
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as log:
            log.write(LOG)
            log.flush()
            done = subprocess.run([sys.executable, "-B", TABLE, log.name, *names], stdout=subprocess.PIPE, text=True, check=False)
        return done.returncode, done.stdout

    def test_it_has_all_kinds_of_tests_and_ends_with_1_where_one_failed(self):
        self.maxDiff = None
        self.assertEqual(self.said(*ROWS), (1, HEAD + "".join(ROWS.values()) + REASONS + "18 passed, 3 failed, 4 skipped\n"))

    def test_it_ends_with_0_where_none_failed(self):
        self.assertEqual(self.said("passed"), (0, HEAD + ROWS["passed"] + "12 passed, 0 failed\n"))
        self.assertEqual(self.said("all_skipped")[0], 0)

    def test_one_that_never_ran_or_never_ended_has_failed(self):
        for name in ("endless", "nowhere"):
            code, said = self.said("passed", name)
            self.assertEqual(code, 1, said)
            self.assertIn("no end", said)


if __name__ == "__main__":
    unittest.main()
