"""A training script for CPUs as it stands with Gloo; the one change is the word `ddprun`.

With torch older than 2.15 there is a second one: `import ddprun.torch`.
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import ddprun.torch  # noqa: F401


def main():
    dist.init_process_group("ddprun")  # was "gloo"
    torch.manual_seed(1)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for step in range(20):
        inputs = torch.randn(32, 8, generator=generator)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), inputs.sum(dim=1, keepdim=True))
        loss.backward()
        optimizer.step()
        dist.all_reduce(mean := loss.detach().clone(), dist.ReduceOp.AVG)
        if dist.get_rank() == 0 and step % 5 == 4:
            print(f"step {step + 1}: loss {mean.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
