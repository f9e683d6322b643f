"""The frameworks on top of PyTorch by their documented recipes for a launcher, and JAX, which is none of PyTorch's."""

import os
import subprocess
import sys

from jobs import ROOT, Folder, check_said, support

HOSTS_TEST = os.path.join(ROOT, "tests", "end_to_end", "start", "start_store_test.py")
SKIPPED = 77


def one(results, setting, ranks, program, said, *arguments):
    launchers = setting.run([f"--nproc-per-node={ranks // len(setting.agents)}"], program, *arguments)
    check_said(results, setting, launchers, (said,), ranks)


def accelerate(results, setting, ranks):
    one(results, setting, ranks, "with_accelerate.py", "Accelerate")


def lightning(results, setting, ranks):
    with Folder() as folder:
        one(results, setting, ranks, "with_lightning.py", "Lightning", folder)


def transformers(results, setting, ranks):
    with Folder() as folder:
        one(results, setting, ranks, "with_transformers.py", "Transformers Trainer", folder)


def jax(results, setting, ranks):
    one(results, setting, ranks, "with_jax.py", "JAX", str(support.free_port()))


def jax_by_hosts(results, setting):
    """JAX's own service at MASTER_ADDR, on machines of their own: on this one every loopback is the same."""
    done = subprocess.run([sys.executable, "-B", HOSTS_TEST, support.BIN, "ProgramsAtMasterAddr.test_jax"],
                          env=setting.environment(INTEROP_JAX_PYTHON=os.path.join(setting.pytorch.folder, "python3")),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode == SKIPPED:
        return results.skip(setting.title("JAX"), done.stdout.strip())
    return results.note(setting.title("JAX"), f"exit code {done.returncode}" if done.returncode != 0 else None, done.stdout)


CASES = {function.__name__: function for function in (accelerate, lightning, transformers, jax)}
