"""A name server that never answers: what waits for it ends at its own time."""

import os
import socket
import subprocess
import tempfile

from support import EndToEndTest, main

SERVER = "127.0.0.9"
# The system's resolver waits for longer than this test's hang guard.
CONFIGURATION = f"nameserver {SERVER}\noptions timeout:30 attempts:5\n"
UNREACHED = 69


class SilentNameServer(EndToEndTest):
    def setUp(self):
        super().setUp()
        tried = subprocess.run(["unshare", "-m", "true"], capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            self.skipTest(f"skipped: no mount namespaces here: {tried.stderr.strip()}")
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(server.close)
        try:
            server.bind((SERVER, 53))
        except OSError as error:
            self.skipTest(f"skipped: no name server at {SERVER}: {error}")
        file = tempfile.NamedTemporaryFile("w", encoding="ascii")
        self.addCleanup(file.close)
        file.write(CONFIGURATION)
        file.flush()
        script = f'mount --bind {file.name} {os.path.realpath("/etc/resolv.conf")}; exec "$0" "$@"'
        self.prefix = ("unshare", "-m", "sh", "-c", script)

    def test_a_join_ends_by_its_own_time(self):
        for number in (0, 1):
            code, _, err = self.run_job("--nnodes=2", f"--node-rank={number}", "--master-addr=gpu01.cluster",
                                        "--join-timeout=1", "true", prefix=self.prefix)
            self.assertEqual(code, UNREACHED, err)
            self.assertIn("--join-timeout", err)


if __name__ == "__main__":
    main()
