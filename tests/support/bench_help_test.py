#!/usr/bin/env python3
"""The scripts that measure, asked for their help: they say it, and neither install nor build anything before."""

import glob
import os
import subprocess
import tempfile
import unittest

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts")
HANG_GUARD = 60  # seconds


class Help(unittest.TestCase):
    def test_help_is_all_that_is_done(self):
        scripts = sorted(glob.glob(os.path.join(SCRIPTS, "bench_*.sh")))
        self.assertTrue(scripts)
        with tempfile.TemporaryDirectory() as folder:
            told = os.path.join(folder, "told")
            for name in ("cmake", "apt-get", "dpkg-query"):
                path = os.path.join(folder, name)
                with open(path, "w", encoding="ascii") as file:
                    file.write(f"#!/bin/sh\necho {name} >>{told}\n")
                os.chmod(path, 0o755)
            path = f"{folder}:{os.environ['PATH']}"
            for script in scripts:
                for word in ("--help", "-h"):
                    with self.subTest(script=os.path.basename(script), word=word):
                        done = subprocess.run([script, word], env={**os.environ, "PATH": path}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                              stderr=subprocess.STDOUT, text=True, timeout=HANG_GUARD, check=False)
                        self.assertEqual((done.returncode, done.stdout[:7]), (0, "usage: "), done.stdout)
                        self.assertIn(os.path.basename(script), done.stdout)
                        self.assertFalse(os.path.exists(told), "it installs or builds")


if __name__ == "__main__":
    unittest.main()
