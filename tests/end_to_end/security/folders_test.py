"""Folders that somebody else has taken, that are full, or that go while a job runs."""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from support import EndToEndTest, program

NOBODY = 65534


class Folders(EndToEndTest):
    """Scripts in a mount namespace of their own, where /tmp is as small as the test wants it and HOME is in it.

    $0 is ddprun, $1 is ddpctl.
    """

    def setUp(self):
        super().setUp()
        tried = subprocess.run(["unshare", "-m", "true"], capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            self.skipTest(f"skipped: no mount namespaces here: {tried.stderr.strip()}")

    def script(self, text, size="64m"):
        for name in ("XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "TMPDIR"):
            self.environment.pop(name, None)
        begin = f"set -e; mount -t tmpfs -o size={size},mode=1777 none /tmp; mkdir /tmp/home; export HOME=/tmp/home\n"
        return self.run_job(program("ddpctl"), prefix=("unshare", "-m", "sh", "-c", begin + text))


class TakenFolders(Folders):
    def test_the_name_of_the_jobs_folder_is_taken(self):
        code, out, err = self.script(f'''
            mkdir /tmp/ddprun-0; chown {NOBODY} /tmp/ddprun-0
            "$1" list
            id=$("$0" --detach sh -c "echo first; exit 3")
            "$1" attach $id || echo "code $?"
            "$0" --detach sh -c "exit 4" >/dev/null
            "$1" list | wc -l
            ls -d /tmp/ddprun-0-* | wc -l
            ls -A /tmp/ddprun-0''')
        self.assertEqual((code, err), (0, ""), out)
        self.assertRegex(out, "(?s)first.*\ncode 3\n3\n1$")


if __name__ == "__main__":
    support.main()
