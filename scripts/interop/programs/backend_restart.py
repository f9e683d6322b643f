"""A rank is killed at each attempt but the last, under whichever launcher restarts the job; each attempt meets as if it were the first.

Usage: backend_restart.py torch|numpy ATTEMPTS
"""

import os
import signal
import sys

ATTEMPT = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def total_of_torch():
    import torch
    import torch.distributed as dist

    import ddprun.torch
    dist.init_process_group("ddprun")
    dist.all_reduce(total := torch.ones(2))
    group = dist.new_group([0, SIZE - 1])
    if RANK in (0, SIZE - 1):
        dist.all_reduce(torch.ones(1), group=group)
    return int(total[0])


def total_of_numpy():
    import numpy

    from ddprun.collectives import Communicator
    global comm
    comm = Communicator.from_env(join_timeout=60)
    comm.all_reduce(total := numpy.ones(2))
    return int(total[0])


total = {"torch": total_of_torch, "numpy": total_of_numpy}[sys.argv[1]]()
assert total == SIZE, total
if ATTEMPT < int(sys.argv[2]) - 1:
    if RANK == SIZE - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()  # until the launcher ends this attempt
print(f"attempt {ATTEMPT} of rank {RANK} is done", flush=True)
