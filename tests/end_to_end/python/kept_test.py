#!/usr/bin/env python3
"""Where the backend's extension is kept and what is loaded from there: with a stand-in for PyTorch and for the compiler, in folders that
others have written to, that cannot be written to, or from which nothing may be executed."""

import fcntl
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import support

SOURCES = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "apps", "python"))
PYTHON = "/usr/bin/python3"
USER, STRANGER = 65534, 12345
# As much of it as ddprun.torch asks for.
TORCH = """__version__ = "2.15.0"
def compiled_with_cxx11_abi(): return True
"""
DISTRIBUTED = """class Backend: _plugins = {"DDPRUN": None}
def is_available(): return True
"""
EXTENSION = """#include <Python.h>
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_ddprun_torch", WORD, -1, 0, 0, 0, 0, 0};
PyMODINIT_FUNC PyInit__ddprun_torch(void) { return PyModule_Create(&module); }
"""
# A rank of two and a clock of its own: when the other begins to make its extension, when that ends, and when it has come.
LATE = """import datetime
from ddprun.torch import late
class Store(dict):
    def set(self, key, value): self[key] = value
    def add(self, key, amount): return self.setdefault(key, amount) if key not in self else self.update({key: self[key] + amount}) or self[key]
    def check(self, keys): return all(key in self for key in keys)
class Clock:
    def __init__(self, events): self.now, self.events = 0, events
    def monotonic(self): return self.now
    def sleep(self, seconds):  # no event: nobody sleeps
        self.now += seconds
        while self.events and self.events[0][0] <= self.now: self.events.pop(0)[1]()
def wait(begins, ends, comes, limit=10):
    store, said = Store(), []
    making = late.making(store, 1)
    def come(): late.meeting_limit(store, 1, 2, datetime.timedelta(1))
    steps = [(begins, making.__enter__), (ends, lambda: making.__exit__(None, None, None)), (comes, come)]
    late.time, late.kept.say = Clock([step for step in steps if step[0] is not None]), said.append
    limit = late.meeting_limit(store, 0, 2, datetime.timedelta(seconds=limit))
    print(round(late.time.now), limit.total_seconds(), len(said), *said[:1])
wait(0, 0, 0)
wait(8, 100, 100)
wait(1, 50, 50, limit=1.5)
wait(None, None, None)
wait(1, 2, None)
wait(1, None, None)
"""
LOAD = "import ddprun.torch.build as build; module = build.load(); import os; print(module.__doc__, os.path.realpath(module.__file__))"


def has_headers():
    done = subprocess.run([PYTHON, "-c", "import sysconfig; print(sysconfig.get_paths()['include'])"], stdout=subprocess.PIPE, text=True, check=True)
    return os.path.exists(os.path.join(done.stdout.strip(), "Python.h"))


