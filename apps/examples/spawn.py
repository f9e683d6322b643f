"""mp.spawn: one program on each node, which starts the workers of that node itself.

Alone (`python3 spawn.py`) it is a job of one node; ddprun starts it on several with --nproc_per_node=1.
"""

import argparse
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(local_rank, node, workers, world_size):
    rank = node * workers + local_rank
    dist.init_process_group("gloo", world_size=world_size, rank=rank)
    total = torch.ones(1)
    dist.all_reduce(total)
    # In one piece with the end of its line: the workers of a node share a pipe, and print() under python -u takes two.
    sys.stdout.write(f"worker {local_rank} on node {node}, rank {rank} of {world_size}: {int(total.item())} workers are there\n")
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2, help="to start on this node")
    workers = parser.parse_args().workers
    # Under ddprun each node has one such program, and its rank is the node's number.
    node, nodes = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    mp.spawn(work, args=(node, workers, nodes * workers), nprocs=workers)


if __name__ == "__main__":
    main()
