"""Limits of descriptors: the launcher's own, and the workers'."""

import subprocess

import support
from support import EndToEndTest, program


class Descriptors(EndToEndTest):
    def test_a_low_soft_limit_is_the_workers_and_not_the_launchers(self):
        job = f"ulimit -Sn 128 && exec '{program('ddprun')}' --nproc-per-node=60 sh -c 'ulimit -Sn'"
        done = subprocess.run(["bash", "-c", job], capture_output=True, text=True, timeout=support.HANG_GUARD)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.split(), ["128"] * 60)


if __name__ == "__main__":
    support.main()
