"""What the tests of `ddprun doctor`, of one node and of several, share."""

import subprocess

from support import EndToEndTest

PROBLEM = 1
USAGE = 2
SYSTEM = 71


def do(command):
    subprocess.run(command, shell=True, check=True, capture_output=True)


class DoctorTest(EndToEndTest):
    """Its programs know nothing of what this machine's user has set up for them."""

    def setUp(self):
        super().setUp()
        for name in list(self.environment):
            if name.lower().endswith("_proxy") or name in ("TMPDIR", "PYTHON_EXEC"):
                del self.environment[name]
        do("ip link set lo up")
