"""init_process_group with the world size and the rank given by hand, as programs do that read the environment themselves."""

import os

import torch
import torch.distributed as dist

rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
where = f"tcp://{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
dist.init_process_group(backend="gloo", init_method=where, world_size=world_size, rank=rank)

ranks = torch.tensor([rank])
dist.all_reduce(ranks)
print(f"rank {rank} of {world_size}: the sum of all ranks is {ranks.item()}")
dist.destroy_process_group()
