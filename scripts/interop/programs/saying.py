"""What the programs of the suite say of themselves; the suite counts who has said it."""

import os
import sys


def ok(name):
    """This rank has done `name`, and its result was right."""
    print(f"ok {name}", flush=True)


def leave():
    """Ends PyTorch's group, and this program with 0. By the time that all have met again Gloo's threads have let go of what was
    gathered, or so one hopes: one that is the last to do so when Python has ended already aborts the process, whoever has started
    it. So Python does not end."""
    import torch.distributed  # JAX's environment has none
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
