"""Which Python runs a program: that of the environment which the launcher lies in, under every name of it."""

import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from support import program

BARE_PATH = {"PATH": "/usr/bin:/bin", "VIRTUAL_ENV": "", "PYTHON_EXEC": ""}
NAMES = ("ddprun", "ddprun-launch", "torchrun")


class OwnPython(support.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.folder = os.path.realpath(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.who = self.path("who.py")
        with open(self.who, "w", encoding="ascii") as file:
            file.write("import os\nprint(os.environ['OWN_PYTHON'])\n")

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def environment_of(self, name, sign, launchers=NAMES):
        """An environment with a Python that tells its name, and launchers in it; returns its bin."""
        folder = self.path(name, "bin")
        os.makedirs(folder)
        if sign:
            open(self.path(name, sign), "w", encoding="ascii").close()
        python = os.path.join(folder, "python3")
        with open(python, "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\nOWN_PYTHON={name} exec {sys.executable} "$@"\n')
        os.chmod(python, 0o755)
        for launcher in launchers:
            shutil.copy2(program("ddprun"), os.path.join(folder, launcher))
        return folder

    def link(self, name, target):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(target, path)
        return path

    def run_as(self, file, *words, env=None):
        done = subprocess.run([file, *words, self.who], env={**self.environment, **BARE_PATH, **(env or {})}, text=True, cwd=self.folder,
                              capture_output=True, timeout=support.HANG_GUARD)
        return done.returncode, done.stdout.strip(), done.stderr

    def assert_runs(self, own, file, *words, **options):
        code, out, err = self.run_as(file, *words, **options)
        self.assertEqual((code, out), (0, own), err)
        return err

    def test_every_name_of_a_launcher_takes_its_environments_python(self):
        for name, sign in (("venv", "pyvenv.cfg"), ("conda", None)):
            folder = self.environment_of(name, sign)
            for launcher in NAMES:
                with self.subTest(name=name, launcher=launcher):
                    err = self.assert_runs(name, os.path.join(folder, launcher))
                    if launcher == "torchrun":  # Nobody expects another one there.
                        self.assertEqual(err, "")
                        continue
                    self.assertEqual(err.count("\n"), 1, err)
                    self.assertIn(f"Python is {folder}/python3, of the environment that this launcher lies in", err)
                    self.assertIn("PATH's /usr/bin/python3", err)
            on_path = {"PATH": folder + ":/usr/bin:/bin"}
            self.assertEqual(self.assert_runs(name, os.path.join(folder, "ddprun"), env=on_path), "")

    def test_the_users_word_for_another_python_is_compared_where_it_fails(self):
        folder = self.environment_of("venv", "pyvenv.cfg", ["ddprun"])
        with open(self.who, "w", encoding="ascii") as file:
            file.write("import no_such_module_of_anybody\n")
        launcher, hint = os.path.join(folder, "ddprun"), "hint: the interpreter is /usr/bin/python3 (python3 on PATH), but this " \
            f"launcher's environment has {folder}/python3\n"
        self.assertIn(hint, self.run_as(launcher, "python3")[2])
        for words, path in ((("python3",), folder + ":/usr/bin:/bin"), (("/usr/bin/python3",), "/usr/bin:/bin")):
            self.assertNotIn("hint", self.run_as(launcher, *words, env={"PATH": path})[2])
        for name in ("python", "pyton3"):
            code, _, err = self.run_as(launcher, name, env={"PATH": self.folder})
            self.assertEqual((code, err), (127, f"ddprun: {name}: not found on PATH; did you mean {folder}/python3?\n"))

    def test_without_proc_the_name_that_it_was_started_by_leads_there(self):
        folder = self.environment_of("venv", "pyvenv.cfg", ["ddprun"])
        isolated = ["unshare", "--mount", *(["--user", "--map-root-user"] if os.geteuid() != 0 else [])]
        if subprocess.run([*isolated, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no namespace of its own here")
        without = [*isolated, "sh", "-ec", 'mount -t tmpfs none /proc; exec "$@"', "sh"]
        self.assert_runs("venv", *without, os.path.join(folder, "ddprun"))

    def test_an_environment_that_has_lost_its_python_is_told(self):
        folder = self.environment_of("venv", "pyvenv.cfg", ["ddprun"])
        os.remove(os.path.join(folder, "python3"))
        os.symlink("/usr/bin/python3.0", os.path.join(folder, "python3"))
        err = self.assert_runs("PATH's", os.path.join(folder, "ddprun"), env={"OWN_PYTHON": "PATH's"})
        self.assertEqual(err, f"ddprun: {folder}/python3 of this launcher's environment is a link that leads nowhere, so that Python is "
                         f"PATH's; python3 -m venv --upgrade {self.path('venv')} mends it\n")
        other = self.environment_of("other", "pyvenv.cfg", [])
        self.assertEqual(self.assert_runs("other", os.path.join(folder, "ddprun"), env={"PYTHON_EXEC": other + "/python3"}), "")

    def test_the_users_word_is_stronger(self):
        folder = self.environment_of("venv", "pyvenv.cfg", ["ddprun"])
        other = self.environment_of("other", "pyvenv.cfg", [])
        err = self.assert_runs("other", os.path.join(folder, "ddprun"), env={"PYTHON_EXEC": other + "/python3"})
        self.assertEqual(err, "")

    def test_links_lead_to_the_environment_as_pipx_makes_them(self):
        folder = self.environment_of("venv", "pyvenv.cfg", ["ddprun"])
        # What uv puts there is not the environment's own.
        self.link("home/.local/bin/python3", "/usr/bin/python3")
        pipx = self.link("home/.local/bin/ddprun", os.path.join(folder, "ddprun"))
        self.assert_runs("venv", pipx)
        self.assert_runs("venv", self.link("links/twice", "../home/.local/bin/ddprun"))
        self.assert_runs("venv", "ddprun", env={"PATH": os.path.dirname(pipx) + ":/usr/bin:/bin"})

    def test_a_dot_is_no_folder_of_its_own(self):
        # What a user's programs share is nobody's environment, however it is named.
        self.environment_of("home/.local", None, ["ddprun-0.2"])
        link = self.link("home/.local/bin/ddprun", "./ddprun-0.2")
        for name in (link, self.path("home", ".local", "bin", ".", "ddprun-0.2")):
            self.assert_runs("PATH's", name, env={"OWN_PYTHON": "PATH's"})

    def test_two_dots_behind_a_link_are_the_folder_that_it_leads_to(self):
        self.environment_of("tools/venv", "pyvenv.cfg", ["ddprun"])
        self.environment_of("home/venv", "pyvenv.cfg", [])
        self.link("tools/bin/ddprun", "../venv/bin/ddprun")
        self.link("home/bin", self.path("tools", "bin"))
        self.assert_runs("tools/venv", self.path("home", "bin", "ddprun"))

    def test_a_link_in_an_environment_counts_before_where_it_leads(self):
        first = self.environment_of("first", "pyvenv.cfg", [])
        second = self.environment_of("second", "pyvenv.cfg", ["ddprun"])
        link = self.link("first/bin/torchrun", os.path.join(second, "ddprun"))
        self.assert_runs("first", link)
        self.assert_runs("first", self.link("outside/torchrun", link))

    def test_an_agent_of_a_start_takes_its_starters(self):
        folder = self.environment_of("venv", "pyvenv.cfg", [])
        link = self.link("venv/bin/ddprun", program("ddprun"))
        rsh = self.path("rsh")
        with open(rsh, "w", encoding="ascii") as file:
            file.write('#!/bin/sh\nexec /bin/sh -c "$2"\n')
        os.chmod(rsh, 0o755)
        words = ["--master-addr", "127.0.0.1", "--rsh", rsh, "--hosts", "a,b", "--nproc-per-node", "1"]
        code, out, err = self.run_as(link, *words)
        self.assertEqual((code, out), (0, "venv\nvenv"), err)
        self.assertIn(folder, err)

    def test_a_launcher_for_all_users_takes_path_s(self):
        folder = self.path("home", ".local", "bin")
        os.makedirs(folder)
        os.symlink("/usr/bin/python3", os.path.join(folder, "python3"))
        shutil.copy2(program("ddprun"), folder)
        venv = self.environment_of("venv", "pyvenv.cfg", [])
        self.assertEqual(self.assert_runs("venv", os.path.join(folder, "ddprun"), env={"PATH": venv + ":/usr/bin:/bin"}), "")


if __name__ == "__main__":
    support.main()
