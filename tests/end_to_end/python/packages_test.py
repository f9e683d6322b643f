#!/usr/bin/env python3
"""What scripts/package.sh makes of the build, installed where there is no compiler: the packages in a root of their own, the wheel in
an environment of its own; the main job runs in each."""

import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import elf_guards
import installers
import support

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, "..", "..", ".."))
DIGITS = os.path.join(ROOT, "apps", "data", "digits.csv")
MOST_WHEEL_BYTES = 8 << 20
OLDEST_GLIBC = 28
# What a program in C, or one of Python's, asks of the libraries beside it.
PROGRAM = """#include <collectives/ddprun_collectives.h>
#include <stdio.h>
int main(void) {
    ddprun_communicator* comm = NULL;
    if (ddprun_from_env(NULL, &comm) != DDPRUN_OK || ddprun_barrier(comm) != DDPRUN_OK) { puts(ddprun_last_error()); return 1; }
    if (ddprun_rank(comm) == 0) printf("%d ranks\\n", ddprun_world_size(comm));
    ddprun_destroy(comm);
    return 0;
}
"""


# A dlsym that does not find what glibc 2.30 brought.
OLDER_GLIBC = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>
void* dlsym(void* library, const char* name) {
    static const char asked[] = "asked for pthread_cond_clockwait\\n";
    if (strcmp(name, "pthread_cond_clockwait") == 0) { (void)!write(1, asked, sizeof asked - 1); return NULL; }
    return ((void* (*)(void*, const char*))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5"))(library, name);
}
"""


def run(*words, env=None, input="", **more):
    done = subprocess.run(words, env=env, input=input, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=600, check=False, **more)
    assert done.returncode == 0, f"{' '.join(words)}: {done.returncode}\n{done.stdout}"
    return done.stdout


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.build = os.path.dirname(support.BIN)
        if not os.path.exists(os.path.join(cls.build, "CMakeCache.txt")):
            raise unittest.SkipTest("skipped: the programs' folder is no build's")
        run(os.path.join(ROOT, "scripts", "package.sh"), "--build", cls.build)
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.wheel, = glob.glob(os.path.join(cls.build, "packages", "*.whl"))
        cls.debs = glob.glob(os.path.join(cls.build, "packages", "*.deb"))

    def check_main_job(self, *words, **more):
        """Of the words that start a job; the program to train comes last."""
        text = run(*words, **more)
        self.assertIn("bit-equal on 4 of 4 ranks", text)

    def environment(self, folder):
        """Where only the environment's own programs are on the PATH, no compiler, and nothing of the checkout."""
        kept = {name: value for name, value in os.environ.items() if name in ("HOME", "LANG")}
        return {**kept, "PATH": os.path.join(folder, "bin"), "DDPRUN_JOBS_DIR": self.folder}

    def check_installed(self, folder):
        env = self.environment(folder)
        train = [os.path.join(support.BIN, "train_digits"), "--data", DIGITS, "--epochs", "2"]
        self.check_main_job(os.path.join(folder, "bin", "ddprun"), "--nproc-per-node", "4", *train, env=env)
        return env

    def test_wheel_by_pip(self):
        folder = os.path.join(self.folder, "pip")
        run("/usr/bin/python3", "-m", "venv", "--system-site-packages", folder)
        python = os.path.join(folder, "bin", "python3")
        run(python, "-m", "pip", "install", "--no-index", "--no-deps", self.wheel)
        env = self.check_installed(folder)
        version = run(os.path.join(folder, "bin", "ddprun"), "--version", env=env)
        self.assertEqual(run(python, "-m", "ddprun", "--version", env=env), version)
        self.assertIn(re.search(r"ddprun-([\d.]+)-", self.wheel)[1], version)
        self.assertIn("ddpctl", run(os.path.join(folder, "bin", "ddpctl"), "--version", env=env))
        script = os.path.join(self.folder, "who.py")
        with open(script, "w", encoding="ascii") as file:
            file.write("import sys; print(sys.prefix)")
        self.assertEqual(run(python, "-m", "ddprun", script, env={**env, "PATH": "/usr/bin:/bin"}), folder + "\n")
        # As torch finds the backend.
        points = run(python, "-c", "from importlib.metadata import entry_points\n"
                     "print(*(p.value for p in entry_points(group='torch.distributed.backends')))", env=env)
        self.assertEqual(points, "ddprun.torch:register\n")
        said = run(python, "-c", "import ctypes, ddprun, ddprun.places as places, ranks\n"
                   "print(places.library())\n"
                   "ddprun.spawn(ranks.operations, (['float32'],), 3)", env={**env, "PYTHONPATH": HERE})
        self.assertTrue(said.startswith(folder), said)
        # A glibc that cannot wait by the steady clock does it as well.
        older = os.path.join(self.folder, "older.so")
        run("gcc", "-shared", "-fPIC", "-o", older, "-x", "c", "-", input=OLDER_GLIBC)
        said = run(python, "-c", "import ranks, ddprun; ddprun.spawn(ranks.operations, (['float32'],), 3)",
                   env={**env, "PYTHONPATH": HERE, "LD_PRELOAD": older})
        self.assertIn("asked for pthread_cond_clockwait", said)
        took = []
        for _ in range(20):
            began = time.perf_counter()
            run(os.path.join(folder, "bin", "ddprun"), "--version", env=env)
            took.append(time.perf_counter() - began)
        print(f"ddprun --version of the wheel: {min(took) * 1e3:.1f} ms", flush=True)

    def test_wheel_is_small_and_runs_with_an_old_glibc(self):
        self.assertLess(os.path.getsize(self.wheel), MOST_WHEEL_BYTES)
        self.assertIn(f"-py3-none-manylinux_2_{OLDEST_GLIBC}_", self.wheel)
        library = os.path.join(self.build, "apps", "python", "libddprun_collectives.so")
        needed = re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", library))
        self.assertLessEqual({name.split(".so")[0] for name in needed if not name.startswith("ld-")}, {"libc", "libm", "libgcc_s", "libpthread", "libdl"})
        for line in run("nm", "-D", "--defined-only", library).splitlines():
            self.assertRegex(line, r" ddprun_\w+$")

    def test_auditwheel_takes_the_wheels_word(self):
        tools = installers.folder(self.build)
        if tools is None:
            self.skipTest(f"skipped: no {', '.join(installers.NAMES)} to be had")
        told = " ".join(run(os.path.join(tools, "auditwheel"), "show", self.wheel).split())
        glibc = re.search(r'is consistent with the following platform tag: "manylinux_2_(\d+)_', told)[1]
        self.assertLessEqual(int(glibc), OLDEST_GLIBC, told)

    def unpacked(self):
        """The folders of what is in the wheel and in each package, made once."""
        folder = os.path.join(self.folder, "unpacked")
        if not os.path.exists(folder):
            with zipfile.ZipFile(self.wheel) as archive:
                archive.extractall(os.path.join(folder, "wheel"))
            for deb in self.debs:
                run("dpkg-deb", "--raw-extract", deb, os.path.join(folder, os.path.basename(deb).split("_")[0]))
        return folder

    def test_every_shipped_file_of_machine_code_is_guarded(self):
        found = [os.path.join(at, name) for at, _, names in os.walk(self.unpacked()) for name in names]
        elf = [path for path in found if not os.path.islink(path) and elf_guards.is_elf(path)]
        self.assertGreaterEqual(len(elf), 3 + 3 + 1)
        for path in elf:
            self.assertEqual(elf_guards.missing(path), [], path)

    def test_each_has_a_bill_of_what_is_inside(self):
        bills = glob.glob(os.path.join(self.unpacked(), "wheel", "*.dist-info", "sboms", "*.json")) + glob.glob(
            os.path.join(self.unpacked(), "*", "usr", "share", "doc", "*", "*.cdx.json"))
        self.assertEqual(len(bills), 1 + len(self.debs))
        said = run(support.program("ddprun"), "--version")
        for path in bills:
            with open(path, encoding="utf-8") as file:
                bill = json.load(file)
            self.assertEqual((bill["bomFormat"], bill["metadata"]["component"]["version"]), ("CycloneDX", said.split()[1]))
            parts = [f"{part['name']} {part['version']}" for part in bill["components"] if part["licenses"]]
            named = re.search("with (.*);.*;", said)[1].split(", ")
            of_programs = ("CLI11", "elfutils", "spdlog", "toml++", "zlib") if "libddprun" in path else ()
            self.assertEqual(parts, [part for part in named if part.split()[0] not in of_programs])

    def test_the_same_sources_give_the_same_bytes(self):
        def contents():
            found = {}
            for path in glob.glob(os.path.join(self.build, "packages", "*")):
                with open(path, "rb") as file:
                    found[os.path.basename(path)] = hashlib.sha256(file.read()).hexdigest()
            return found

        before = contents()
        script = os.path.join(ROOT, "scripts", "package.sh")
        run("bash", "-c", 'umask 077; exec "$@"', "bash", script, "--build", self.build, env={**os.environ, "TZ": "Asia/Tokyo", "HOME": self.folder})
        self.assertEqual((contents(), len(before)), (before, 4))

    @unittest.skipUnless(shutil.which("lintian"), "skipped: lintian is not installed")
    def test_debian_finds_no_error(self):
        """With a maintainer's address, which only a publisher has."""
        folder = os.path.join(self.folder, "published")
        run("cpack", "-B", folder, "-D", "CPACK_PACKAGE_CONTACT=The ddprun authors <packages@example.org>", cwd=self.build)
        debs = glob.glob(os.path.join(folder, "*.deb"))
        epoch = {**os.environ, "SOURCE_DATE_EPOCH": "1795850000"}
        run(os.path.join(ROOT, "scripts", "cmake", "debian_package.py"), os.path.join(self.build, "apps", "ddprun.version"), *debs, env=epoch)
        said = subprocess.run(["lintian", "--tag-display-limit", "0", *debs], stdout=subprocess.PIPE, text=True, check=False).stdout
        self.assertNotRegex(said, "(?m)^E: ")
        self.assertEqual(set(re.findall("(?m)^W: [^:]*: (\\S+)", said)),
                         {"initial-upload-closes-no-bugs", "pkg-config-unavailable-for-cross-compilation", "script-not-executable"})

    def test_packages_in_a_root_of_their_own(self):
        minor = re.search(r"ddprun-(\d+\.\d+)", self.wheel)[1]
        self.assertEqual({os.path.basename(path).split("_")[0] for path in self.debs},
                         {"ddprun", f"libddprun-collectives{minor}", "libddprun-collectives-dev"})
        if os.geteuid() != 0:
            self.skipTest("skipped: only root has a root of its own")
        root = os.path.join(self.folder, "root")
        for folder in ("var/lib/dpkg/info", "var/lib/dpkg/updates", "proc", "dev", "tmp", "etc"):
            os.makedirs(os.path.join(root, folder))
        open(os.path.join(root, "var/lib/dpkg/status"), "w", encoding="ascii").close()
        run("dpkg", f"--root={root}", "--force-depends", "--force-script-chrootless", "--install", *self.debs)
        for path in ("usr/bin/ddprun", "usr/bin/ddprun-launch", "usr/bin/ddpbench", "usr/share/man/man1/ddpctl.1.gz", "usr/share/zsh/vendor-completions/_ddprun", "usr/share/ddprun/templates/slurm.sbatch",
                     "usr/share/bash-completion/completions/ddprun", "usr/share/doc/ddprun/LICENSE.libraries", "usr/lib/libddprun_collectives.a",
                     "usr/share/doc/libddprun-collectives-dev/copyright", "usr/share/doc/ddprun/changelog.Debian.gz"):
            self.assertTrue(os.path.exists(os.path.join(root, path)), path)
        source = os.path.join(self.folder, "program.c")
        with open(source, "w", encoding="ascii") as file:
            file.write(PROGRAM)
        run("cc", "-I", os.path.join(root, "usr/include/ddprun"), source, "-o", os.path.join(root, "program"), "-L", os.path.join(root, "usr/lib"),
            "-lddprun_collectives")
        shutil.copy(os.path.join(support.BIN, "train_digits"), root)
        shutil.copy(DIGITS, root)
        # What the packages depend on.
        libraries = subprocess.run(["ldd", os.path.join(root, "program")], env={"LD_LIBRARY_PATH": os.path.join(root, "usr/lib")},
                                   stdout=subprocess.PIPE, text=True, check=True).stdout
        for path in set(re.findall(r"(/\S+) \(0x", libraries)) | {"/lib/x86_64-linux-gnu/libm.so.6"}:
            if not path.startswith(root):
                os.makedirs(os.path.dirname(root + path), exist_ok=True)
                shutil.copy(path, root + path)
        within = ["unshare", "--mount", "--fork", "bash", "-ec", "mount --rbind /proc $0/proc; mount --rbind /dev $0/dev; exec chroot $0 \"$@\"", root]
        self.check_main_job(*within, "/usr/bin/ddprun", "--nproc-per-node", "4", "/train_digits", "--data", "/digits.csv", "--epochs", "2")
        self.assertEqual(run(*within, "/usr/bin/ddprun", "--nproc-per-node", "3", "/program"), "3 ranks\n")


if __name__ == "__main__":
    support.main()
