#!/usr/bin/env python3
"""The commands of the pages that a stranger reads first, each run as it stands there, or named with the reason why it is not.

They run in a bare environment, in a folder that has the checkout's files and the build by links; nothing comes from outside.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile
from typing import NamedTuple, Optional

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import installers
import support

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
FIRST, PYTHON = "README.md", "apps/python/README.md"
BENCH, DIGITS = "apps/ddpbench/README.md", "apps/train_digits/README.md"
TIMED_OUT = 124  # timeout's


class Row(NamedTuple):
    """A command of a page, by how it begins."""
    page: str
    start: str
    says: str = ""  # what it prints, or `proof` after it
    proof: str = "true"
    code: int = 0
    needs: str = ""  # words of reason_against()
    why_not: Optional[str] = None


VERSION = r"^ddprun \d+\.\d+\.\d+"
WHICH = "which ddprun; ddprun --version"
ROWS = (
    Row(FIRST, "./scripts/demo.sh", why_not="it installs packages of Debian's; CI runs it as a step"),
    Row(FIRST, "cmake --build build"),
    Row(FIRST, "cmake --install build", VERSION, proof="$HOME/.local/bin/ddprun --version"),
    Row(FIRST, "scripts/package.sh", r"(?m)^ddprun-[\d.]+-py3-none-manylinux_2_28"),
    Row(FIRST, "pip install build/packages", "^/.*/env/bin/ddprun\n", proof=f"{WHICH} && pip uninstall --yes -q ddprun"),
    Row(FIRST, "build/bin/ddprun --nproc-per-node 4 build/bin/train_digits", "bit-equal on 4 of 4 ranks"),
    Row(FIRST, "build/bin/ddprun --nproc-per-node 4 bash", "first failure: rank 2 .*(\n.*)*survivors: 0", code=3),
    Row(FIRST, "id=$(build/bin/ddprun --detach", "test accuracy"),
    Row(FIRST, "scripts/two_nodes.sh", "bit-equal on 4 of 4 ranks", needs="root"),
    Row(PYTHON, "pip install build/packages", "^/.*/env/bin/ddprun\n", proof=WHICH),
    Row(PYTHON, "uv pip install build/packages", "^/.*/env/bin/ddprun\n", proof=WHICH, needs="tools"),
    Row(PYTHON, "pipx install build/packages", VERSION, proof="$HOME/.local/bin/ddprun --version && $HOME/.local/bin/ddpctl --version", needs="tools"),
    Row(PYTHON, "uvx --with torch", "(torch of rank .*\n){4}", needs="tools"),
    Row(PYTHON, "ddprun --nproc-per-node 4 apps/examples/kmeans.py", "centres are bit-equal on 4 of 4", needs="numpy"),
    Row(PYTHON, "pip install ./apps/python", "^/.*/env/bin/ddprun\n", proof=WHICH),
    Row(PYTHON, "pip install --editable apps/python", "^/.*/env/bin/ddprun\n", proof=WHICH),
    Row(PYTHON, "python -m build", "Successfully built ddprun-.*[.]tar[.]gz and ddprun-.*[.]whl", needs="tools"),
    Row(BENCH, "build/bin/ddprun --nproc-per-node=2 build/bin/ddpbench all_reduce", r"^# Out of bounds values : 0 OK$"),
    Row(DIGITS, "build/bin/ddprun --nproc-per-node 4 build/bin/train_digits", "bit-equal on 4 of 4 ranks"),
)


class Program(NamedTuple):
    """A program of PYTHON, by a part of it."""
    part: str
    ending: str = ""  # what a test has it do besides
    command: str = "python3 program.py"
    says: str = ""
    needs: str = ""
    why_not: Optional[str] = None


MPIRUN = "mpirun.openmpi --allow-run-as-root --oversubscribe -np 2 python3 program.py"
# A step of Slurm's on one node, by its variables.
SRUN = ("for rank in 0 1; do SLURM_PROCID=$rank SLURM_LOCALID=$rank SLURM_NTASKS=2 SLURM_JOB_ID=$$ SLURM_STEP_ID=0 "
        'SLURM_STEP_NODELIST=localhost python3 program.py & ranks+=" $!"; done; for rank in $ranks; do wait $rank; done')
PROGRAMS = (
    *(Program("numpy.full", "print(everything[0], everything[-1])", command, r"\A(0\.5 0\.5\n){2}\Z", needs) for command, needs in (
        ("ddprun --nproc-per-node 2 program.py", "numpy"), (MPIRUN, "numpy mpirun"), (SRUN, "numpy"))),
    Program("comm.shrink", why_not="a part of one; tests/end_to_end/python/ranks.py has it whole"),
    Program("ddprun.spawn(", says=r"\A(hello \[0, 1, 2, 3\]\n){4}\Z"),
    Program("ddprun.launch(", "print(job.wait(), job.status()['state'])", says="0 ended"),
)


def programs():
    with open(os.path.join(ROOT, PYTHON), encoding="utf-8") as file:
        return re.findall(r"(?ms)^```python\n(.*?)^```$", file.read())


def commands(page):
    """Those of the page's blocks of shell; of a block that names a variable, all in one."""
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        blocks = re.findall(r"(?ms)^```sh\n(.*?)^```$", file.read())
    for block in blocks:
        yield from [block] if re.match(r"\w+=", block) else re.sub(r"\\\n", " ", block).splitlines()


