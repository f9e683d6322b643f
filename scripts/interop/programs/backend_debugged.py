"""What an ordinary program asks of the backend, for runs with PyTorch's debugging variables: with TORCH_DISTRIBUTED_DEBUG=DETAIL there is
a wrapper around each group."""

import torch
import torch.distributed as dist

import ddprun.torch
from saying import ok

dist.init_process_group("ddprun")
rank, size = dist.get_rank(), dist.get_world_size()
dist.all_reduce(total := torch.ones(4))
assert total[0] == size
dist.all_reduce(torch.ones(1), group=dist.new_group(list(range(size))))
dist.barrier()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
model(torch.ones(2, 4)).sum().backward()
dist.all_gather_object(seen := [None] * size, rank)
assert seen == list(range(size))
dist.all_reduce(mapped := ddprun.torch.mapped(10))
dist.all_gather_into_tensor(torch.empty(4 * size), torch.ones(4))
if rank == 0:
    dist.send(torch.ones(2), 1)
elif rank == 1:
    dist.recv(got := torch.zeros(2), 0)
    assert got.tolist() == [1, 1]
dist.destroy_process_group()
ok("a program under PyTorch's debugging variables")
