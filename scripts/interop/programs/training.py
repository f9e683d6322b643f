"""A process group by tcp://, and in it DistributedDataParallel, DistributedSampler and the workers of a DataLoader."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from saying import leave, ok

SAMPLES, EPOCHS, BATCH = 64, 2, 8
# What outlives the process group. PyTorch 1.13 hangs where Gloo's thread is the last to drop a tensor while the group ends:
# the one waits for the interpreter's lock, and the other has it and waits for the thread.
KEPT = []


def gathered(tensor):
    dist.all_gather(parts := [torch.empty_like(tensor) for _ in range(dist.get_world_size())], tensor)
    KEPT.extend([tensor, *parts])
    return parts


def main():
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    where = f"tcp://{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    dist.init_process_group("gloo", init_method=where, rank=rank, world_size=world)
    ok("tcp://")

    torch.manual_seed(7)
    inputs = torch.randn(SAMPLES, 4)
    data = TensorDataset(torch.arange(SAMPLES), inputs, inputs.sum(dim=1, keepdim=True))
    torch.manual_seed(rank)  # DDP makes the ranks alike, not the seed.
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sampler = DistributedSampler(data, shuffle=True)
    loader = DataLoader(data, batch_size=BATCH, sampler=sampler, num_workers=2)

    losses, orders = [], []
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        seen = []
        for numbers, x, y in loader:
            seen.append(numbers)
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
        orders.append(torch.cat(seen))
        everywhere = torch.cat(gathered(orders[-1]))
        assert torch.equal(everywhere.sort().values, torch.arange(SAMPLES)), everywhere
    assert not torch.equal(orders[0], orders[1])
    ok("DistributedSampler")
    ok("DataLoader workers")

    parameters = torch.cat([each.detach().flatten() for each in model.parameters()])
    assert all(torch.equal(each, parameters) for each in gathered(parameters))
    ok("DDP, ranks bit-equal")
    leave()


main()
