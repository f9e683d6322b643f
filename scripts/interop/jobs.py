"""Jobs of the suite: a program under ddprun with one of the PyTorch installations, and what it has to say.

The launchers are started and watched by the same class as in tests/end_to_end; a job that would never end is killed by its
hang guard, and ddprun's guardian then ends its workers.
"""

import collections
import os
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests", "end_to_end"), os.path.join(ROOT, "tests", "end_to_end", "python")]

import elf_guards  # noqa: E402
import support  # noqa: E402

PROGRAMS = os.path.join(ROOT, "scripts", "interop", "programs")
SHOWN_LINES = 15  # of a failed job's output
SECRET = "a secret of this suite, of more than thirty-two characters"

# name: as cases are called; path: folder of its python3.
PyTorch = collections.namedtuple("PyTorch", "name folder")


class Setting:
    """Where a job runs: which PyTorch, which launcher options for each agent, with or without a secret."""

    def __init__(self, pytorch, launch, agents, secret=False):
        self.pytorch = pytorch
        self.launch = launch  # what the cases call it
        self.agents = agents  # the options of each agent
        self.secret = secret

    def title(self, what):
        return f"{self.pytorch.name}, {self.launch}{', with a secret' if self.secret else ''}: {what}"

    def environment(self, **more):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("DDPRUN_", "PET_", "TORCHELASTIC_", "SLURM_", "PYTHON"))}
        environment.update(PATH=f"{self.pytorch.folder}:{environment['PATH']}", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1",
                           HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", PYTHONDONTWRITEBYTECODE="1",
                           XDG_CONFIG_HOME="/dev/null/none", **more)  # no key of whoever runs this
        if self.secret:
            environment["DDPRUN_SECRET"] = SECRET
        return environment

    def start(self, options, program, *arguments, **more):
        words = [*options, os.path.join(PROGRAMS, program), *arguments]
        return support.Launcher(words, env=self.environment(**more))

    def run(self, options, program, *arguments, **more):
        """Starts all agents with `options` after their own, and waits for them; returns the ended launchers."""
        launchers = [self.start([*own, *options], program, *arguments, **more) for own in self.agents]
        for launcher in launchers:
            launcher.code = wait(launcher)
        return launchers


def wait(launcher):
    """The exit code, or a text if the hang guard had to end it."""
    try:
        return launcher.wait()
    except AssertionError:
        return f"no end after {support.HANG_GUARD:.0f} s"


def tail(launchers):
    parts = []
    for number, launcher in enumerate(launchers):
        lines = [line for line in (launcher.seen["out"] + launcher.seen["err"]) if not line.startswith("ok ")]
        parts += [f"agent {number}, ended with {launcher.code}:", *lines[-SHOWN_LINES:]]
    return "\n".join(parts)


def check_said(results, setting, launchers, names, ranks, codes=(0,)):
    """Each name is a case: so many ranks have to say it, and the agents to end with one of the codes."""
    said = collections.Counter(line[3:] for launcher in launchers for line in launcher.seen["out"] if line.startswith("ok "))
    ended_right = all(launcher.code in codes for launcher in launchers)
    shown = tail(launchers)
    for name in names:
        complaint = None
        if said[name] != ranks:
            complaint = f"said by {said[name]} of {ranks} ranks"
        elif not ended_right and name == names[-1]:
            complaint = f"the agents ended with {[launcher.code for launcher in launchers]}"
        results.note(setting.title(name), complaint, shown)
        shown = "" if complaint else shown  # once is enough


class Folder:
    """A folder for the files of one job."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="ddprun_interop_")
        return self.folder.name

    def __exit__(self, *_):
        self.folder.cleanup()


def wait_for_file(path, what):
    """Waits until another process has made the file."""
    deadline = time.monotonic() + support.HANG_GUARD
    while not os.path.exists(path):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} is not there after {support.HANG_GUARD:.0f} s")
        time.sleep(0.05)  # That another process makes a file is no event for us.
