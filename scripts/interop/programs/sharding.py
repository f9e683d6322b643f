"""What PyTorch 2 brought: DeviceMesh, FSDP2 (fully_shard) and distributed checkpoints, on CPUs.

Usage: sharding.py save|load FOLDER      A checkpoint that four ranks have saved is loaded by as many as there are.
"""

import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from saying import leave, ok


def meshes(world):
    mesh = init_device_mesh("cpu", (2, world // 2), mesh_dim_names=("replicas", "shards"))
    dist.all_reduce(total := torch.tensor([1.0]), group=mesh["shards"].get_group())
    assert total.item() == world // 2
    ok("DeviceMesh")


def sharded_model(world, seed):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=init_device_mesh("cpu", (world,)))
    assert all(isinstance(each, DTensor) for each in model.parameters())
    return model


def full(model):
    return torch.cat([each.full_tensor().detach().flatten() for each in model.parameters()])


def main():
    what, folder = sys.argv[1:]
    dist.init_process_group("gloo")
    world = dist.get_world_size()
    if what == "save":
        meshes(world)
        model = sharded_model(world, seed=1)
        before = full(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.ones(2, 8)).sum().backward()
        optimizer.step()
        assert not torch.equal(full(model), before)
        ok("FSDP2")
        checkpoint.save({"model": get_model_state_dict(model), "sum": full(model).sum()}, checkpoint_id=folder)
        ok(f"distributed.checkpoint saved on {world} ranks")
    else:
        model = sharded_model(world, seed=2)
        state = {"model": get_model_state_dict(model), "sum": torch.zeros(())}
        checkpoint.load(state, checkpoint_id=folder)
        set_model_state_dict(model, state["model"])
        assert torch.equal(full(model).sum(), state["sum"])
        ok(f"distributed.checkpoint loaded on {world} ranks")
    leave()


main()
