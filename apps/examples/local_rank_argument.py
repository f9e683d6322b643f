"""A script of the days of torch.distributed.launch: it takes its local rank as --local_rank (or --local-rank)."""

import argparse

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", "--local-rank", type=int, default=0)
parser.add_argument("--batch-size", type=int, default=32)
options = parser.parse_args()

if torch.cuda.is_available():
    torch.cuda.set_device(options.local_rank)
dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo", init_method="env://")
print(f"--local_rank {options.local_rank}, rank {dist.get_rank()} of {dist.get_world_size()}, batch size {options.batch_size}")
dist.barrier()
dist.destroy_process_group()
