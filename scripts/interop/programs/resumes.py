"""A worker of an elastic job: counts steps with its group, leaves a checkpoint after each, and goes on from the last.

Usage: resumes.py FOLDER      It ends, with all others, at the first step for which FOLDER/finish is there.
"""

import os
import sys

import torch
import torch.distributed as dist

from saying import leave


def main():
    folder = sys.argv[1]
    checkpoint = os.path.join(folder, "checkpoint.pt")
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    state = {"step": 0, "total": 0}
    if os.path.exists(checkpoint):
        state = torch.load(checkpoint)
    # What rank 0 has read counts for all.
    dist.broadcast(start := torch.tensor([state["step"], state["total"]]), src=0)
    step, total = start.tolist()
    print(f"rank {rank} of {world} goes on at step {step}", flush=True)
    while True:
        finish = torch.tensor([int(rank == 0 and os.path.exists(os.path.join(folder, "finish")))])
        dist.all_reduce(finish)
        if finish.item():
            break
        step += 1
        dist.all_reduce(share := torch.tensor([step if rank == step % world else 0]))
        total += share.item()
        if rank == 0:
            torch.save({"step": step, "total": total}, checkpoint + ".new")
            os.replace(checkpoint + ".new", checkpoint)
        dist.barrier()
    assert total == step * (step + 1) // 2, (total, step)
    print(f"rank {rank} of {world} is done, the total of the steps is right", flush=True)
    leave()


main()
