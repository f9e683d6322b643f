#!/usr/bin/env python3
"""What pip makes of a checkout but its wheel: an installed checkout, and an archive of the sources that has all a build reads."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import support

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
PROJECT = os.path.join(ROOT, "apps", "python")
OFFLINE = ("--no-index", "--no-deps", "--no-build-isolation")


def run(*words, **more):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600,
                          check=False, **more)
    assert done.returncode == 0, f"{' '.join(words)}: {done.returncode}\n{done.stdout}"
    return done.stdout


class Sources(support.EndToEndTest):
    @classmethod
    def setUpClass(cls):
        cls.build = os.path.dirname(support.BIN)
        if not os.path.exists(os.path.join(cls.build, "CMakeCache.txt")):
            raise unittest.SkipTest("skipped: the programs' folder is no build's")
        cls.folder = os.path.realpath(cls.enterClassContext(tempfile.TemporaryDirectory()))
        run("/usr/bin/python3", "-m", "venv", os.path.join(cls.folder, "env"))
        cls.env = {"PATH": os.environ["PATH"], "HOME": cls.folder, "DDPRUN_BUILD": cls.build, "DDPRUN_JOBS_DIR": cls.folder,
                   "PYTHONDONTWRITEBYTECODE": "1"}

    def of_environment(self, name, *words):
        return run(os.path.join(self.folder, "env", "bin", name), *words, env=self.env)

    def test_an_installed_checkout_runs_what_is_there(self):
        self.of_environment("pip", "install", *OFFLINE, "--editable", PROJECT)
        said = self.of_environment("python3", "-c", "import ddprun.places as places\nprint(places.PACKAGE, places.library())\n"
                                   "from importlib.metadata import entry_points, version\n"
                                   "print(version('ddprun'), *(p.value for p in entry_points(group='torch.distributed.backends')))")
        lines = said.splitlines()
        self.assertEqual(lines[0].split(), [os.path.join(PROJECT, "ddprun"), os.path.join(self.build, "apps", "python", "libddprun_collectives.so")])
        self.assertRegex(lines[1], r"^[\d.]+ ddprun.torch:register$")
        script = os.path.join(self.folder, "who.py")
        with open(script, "w", encoding="ascii") as file:
            file.write("import sys; print(sys.prefix)")
        own = os.path.join(self.folder, "env")
        self.assertEqual(self.of_environment("ddprun", "--nproc-per-node", "2", script), f"{own}\n" * 2)
        self.assertEqual(self.of_environment("ddpctl", "--version"), run(support.program("ddpctl"), "--version"))
        self.of_environment("pip", "uninstall", "--yes", "ddprun")
        self.assertTrue(os.path.exists(os.path.join(PROJECT, "ddprun", "__init__.py")))

    def archive(self):
        """The folder that the archive is unpacked in."""
        name = self.of_environment("python3", "-c", f"import sys; sys.path.insert(0, {PROJECT!r})\nimport wheel_of_build\n"
                                   f"print(wheel_of_build.build_sdist({self.folder!r}))").strip()
        run("tar", "-xzf", os.path.join(self.folder, name), "-C", self.folder)
        return os.path.join(self.folder, name[:-len(".tar.gz")])

    def test_an_archive_of_the_sources_has_all_that_a_build_reads(self):
        unpacked = self.archive()
        read = set(re.findall(rf"(?m)^ +{re.escape(ROOT)}/(.*)$", run("ninja", "-C", self.build, "-t", "deps")))
        read |= set(re.findall(rf"(?m)^ +(?:\.\./)+(.*)$", run("ninja", "-C", self.build, "-t", "deps")))
        read = {path for path in read if os.path.exists(os.path.join(ROOT, path)) and not path.startswith("build")}
        self.assertGreater(len(read), 100)
        self.assertEqual({path for path in read if not os.path.exists(os.path.join(unpacked, path))}, set())
        elsewhere = os.path.join(self.folder, "build")
        run("cmake", "--preset", "release", "-B", elsewhere, "-DDDPRUN_BUILD_TESTS=OFF", cwd=unpacked)
        run("ninja", "-C", elsewhere, "-n", "ddprun_wheel")

    def test_a_wheel_is_made_of_an_archive(self):
        unpacked = self.archive()
        self.of_environment("pip", "wheel", *OFFLINE, "--wheel-dir", self.folder, unpacked)
        made, = [name for name in os.listdir(self.folder) if name.endswith(".whl")]
        self.assertRegex(made, r"^ddprun-[\d.]+-py3-none-manylinux_2_")


if __name__ == "__main__":
    support.main()
