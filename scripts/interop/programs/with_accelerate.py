"""Accelerate under a launcher, as its documentation has it: the script only asks for an Accelerator."""

import torch
from accelerate import Accelerator
from accelerate.utils import gather, set_seed
from torch.utils.data import DataLoader, TensorDataset

from saying import leave, ok


def main():
    accelerator = Accelerator(cpu=True)
    set_seed(3)
    inputs = torch.randn(64, 4)
    data = DataLoader(TensorDataset(inputs, inputs.sum(dim=1, keepdim=True)), batch_size=8, shuffle=True)
    model = torch.nn.Linear(4, 1)
    model, optimizer, data = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), data)
    seen = 0
    for x, y in data:
        loss = torch.nn.functional.mse_loss(model(x), y)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        seen += len(accelerator.gather_for_metrics(x))
    assert seen == 64, seen
    weights = gather(torch.cat([each.detach().flatten() for each in model.parameters()]).unsqueeze(0))
    assert accelerator.num_processes > 1 and len(weights) == accelerator.num_processes
    assert all(torch.equal(each, weights[0]) for each in weights)
    accelerator.wait_for_everyone()
    ok("Accelerate")
    leave()


main()
