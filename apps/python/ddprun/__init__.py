"""ddprun: starts a distributed program on one machine or many, and tells the truth about it.

    job = ddprun.launch(["--nproc-per-node", "4", "train.py"])       # job.status(), job.wait(), job.kill()
    ddprun.spawn(work, args=(1, 2), nprocs=4)                        # as torch.multiprocessing.spawn
    from ddprun.collectives import Communicator                      # all_reduce and the others, of NumPy arrays
    torch.distributed.init_process_group("ddprun")                   # PyTorch on the same: ddprun.torch

`python -m ddprun` is the program `ddprun`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .jobs import Job, JobFailed, launch
    from .spawning import Spawned, spawn

__all__ = ["Job", "JobFailed", "Spawned", "launch", "spawn"]


def __getattr__(name: str) -> object:
    # Each when it is asked for, so that `python -m ddprun` starts as fast as Python does.
    if name in ("Job", "JobFailed", "launch"):
        from . import jobs as home
    elif name in ("Spawned", "spawn"):
        from . import spawning as home  # type: ignore[no-redef]
    else:
        raise AttributeError(f"module 'ddprun' has no attribute {name!r}")
    return getattr(home, name)