def command_of(row):
    found = [command for command in commands(row.page) if command.startswith(row.start)]
    assert len(found) == 1, (row, found)
    return found[0]


class Pages(support.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.build = os.path.dirname(support.BIN)
        if not os.path.exists(os.path.join(self.build, "CMakeCache.txt")):
            self.skipTest("skipped: the programs' folder is no build's")
        self.folder = os.path.realpath(self.enterContext(tempfile.TemporaryDirectory()))
        for name in os.listdir(ROOT):
            if not name.startswith((".", "build")):
                os.symlink(os.path.join(ROOT, name), os.path.join(self.folder, name))
        os.symlink(self.build, os.path.join(self.folder, "build"))
        self.tools = installers.folder(self.build)
        env = os.path.join(self.folder, "env")
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--system-site-packages", env], check=True)
        self.environment = {"HOME": os.path.join(self.folder, "home"), "VIRTUAL_ENV": env, "PATH": f"{env}/bin:/usr/sbin:/usr/bin:/bin",
                            "PIP_NO_INDEX": "1", "UV_OFFLINE": "1", "UV_FIND_LINKS": self.folder, "UV_PYTHON": f"{env}/bin/python3",
                            "UV_PYTHON_DOWNLOADS": "never", "DDPRUN_BUILD": self.build, "DDPRUN_JOBS_DIR": self.folder, "OMP_NUM_THREADS": "1",
                            "DDPRUN_TEST_MARK": self.environment["DDPRUN_TEST_MARK"]}
        os.mkdir(self.environment["HOME"])
        self.put_stand_in()

    def put_stand_in(self):
        """A torch that uvx can have from here, and a program that wants one."""
        with zipfile.ZipFile(os.path.join(self.folder, "torch-2.15.0-py3-none-any.whl"), "w") as wheel:
            wheel.writestr("torch.py", "")
            wheel.writestr("torch-2.15.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: torch\nVersion: 2.15.0\n")
            wheel.writestr("torch-2.15.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr("torch-2.15.0.dist-info/RECORD", "")
        with open(os.path.join(self.folder, "train.py"), "w", encoding="ascii") as file:
            file.write("import os, torch\nprint('torch of rank', os.environ['RANK'])\n")

    def reason_against(self, row):
        reasons = {"tools": None if self.tools else f"no {', '.join(installers.NAMES)} to be had",
                   "root": None if os.geteuid() == 0 else "only root makes network namespaces",
                   "numpy": None if subprocess.run(["/usr/bin/python3", "-c", "import numpy"], check=False).returncode == 0 else
                   "NumPy is not installed (Debian package python3-numpy)",
                   "mpirun": None if shutil.which("mpirun.openmpi") else "mpirun is not installed (Debian package openmpi-bin)"}
        return row.why_not or next((reasons[need] for need in row.needs.split() if reasons[need]), None)

    def test_each_command_does_what_the_page_says(self):
        for row in ROWS:
            command = command_of(row)
            if reason := self.reason_against(row):
                print(f"not run: {command.splitlines()[0]} ({row.page}): {reason}", flush=True)
                continue
            with self.subTest(command=command):
                path = f"{self.tools}:{self.environment['PATH']}" if row.needs == "tools" else self.environment["PATH"]
                done = subprocess.run(["bash", "-euo", "pipefail", "-c", f"{{ {command}\n}} && {{ {row.proof}; }}"], cwd=self.folder,
                                      env={**self.environment, "PATH": path}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True, timeout=600, check=False)
                self.assertEqual(done.returncode, row.code, done.stdout)
                self.assertRegex(done.stdout, re.compile(row.says, re.MULTILINE))

    def test_each_program_does_what_the_page_says(self):
        env = {**self.environment, "PATH": f"{support.BIN}:{self.environment['PATH']}", "PYTHONPATH": os.path.join(ROOT, "apps", "python")}
        folder = os.path.join(self.folder, "programs")
        os.mkdir(folder)
        with open(os.path.join(folder, "train.py"), "w", encoding="ascii") as file:
            file.write("import os\nprint('rank', os.environ['RANK'])\n")
        for program in PROGRAMS:
            if reason := self.reason_against(program):
                print(f"not run: {program.part} ({PYTHON}): {reason}", flush=True)
                continue
            with self.subTest(program=program.part, command=program.command), open(os.path.join(folder, "program.py"), "w", encoding="utf-8") as file:
                file.write(next(text for text in programs() if program.part in text) + program.ending)
                file.flush()
                for _ in range(2):  # Open MPI 4.1.4 itself hangs at times when processes end.
                    done = subprocess.run(["timeout", "--kill-after=5", str(support.HANG_GUARD), "bash", "-euc", program.command],
                                          cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                          text=True, check=False)
                    if done.returncode != TIMED_OUT or not program.command.startswith("mpirun"):
                        break
                self.assertEqual(done.returncode, 0, done.stdout)
                self.assertRegex(done.stdout, program.says)

    def test_nothing_is_forgotten(self):
        for page in {row.page for row in ROWS}:
            self.assertEqual(sorted(command_of(row) for row in ROWS if row.page == page), sorted(commands(page)))
        for text in programs():
            self.assertEqual(len({program.part for program in PROGRAMS if program.part in text}), 1, text)


if __name__ == "__main__":
    support.main()
