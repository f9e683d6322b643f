"""A Python environment under build/interop with a current PyTorch for CPU use, and the frameworks on top of it.

Made once and used again. What pip installs is what the package index serves that day; nothing is pinned, since the
question is whether ddprun works with what people install now.
"""

import glob
import importlib.metadata
import os
import re
import subprocess
import sys

import cuda_stand_ins

OLDEST_PYTHON = (3, 10)  # that a current PyTorch is served for
INSTALL_LIMIT = 600  # seconds for one call of pip; a hang guard
REAL_CUDA_PARTS = ("cudart", "cupti", "cufile")  # PyTorch calls these while it is imported; they are small
FRAMEWORKS = ("accelerate", "lightning", "transformers", "jax")


class Unavailable(Exception):
    """Something cannot be had on this machine; the text says why."""


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it said nothing"


class Environment:
    def __init__(self, folder, torch="torch"):
        self.folder = os.path.join(folder, "venv")
        self.torch = torch  # as pip takes it
        self.python = os.path.join(self.folder, "bin", "python3")

    def site_packages(self):
        return glob.glob(os.path.join(self.folder, "lib", "python3*", "site-packages"))[0]

    def has(self, part):
        return os.path.exists(os.path.join(self.folder, f"has-{part}"))

    def runs(self):
        """Whether its Python is there; the one that it was made with may be gone."""
        try:
            return subprocess.run([self.python, "-c", ""], timeout=INSTALL_LIMIT, check=False).returncode == 0
        except OSError:
            return False

    def mark(self, part):
        with open(os.path.join(self.folder, f"has-{part}"), "w", encoding="ascii"):
            pass

    def pip(self, *packages, dependencies=True):
        words = [self.python, "-m", "pip", "install", "-q", *([] if dependencies else ["--no-deps"]), *packages]
        try:
            done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  timeout=INSTALL_LIMIT, check=False)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"pip install {' '.join(packages)} took more than {INSTALL_LIMIT} s") from None
        if done.returncode != 0:
            raise Unavailable(f"pip install {' '.join(packages)} failed: {last_line(done.stderr)}")

    def distribution(self, package):
        found = glob.glob(os.path.join(self.site_packages(), f"{package}-*.dist-info"))
        return importlib.metadata.Distribution.at(found[0]) if found else None

    def version_of(self, package):
        distribution = self.distribution(package)
        return distribution.version if distribution else "none"

    def leave_out_what_a_gpu_needs(self):
        """Takes CUDA's packages out of what PyTorch says it requires, so that pip never brings them along."""
        path = glob.glob(os.path.join(self.site_packages(), "torch-*.dist-info", "METADATA"))[0]
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines(keepends=True)
        with open(path, "w", encoding="utf-8") as file:
            for line in lines:
                line = re.sub(r"(?<=^Requires-Dist: cuda-toolkit)\[.*\]", f"[{','.join(REAL_CUDA_PARTS)}]", line)
                # The same parts as they were called with CUDA 12.
                if not re.match("Requires-Dist: (nvidia-(?!cuda-runtime|cuda-cupti|cufile)|cuda-bindings|triton)", line):
                    file.write(line)

    def requirements(self):
        """What PyTorch asks for, as pip takes it."""
        return [line for line in self.distribution("torch").requires or () if "extra ==" not in line]

    def make(self):
        """Makes what is missing; raises Unavailable."""
        if self.has("torch") and self.runs():
            return
        if sys.version_info < OLDEST_PYTHON:
            raise Unavailable(f"python3 is {sys.version.split()[0]}, a current PyTorch wants {'.'.join(map(str, OLDEST_PYTHON))}")
        self.begin()
        self.pip(self.torch, dependencies=False)
        self.leave_out_what_a_gpu_needs()
        # numpy is no requirement by name, but most programs of people need it.
        self.pip("numpy", *self.requirements())
        try:
            made = cuda_stand_ins.make_missing(os.path.join(self.site_packages(), "torch", "lib"),
                                               glob.glob(os.path.join(self.site_packages(), "nvidia", "*", "lib")))
        except (OSError, subprocess.SubprocessError) as error:
            raise Unavailable(f"no stand-ins for CUDA's libraries: {error}") from None
        print(f"interop: stand-ins for {', '.join(made) or 'nothing'}", flush=True)
        self.mark("torch")

    def begin(self):
        """An empty one; raises Unavailable."""
        print(f"making {self.folder}", flush=True)
        done = subprocess.run([sys.executable, "-m", "venv", "--clear", self.folder], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=INSTALL_LIMIT, check=False)
        if done.returncode != 0:
            raise Unavailable(f"python3 -m venv failed (Debian package python3-venv): {last_line(done.stdout)}")

    def add(self, framework):
        """Installs one of FRAMEWORKS on top; raises Unavailable."""
        if self.has(framework):
            return
        self.pip(framework)
        self.mark(framework)
