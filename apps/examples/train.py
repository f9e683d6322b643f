"""DistributedDataParallel on a random data set: the program to begin with. A GPU per worker if there are any, else CPUs.

Rank 0 writes a checkpoint after each epoch; started again, all ranks go on from it.
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def random_data(samples=256, features=8):
    """The same on all ranks, since the seed is."""
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(samples, features, generator=generator)
    return TensorDataset(inputs, inputs.sum(dim=1, keepdim=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3, help="to be done in all, with those of the checkpoint")
    parser.add_argument("--checkpoint", default="checkpoint.pt", help="file to write and to go on from")
    options = parser.parse_args()

    # The launcher has said who we are; init_process_group reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT itself.
    local_rank = int(os.environ["LOCAL_RANK"])
    has_gpu = torch.cuda.is_available()
    device = torch.device("cuda", local_rank) if has_gpu else torch.device("cpu")
    dist.init_process_group("nccl" if has_gpu else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    print(f"rank {rank} of {world}, local rank {local_rank}, device {device}, "
          f"CUDA_VISIBLE_DEVICES {os.environ.get('CUDA_VISIBLE_DEVICES', 'not set')}")

    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).to(device)
    first_epoch = 0
    if os.path.exists(options.checkpoint):
        saved = torch.load(options.checkpoint, map_location=device)
        model.load_state_dict(saved["model"])
        first_epoch = saved["epoch"] + 1
    model = DistributedDataParallel(model, device_ids=[local_rank] if has_gpu else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    data = random_data()
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=16, sampler=sampler)

    for epoch in range(first_epoch, options.epochs):
        sampler.set_epoch(epoch)  # another order in each epoch
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(inputs.to(device)), targets.to(device))
            loss.backward()
            optimizer.step()
        if rank == 0:
            # A file that is renamed is whole, whenever the job ends.
            torch.save({"model": model.module.state_dict(), "epoch": epoch}, options.checkpoint + ".new")
            os.replace(options.checkpoint + ".new", options.checkpoint)
            print(f"epoch {epoch}: loss {loss.item():.4f}, saved in {options.checkpoint}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
