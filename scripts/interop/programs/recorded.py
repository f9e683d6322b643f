"""Rank 1 raises an exception below PyTorch's @record; the others wait for it in a barrier."""

import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record


@record
def main():
    dist.init_process_group("gloo")
    if dist.get_rank() == 1:
        raise ValueError("the loss is not a number")
    dist.barrier()


main()
