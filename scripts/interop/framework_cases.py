"""The frameworks on top of PyTorch by their documented recipes for a launcher, and JAX, which is none of PyTorch's."""

from jobs import Folder, check_said, support


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


CASES = {function.__name__: function for function in (accelerate, lightning, transformers, jax)}