@unittest.skipUnless(has_headers(), "skipped: no Python.h (Debian package python3-dev)")
class Kept(support.EndToEndTest):
    @classmethod
    def setUpClass(cls):
        cls.shared = cls.enterClassContext(tempfile.TemporaryDirectory())
        os.chmod(cls.shared, 0o755)
        include = subprocess.run([PYTHON, "-c", "import sysconfig; print(sysconfig.get_paths()['include'])"], stdout=subprocess.PIPE, text=True,
                                 check=True).stdout.strip()
        for word in ("made", "planted"):
            subprocess.run(["cc", "-shared", "-fPIC", "-I", include, f"-DWORD=\"{word}\"", "-x", "c", "-", "-o", os.path.join(cls.shared, word)],
                           input=EXTENSION, text=True, check=True)
        os.makedirs(os.path.join(cls.shared, "site", "torch"))
        for name, text in (("__init__", TORCH), ("distributed", DISTRIBUTED)):
            with open(os.path.join(cls.shared, "site", "torch", f"{name}.py"), "w", encoding="ascii") as file:
                file.write(text)
        # It copies the finished extension; its last word is the target.
        with open(os.path.join(cls.shared, "compiler"), "w", encoding="ascii") as file:
            file.write(f"#!/bin/sh\nfor last; do :; done\ncat {cls.shared}/made > \"$last\"\n")
        os.chmod(os.path.join(cls.shared, "compiler"), 0o755)

    def setUp(self):
        super().setUp()
        self.folder = self.enterContext(tempfile.TemporaryDirectory(dir="/tmp"))
        os.chmod(self.folder, 0o1777)
        self.cache, self.tmp = (os.path.join(self.folder, name) for name in ("cache", "tmp"))
        for path in (self.cache, self.tmp):
            os.mkdir(path)
            os.chmod(path, 0o1777)
        self.env = {"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": f"{self.shared}/site:{SOURCES}",
                    "CXX": os.path.join(self.shared, "compiler"), "XDG_CACHE_HOME": self.cache, "TMPDIR": self.tmp, "HOME": self.folder,
                    "DDPRUN_COLLECTIVES_LIBRARY": os.path.join(self.shared, "made")}
        self.user = USER if os.geteuid() == 0 else None

    def start(self, before=(), umask=0o22, user=None, **env):
        return subprocess.Popen([*before, PYTHON, "-c", LOAD], env={**self.env, **env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, umask=umask, user=None if before else user or self.user, extra_groups=None if
                                before or self.user is None else [], cwd=self.folder)

    def load(self, *before, **more):
        """What the extension says of itself, where it lies, and the lines on stderr."""
        with self.start(before, **more) as process:
            out, err = process.communicate(timeout=support.HANG_GUARD)
        self.assertEqual(process.returncode, 0, out + err)
        word, place = out.split(maxsplit=1)
        return word, place.strip(), err.splitlines()

    def cached(self):
        return os.path.join(self.cache, "ddprun")

    def plant(self, name, owner=STRANGER, mode=0o755):
        with open(os.path.join(self.shared, "planted"), "rb") as source, open(name, "wb") as file:
            file.write(source.read())
        os.chmod(name, mode)
        os.chown(name, owner, owner)

    def assert_private(self, path, user=None):
        found = os.stat(path)
        self.assertEqual((found.st_mode & 0o777, found.st_uid), (0o700, self.user if user is None and self.user is not None else os.geteuid()), path)

    def test_ranks_that_make_theirs_are_named_and_waited_for(self):
        done = subprocess.run([PYTHON, "-c", LATE], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        waits = ("rank 0 waits for rank 1: there the extension for torch is being made (half a minute); `python -m ddprun.torch build` makes it "
                 "before a job")
        # When the wait is over, how long the meeting may take, and what was said.
        self.assertEqual(done.stdout.splitlines(), ["0 10.0 0", f"100 10.0 1 {waits}", f"50 1.5 1 {waits}", "10 1.0 0", "10 1.0 0", f"902 1.0 1 {waits}"])

    def test_it_is_made_once_and_for_its_user_alone(self):
        for umask in (0, 0o002, 0o077):
            with self.subTest(umask=oct(umask)):
                cache = os.path.join(self.cache, oct(umask), "below")
                word, place, lines = self.load(umask=umask, XDG_CACHE_HOME=cache)
                self.assertEqual((word, len(lines)), ("made", 1), lines)
                self.assertIn("making the extension for torch 2.15.0, once", lines[0])
                self.assertTrue(place.startswith(os.path.join(cache, "ddprun", "torch-2.15.0-")), place)
                for path in (place, os.path.dirname(place), cache, os.path.dirname(cache)):
                    self.assert_private(path)
                self.assertEqual(self.load(umask=umask, XDG_CACHE_HOME=cache), (word, place, []))

    def test_what_a_rank_left_that_was_killed_while_it_made_it_goes(self):
        _, place, _ = self.load()
        left, fresh, other = (os.path.join(self.cached(), name) for name in (f"{os.path.basename(place)}.abc", f"{os.path.basename(place)}.new", "mine"))
        for path in (left, fresh, other):
            os.mkdir(path)
        for path in (left, other):
            os.utime(path, (0, 0))
        os.remove(place)
        self.load()
        self.assertEqual([os.path.exists(path) for path in (left, fresh, other, place)], [False, True, True, True])

    def test_each_build_of_torch_has_its_own(self):
        kept = set()
        for number, version in enumerate(("2.15.0", "2.15.0rc1", "2.15.0a0+git1", "2.15.0a0+git2")):
            site = os.path.join(self.folder, str(number))
            shutil.copytree(os.path.join(self.shared, "site"), site)
            with open(os.path.join(site, "torch", "__init__.py"), "w", encoding="ascii") as file:
                file.write(TORCH.replace("2.15.0", version))
            _, place, _ = self.load(PYTHONPATH=f"{site}:{SOURCES}")
            self.assertIn("/torch-2.15.0-", place)
            kept.add(place)
        self.assertEqual(len(kept), 4)

    def test_a_shipped_one_that_cannot_be_loaded_is_made_here(self):
        sources = os.path.join(self.folder, "sources")
        shutil.copytree(SOURCES, sources)
        os.mkdir(os.path.join(sources, "ddprun", "include"))
        shutil.copy(os.path.join(SOURCES, "..", "..", "collectives", "ddprun_collectives.h"), os.path.join(sources, "ddprun", "include"))
        said = subprocess.run([PYTHON, "-c", "import ddprun.torch.build as build; print(build.shipped())"], env={**self.env, "PYTHONPATH":
                              f"{self.shared}/site:{sources}"}, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        os.makedirs(os.path.dirname(said))
        with open(said, "w", encoding="ascii") as file:
            file.write("of another torch")
        word, place, lines = self.load(PYTHONPATH=f"{self.shared}/site:{sources}")
        self.assertEqual((word, place.startswith(self.cached())), ("made", True), lines)
        self.assertIn(f"ddprun: {said} cannot be loaded: ", lines[0])
        self.assertTrue(lines[0].endswith("; one that fits is made here"), lines[0])
        # Where none can be made the error says both, on every rank.
        with self.start(PYTHONPATH=f"{self.shared}/site:{sources}", CXX="/bin/false", XDG_CACHE_HOME=os.path.join(self.folder, "other"),
                        LOCAL_RANK="1") as process:
            _, err = process.communicate(timeout=support.HANG_GUARD)
        self.assertRegex(err, rf"RuntimeError: ddprun: {said} cannot be loaded: .*; one that fits is made here; .* does not compile ")

    def test_a_folder_of_its_user_that_others_could_write_to_is_closed(self):
        _, place, _ = self.load()
        os.chmod(self.cached(), 0o777)
        self.assertEqual(self.load(), ("made", place, []))
        self.assert_private(self.cached())
        os.chmod(place, 0o777)
        word, elsewhere, lines = self.load()
        self.assertTrue(elsewhere.startswith(self.tmp), elsewhere)
        self.assertIn(f"others can write to {place}; XDG_CACHE_HOME names another folder", "\n".join(lines))

    @unittest.skipUnless(os.geteuid() == 0, "skipped: only root is several users")
    def test_what_another_user_has_planted_is_not_loaded(self):
        _, place, _ = self.load()
        name = os.path.basename(place)
        os.remove(place)
        for what in ("file", "link", "folder", "link to a folder"):
            with self.subTest(what=what):
                if what == "file":
                    self.plant(place)
                elif what == "link":
                    self.plant(os.path.join(self.folder, "elsewhere"))
                    os.remove(place)
                    os.symlink(os.path.join(self.folder, "elsewhere"), place)
                elif what == "folder":
                    os.rename(self.cached(), os.path.join(self.folder, "theirs"))
                    os.mkdir(self.cached(), 0o755)
                    os.chown(self.cached(), STRANGER, STRANGER)
                    self.plant(place)
                else:
                    os.rename(self.cached(), os.path.join(self.folder, "target"))
                    os.symlink(os.path.join(self.folder, "target"), self.cached())
                word, elsewhere, lines = self.load()
                self.assertEqual((word, elsewhere), ("made", os.path.join(self.tmp, f"ddprun-{USER}", name)))
                self.assertRegex(lines[-1], f"^ddprun: the extension for this torch is kept in {self.tmp}/ddprun-{USER}: .*{self.cached()}")
                self.assert_private(os.path.dirname(elsewhere))
        # That one, too, may be somebody else's; then each process has its own, which goes with it.
        os.rename(os.path.dirname(elsewhere), os.path.join(self.folder, "moved"))
        os.mkdir(os.path.dirname(elsewhere), 0o777)
        os.chown(os.path.dirname(elsewhere), STRANGER, STRANGER)
        word, place, lines = self.load()
        self.assertEqual((word, place.startswith(os.path.join(self.tmp, "ddprun-")), len(lines)), ("made", True, 2), lines)
        self.assertEqual(os.listdir(self.tmp), [f"ddprun-{USER}"])

    @unittest.skipUnless(os.geteuid() == 0, "skipped: only root is several users")
    def test_what_root_has_put_there_is_loaded(self):
        _, place, _ = self.load()
        self.plant(place, owner=0)
        self.assertEqual(self.load(), ("planted", place, []))

    @unittest.skipUnless(os.geteuid() == 0, "skipped: only root may write everywhere, or nowhere")
    def test_a_home_that_cannot_be_written(self):
        closed = os.path.join(self.folder, "closed")
        os.mkdir(closed, 0o755)
        # Where nothing is made, nothing is kept.
        with self.start(XDG_CACHE_HOME=closed, PATH="/nowhere", CXX="") as process:
            _, err = process.communicate(timeout=support.HANG_GUARD)
        self.assertEqual(("no C++ compiler" in err, "is kept in" in err), (True, False), err)
        for home in ({"XDG_CACHE_HOME": closed}, {"XDG_CACHE_HOME": "", "HOME": closed}, {"XDG_CACHE_HOME": "", "HOME": "/"}, {"XDG_CACHE_HOME": "", "HOME": "nowhere"}):
            with self.subTest(**home):
                word, place, lines = self.load(**home)
                self.assertEqual((word, os.path.dirname(place)), ("made", os.path.join(self.tmp, f"ddprun-{USER}")))
                self.assertIn("this user has no home" if home.get("HOME") == "nowhere" else "Permission denied", lines[-1])

    def test_a_folder_that_anybody_could_move_away_keeps_nothing(self):
        for mode, group in ((0o777, -1), (0o775, STRANGER)):
            if group == -1 or os.geteuid() == 0:
                os.chown(self.cache, -1, group)
                os.chmod(self.cache, mode)
                word, place, lines = self.load()
                self.assertEqual((word, os.path.dirname(place)), ("made", os.path.join(self.tmp, f"ddprun-{self.user or os.geteuid()}")))
                self.assertIn(f"others can rename {self.cached()}", lines[-1])

    @unittest.skipUnless(os.geteuid() == 0, "skipped: only root gives files to a user")
    def test_a_cache_that_the_private_group_of_its_user_may_write_to_keeps_it(self):
        os.chown(self.cache, USER, USER)
        os.chmod(self.cache, 0o775)
        word, place, _ = self.load()
        self.assertEqual((word, os.path.dirname(place)), ("made", self.cached()))

    def mounted(self, path, options):
        """In a namespace of its own, a file system at `path`."""
        return ["unshare", "--mount", "sh", "-ec", f"mount -t tmpfs -o {options} none {path}; exec \"$@\"", "sh"]

    @unittest.skipUnless(os.geteuid() == 0, "skipped: only root mounts")
    def test_a_cache_that_nothing_may_be_executed_from_or_that_is_full(self):
        for options, told in (("noexec", "is mounted noexec"), ("size=4k", "No space left on device")):
            with self.subTest(options=options):
                word, place, lines = self.load(*self.mounted(self.cache, options))
                self.assertEqual((word, os.path.dirname(place)), ("made", os.path.join(self.tmp, f"ddprun-{os.geteuid()}")))
                self.assertIn(told, "\n".join(lines))
                os.remove(place)

    def test_a_compiler_of_another_language_says_that_the_cache_is_full(self):
        compiler = os.path.join(self.folder, "compiler")
        with open(compiler, "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\nfor last; do :; done\ncase $last in {self.cache}/*)\n'
                       '[ "$LC_ALL" = C ] && echo "fatal error: No space left on device" || echo "Kein Speicherplatz mehr"; exit 1; esac\n'
                       f'cat {self.shared}/made > "$last"\n')
        os.chmod(compiler, 0o755)
        word, place, lines = self.load(CXX=compiler, LC_ALL="de_DE.UTF-8")
        self.assertEqual((word, os.path.dirname(os.path.dirname(place))), ("made", self.tmp))
        self.assertIn("No space left on device", "\n".join(lines))

    @unittest.skipUnless(os.geteuid() == 0, "skipped: only root mounts")
    def test_where_no_folder_can_have_it_one_line_says_why(self):
        with self.start(self.mounted(self.cache, "noexec") + self.mounted(self.tmp, "noexec")) as process:
            _, err = process.communicate(timeout=support.HANG_GUARD)
        self.assertRegex(err.splitlines()[-1], "^RuntimeError: ddprun: the extension for torch 2.15.0 cannot be kept: .* is mounted noexec; .*"
                         "XDG_CACHE_HOME names another folder$")

    def test_who_waits_for_another_process_says_so(self):
        _, place, _ = self.load()
        with open(f"{place}.lock", "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.remove(place)
            with self.start(LOCAL_RANK="3") as process:
                self.assertEqual(process.stderr.readline(), f"ddprun: waiting for the process that has {place}.lock: it makes the extension for this torch\n")
                fcntl.flock(lock, fcntl.LOCK_UN)
                out, _ = process.communicate(timeout=support.HANG_GUARD)
        self.assertEqual(out, f"made {place}\n")

    def test_its_command_says_how_it_is_used(self):
        def ended(*words):
            done = subprocess.run([PYTHON, "-m", "ddprun.torch", *words], env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, timeout=support.HANG_GUARD, cwd=self.folder, check=False)
            return done.returncode, done.stdout.startswith("usage: "), done.stderr.startswith("usage: ")

        self.assertEqual(ended("--help"), (0, True, False))
        for wrong in ((), ("make",), ("build", "--python"), ("build", "--python", "python3")):
            self.assertEqual(ended(*wrong), (2, False, True), wrong)
        self.assertEqual(sorted(os.listdir(self.folder)), ["cache", "tmp"])

    def test_without_a_compiler_one_line_says_which_command_makes_it(self):
        with self.start(PATH="/nowhere", CXX="") as process:
            _, err = process.communicate(timeout=support.HANG_GUARD)
        self.assertRegex(err.splitlines()[-1], "^RuntimeError: ddprun: there is no extension for torch 2.15.0 and this Python in this package, and no C\\+\\+ compiler .* make it by "
                         f"`{PYTHON} -m ddprun.torch build`, which writes {self.cached()}/torch-2.15.0-")


if __name__ == "__main__":
    support.main()
