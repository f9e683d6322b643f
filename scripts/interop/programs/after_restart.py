"""The first round's process group works, then its last rank fails; the next round's has to work as well."""

import os
import sys

import torch
import torch.distributed as dist

from saying import leave, ok


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    restarts = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    for _ in range(3):
        dist.all_reduce(total := torch.tensor([rank + 1.0]))
        assert total.item() == world * (world + 1) / 2
    group = dist.new_group(list(range(world)))
    dist.barrier(group=group)
    ok(f"process group of round {restarts}")
    if restarts == 0 and rank == world - 1:
        sys.exit(3)
    leave()


main()
