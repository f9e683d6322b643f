#!/usr/bin/env python3
"""Which files the Python package takes for its own: those that are installed with it or built in its checkout, and no others' in
places that only look like them."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import support

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
SOURCES = os.path.join(ROOT, "apps", "python")
LIBRARY = "libddprun_collectives.so"
NOBODY = 65534


def put(path, text="#!/bin/sh\necho \"$0\" \"$PYTHON_EXEC\"\n"):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
    os.chmod(path, 0o755)
    return path


class Places(support.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.folder = os.path.realpath(self.enterContext(tempfile.TemporaryDirectory()))
        os.chmod(self.folder, 0o755)
        self.env = {"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}

    def said(self, *words, **env):
        done = subprocess.run([sys.executable, *words], env={**self.env, **env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=support.HANG_GUARD, check=False)
        return done.stdout.strip()

    def place(self, call, **env):
        return self.said("-c", f"import ddprun.places as places; print(places.{call})", **env).splitlines()[-1]

    def checkout(self, *parents):
        """A checkout, its package by copy."""
        root = os.path.join(self.folder, *parents, "checkout")
        shutil.copytree(SOURCES, os.path.join(root, "apps", "python"))
        put(os.path.join(root, "CMakePresets.json"))
        return root

    def installed(self, *programs):
        """A package as an installer leaves it, with these lines of its RECORD."""
        site = os.path.join(self.folder, "env", "lib", "python3", "site-packages")
        shutil.copytree(os.path.join(SOURCES, "ddprun"), os.path.join(site, "ddprun"))
        put(os.path.join(site, "ddprun-0.dist-info", "RECORD"), "".join(f"{path},sha256=x,1\n" for path in programs))
        return site

    def test_a_checkout_has_what_is_built_in_it_and_nothing_beside_it(self):
        root = self.checkout("all")
        for folder in ("all/bin", "bin", "all/checkout/bin", "all/checkout/apps/bin"):
            put(os.path.join(self.folder, folder, "ddprun"))
        linked = os.path.join(self.folder, "linked")
        os.mkdir(linked)
        os.symlink(os.path.join(root, "apps", "python", "ddprun"), os.path.join(linked, "ddprun"))
        put(os.path.join(linked, "bin", "ddprun"))
        for path in (os.path.join(root, "apps", "python"), linked):
            self.assertIn("FileNotFoundError: the program ddprun is neither", self.place("program('ddprun')", PYTHONPATH=path))
            self.assertEqual(self.place("library()", PYTHONPATH=path), LIBRARY)
        built = put(os.path.join(root, "build", "bin", "ddprun"))
        library = put(os.path.join(root, "build", "apps", "python", LIBRARY))
        elsewhere = put(os.path.join(self.folder, "other-build", "bin", "ddprun"))
        for path in (os.path.join(root, "apps", "python"), linked):
            self.assertEqual(self.place("program('ddprun')", PYTHONPATH=path), built)
            self.assertEqual(self.place("library()", PYTHONPATH=path), library)
            self.assertEqual(self.place("program('ddprun')", PYTHONPATH=path, DDPRUN_BUILD=os.path.join(self.folder, "other-build")), elsewhere)

    def test_the_script_of_a_checkout_that_is_not_built_says_so(self):
        root = self.checkout()
        script = put(os.path.join(self.folder, "env", "bin", "ddprun"),
                     f"#!{sys.executable}\nimport sys\nfrom ddprun.__main__ import become\nsys.exit(become())\n")
        env = {"PYTHONPATH": os.path.join(root, "apps", "python"), "PATH": f"{os.path.dirname(script)}:/usr/bin:/bin"}
        for words in ((script,), ("-m", "ddprun")):
            self.assertEqual(self.said(*words, **env), f"ddprun: {script} leads to a checkout without the program ddprun; build it there, or name "
                             "its build by DDPRUN_BUILD")
        os.remove(script)
        self.assertRegex(self.said("-m", "ddprun", **env), "^ddprun: the program ddprun is neither installed with .* nor on the PATH$")

    def test_an_installed_one_has_what_its_record_names(self):
        site = self.installed("ddprun/places.py", "../../../bin/ddprun")
        own = put(os.path.join(self.folder, "env", "bin", "ddprun"))
        put(os.path.join(self.folder, "env", "bin", "ddpctl"))
        self.assertEqual(self.place("program('ddprun')", PYTHONPATH=site), own)
        self.assertIn("FileNotFoundError", self.place("program('ddpctl')", PYTHONPATH=site))

    def test_one_by_target_has_the_programs_beside_it(self):
        site = self.installed("../../bin/ddprun")
        put(os.path.join(self.folder, "env", "lib", "bin", "ddprun"))
        own = put(os.path.join(site, "bin", "ddprun"))
        self.assertEqual(self.place("program('ddprun')", PYTHONPATH=site), own)

    @unittest.skipUnless(os.geteuid() == 0, "skipped: only root has files of other users")
    def test_what_another_user_can_have_written_is_not_taken(self):
        site = self.installed("../../../bin/ddprun")
        program = put(os.path.join(self.folder, "env", "bin", "ddprun"))
        library = put(os.path.join(site, "ddprun", "lib", LIBRARY))
        for path in (program, library):
            os.chown(path, NOBODY, NOBODY)
        self.assertIn("FileNotFoundError", self.place("program('ddprun')", PYTHONPATH=site))
        self.assertEqual(self.place("library()", PYTHONPATH=site), LIBRARY)
        said = self.said("-c", "import ddprun.places as places; places.library()", PYTHONPATH=site)
        self.assertRegex(said, f"^ddprun: {library} is not used: .*another user's or everybody's to write.*$")
        self.assertEqual(self.said("-c", "import ddprun.places as places; places.library()", PYTHONPATH=site, LOCAL_RANK="1"), "")
        for path in (program, library):
            os.chown(path, 0, 0)
            os.chmod(path, 0o757)
        self.assertIn("FileNotFoundError", self.place("program('ddprun')", PYTHONPATH=site))
        self.assertEqual(self.place("library()", PYTHONPATH=site), LIBRARY)
        for path in (program, library):
            os.chmod(path, 0o755)
            os.chmod(os.path.dirname(path), 0o777)
        self.assertIn("FileNotFoundError", self.place("program('ddprun')", PYTHONPATH=site))
        self.assertEqual(self.place("library()", PYTHONPATH=site), LIBRARY)
        for path in (program, library):
            os.chmod(os.path.dirname(path), 0o755)
        # Where all of the package is everybody's (a umask of 000), or another user's, its programs are as good as its Python.
        for at, folders, files in os.walk(os.path.join(self.folder, "env")):
            for name in (*folders, *files):
                os.chmod(os.path.join(at, name), 0o777)
        self.assertEqual(self.place("program('ddprun')", PYTHONPATH=site), program)
        self.assertEqual(self.place("library()", PYTHONPATH=site), library)
        for at, folders, files in os.walk(os.path.join(self.folder, "env")):
            for name in (*folders, *files):
                os.chmod(os.path.join(at, name), 0o755)
        for at, folders, files in os.walk(os.path.join(self.folder, "env")):
            for name in (*folders, *files):
                os.chown(os.path.join(at, name), NOBODY, NOBODY)
        for path in (program, library):
            os.chmod(path, 0o755)
        self.assertEqual(self.place("program('ddprun')", PYTHONPATH=site), program)
        self.assertEqual(self.place("library()", PYTHONPATH=site), library)

    def test_the_module_hands_on_its_python(self):
        site = self.installed("../../../bin/ddprun")
        put(os.path.join(self.folder, "env", "bin", "ddprun"), "#!/bin/sh\necho \"$PYTHON_EXEC\"\n")
        self.assertEqual(self.said("-m", "ddprun", PYTHONPATH=site), sys.executable)
        self.assertEqual(self.said("-m", "ddprun", PYTHONPATH=site, PYTHON_EXEC=""), sys.executable)
        self.assertEqual(self.said("-m", "ddprun", PYTHONPATH=site, PYTHON_EXEC="/its/own"), "/its/own")

    def test_what_the_system_cannot_run_or_load_is_one_line(self):
        """As the wheel on a system without its loader (musl), forced there."""
        root = self.checkout()
        put(os.path.join(root, "build", "bin", "ddprun"), "#!/no/such/loader\n")
        library = put(os.path.join(root, "build", "apps", "python", LIBRARY), "no library\n")
        package = {"PYTHONPATH": os.path.join(root, "apps", "python")}
        said = self.said("-m", "ddprun", "true", **package)
        self.assertRegex(said, r"^ddprun: /.*/build/bin/ddprun cannot be executed: No such file or directory; the wheel is for glibc 2\.28 .*$")
        self.assertEqual(said.count("\n"), 0)
        said = self.said("-c", "import ddprun.abi; ddprun.abi.load()", **package)
        self.assertIn(f"OSError: ddprun: {library} cannot be loaded: ", said.splitlines()[-1])


if __name__ == "__main__":
    support.main()
