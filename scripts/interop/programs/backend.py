"""What PyTorch's programs do with a process group, with the backend `ddprun`; each part is a case."""

import os
import re
import time

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.utils.data import DataLoader, TensorDataset

import ddprun.torch  # noqa: F401
from saying import ok


def model():
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))


def same_everywhere(tensors):
    flat = torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
    dist.all_gather(parts := [torch.empty_like(flat) for _ in range(dist.get_world_size())], flat)
    assert all(torch.equal(part, flat) for part in parts)
    return flat


def steps(parallel, parameters, rank):
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    generator = torch.Generator().manual_seed(rank)
    for _ in range(4):
        optimizer.zero_grad()
        parallel(torch.randn(16, 8, generator=generator)).square().mean().backward()
        optimizer.step()


def training(rank):
    kinds = []
    for _ in range(2):
        parallel = torch.nn.parallel.DistributedDataParallel(model())
        steps(parallel, parallel.parameters(), rank)
        kinds.append(same_everywhere(parallel.parameters()))
    assert torch.equal(*kinds)
    ok("DistributedDataParallel: all ranks and both runs have the same bits")


def sharded(rank):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    whole = torch.arange(12.0).reshape(6, 2)
    shards = distribute_tensor(whole, mesh, [Shard(0)])
    assert isinstance(shards, DTensor) and torch.equal(shards.redistribute(mesh, [Replicate()]).to_local(), whole)
    ok("DeviceMesh and DTensor")
    from torch.distributed.fsdp import fully_shard
    sharded_model = fully_shard(model(), mesh=mesh)
    if hasattr(sharded_model, "set_allocate_memory_from_process_group_for_comm"):
        sharded_model.set_allocate_memory_from_process_group_for_comm(True)
    steps(sharded_model, sharded_model.parameters(), rank)
    same_everywhere([parameter.full_tensor() for parameter in sharded_model.parameters()])
    ok("FSDP2")


def messages(rank):
    world, right, left = dist.get_world_size(), (rank + 1) % dist.get_world_size(), (rank - 1) % dist.get_world_size()
    got = torch.zeros(3)
    late = dist.irecv(got, left, tag=5)  # before what its sender does first
    for _ in range(3):
        dist.all_reduce(torch.ones(4))
    dist.isend(torch.full((3,), float(rank)), right, tag=5).wait()
    late.wait()
    assert got[0] == left
    if rank == 0:
        seen = set()
        for _ in range(world - 1):
            seen.add(dist.recv(got))
        assert seen == set(range(1, world))
    else:
        dist.send(got, 0)
    ok("tags, early receives, any source")


def lists(rank):
    world, left = dist.get_world_size(), (rank - 1) % dist.get_world_size()

    def whose(source, target, size):
        return torch.full((size,), float(10 * source + target))

    for scale in (1, 40_000):
        got = [torch.zeros(scale * (source + rank) + source) for source in range(world)]
        mine = [whose(rank, target, scale * (rank + target) + rank) for target in range(world)]
        dist.all_to_all(got, mine)
        assert all(torch.equal(part, whose(source, rank, len(part))) for source, part in enumerate(got))
        whole = torch.zeros(sum(map(len, got)))
        dist.all_to_all_single(whole, torch.cat(mine), [len(part) for part in got], [len(part) for part in mine], async_op=True).wait()
        assert torch.equal(whole, torch.cat(got))
        out = torch.zeros(scale * rank, dtype=torch.complex64)
        dist.reduce_scatter(out, [torch.ones(scale * target, dtype=torch.complex64) for target in range(world)])
        assert torch.equal(out, torch.full_like(out, world))

        # Lists whose tensors are no blocks, overlap, or are the input.
        square = torch.zeros(scale, world)
        dist.all_gather(list(square.t()), torch.full((scale,), float(rank)))
        assert torch.equal(square[0], torch.arange(float(world)))
        one = torch.full((scale,), float(rank))
        dist.all_gather([one] * world, one)
        assert one[0] == world - 1
        parts = list(torch.full((world, scale), float(rank)).unbind())
        dist.all_gather(parts, parts[left])
        assert [part[0].item() for part in parts] == list(range(world))
        dist.gather(one, parts[::-1] if rank == 1 else None, dst=1)
        dist.scatter(one, [one] * world if rank == 1 else None, src=1)
        assert one[0] == world - 1
    # Nobody has sent anything when they find that they disagree.
    try:
        dist.all_to_all([torch.zeros(3 if rank < source else 2) for source in range(world)], [torch.zeros(2) for _ in range(world)])
    except RuntimeError as error:
        assert "which expects" in str(error), error
    else:
        raise AssertionError("nobody heard that they disagree")
    dist.barrier()
    ok("lists of tensors, wherever they lie")


def errors(rank):
    def refused(kind, words, function, *arguments, **more):
        try:
            function(*arguments, **more)
        except kind as error:
            assert words in str(error), f"{words} is not in {error}"
        else:
            raise AssertionError(f"nothing says {words}")

    refused((RuntimeError, ValueError), "root", dist.broadcast, torch.ones(2), src=77)
    refused(RuntimeError, "Invalid scalar type", dist.all_reduce, torch.ones(2, dtype=torch.int16))
    world = dist.get_world_size()
    refused(RuntimeError, "world_size times", dist.all_gather_into_tensor, torch.ones(3), torch.ones(2))
    refused(ValueError, "contiguous", dist.all_to_all_single, torch.ones(world, world), torch.ones(world, world).t())
    dist.barrier()
    ok("wrong arguments, after which the group lives")


def times(rank):
    from datetime import timedelta
    group = dist.new_group(backend="ddprun", timeout=timedelta(seconds=60))  # what a rank waits that the monitor has left
    if rank == 0:
        work = dist.irecv(torch.ones(2), 1, group=group)
        try:
            work.wait(timedelta(milliseconds=20))
        except dist.DistBackendError as error:
            assert " Timed out " in str(error), error
        dist.barrier()
        work.wait()
    else:
        dist.barrier()
        if rank == 1:
            dist.send(torch.ones(2), 0, group=group)
    try:
        if rank != dist.get_world_size() - 1:
            dist.monitored_barrier(group, timeout=timedelta(seconds=2), wait_all_ranks=True)
            assert rank != 0
    except RuntimeError as error:
        assert rank != 0 or re.search(rf"Ranks (\d+, )*{dist.get_world_size() - 1} failed to pass monitoredBarrier", str(error)), error
    dist.barrier()
    ok("waits with a limit, and the monitored barrier")


def groups(rank):
    def open_files():
        return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

    def one():
        group = dist.new_group(backend="ddprun")
        dist.all_reduce(tensor := torch.ones(2), group=group)
        assert tensor[0] == dist.get_world_size()
        dist.destroy_process_group(group)

    one()
    dist.barrier()
    before = open_files()
    for _ in range(20):
        one()
    assert open_files() <= before, (before, open_files())
    ok("groups leave nothing")
    kept = [dist.new_group(backend="ddprun") for _ in range(20)]
    for group in kept:
        dist.all_reduce(torch.ones(2), group=group)
    files, threads = (now - then for now, then in zip(open_files(), before))
    assert files <= 3 * len(kept) and threads <= 0, (files, threads)
    dist.barrier()
    for group in kept:
        dist.destroy_process_group(group)
    ok("a group has three descriptors and no thread")
    pairs = dist.split_group(split_ranks=[[0, 1], [2]]) if hasattr(dist, "split_group") else None
    if pairs not in (None, dist.GroupMember.NON_GROUP_MEMBER):
        dist.all_reduce(tensor := torch.ones(2), group=pairs)
        assert tensor[0] == (1 if rank == 2 else 2)
    ok("split_group")


def loader(rank):
    data = TensorDataset(torch.arange(32.0))
    for context in ("fork", "spawn"):
        count = sum(len(batch) for batch, in DataLoader(data, batch_size=4, num_workers=1, multiprocessing_context=context))
        dist.all_reduce(total := torch.tensor(count))
        assert total == 32 * dist.get_world_size()
    ok("workers of a DataLoader, by fork and by spawn")


def mapped(rank):
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert not backend.owns(torch.zeros(3))
    tensor = ddprun.torch.mapped(rank + 2, 50_000, dtype=torch.int64)  # each rank's own size
    assert backend.owns(tensor) and tensor.shape == (rank + 2, 50_000) and tensor.dtype == torch.int64 and not tensor.any()
    assert ddprun.torch.mapped((2, 3)).shape == (2, 3) and ddprun.torch.mapped(0).numel() == 0
    dist.all_reduce(tensor[:2].fill_(rank))
    assert (tensor[:2] == sum(range(dist.get_world_size()))).all()
    if os.fork() == 0:
        del tensor
        os._exit(0)
    os.wait()
    assert tensor[0, 0] == sum(range(dist.get_world_size()))
    tensor.share_memory_()
    ok("mapped tensors")
    # Larger than what goes with an announcement; with the same gradients as without.
    kinds = []
    for asked in ("0", "1"):
        os.environ["DDP_DISABLE_COMM_MEM"] = asked
        torch.manual_seed(3)
        layers = torch.nn.Sequential(torch.nn.Linear(8, 300), torch.nn.Linear(300, 300), torch.nn.Linear(300, 1))
        parallel = torch.nn.parallel.DistributedDataParallel(layers, gradient_as_bucket_view=True)
        steps(parallel, parallel.parameters(), rank)
        kinds.append(same_everywhere(parallel.parameters()))
        assert all(backend.owns(parameter.grad) == (asked == "0") for parameter in parallel.parameters())
    assert torch.equal(*kinds)
    ok("DDP's buckets are mapped")


def compiled_and_saved(rank):
    import tempfile
    import torch.distributed._functional_collectives as functional
    total = functional.all_reduce(torch.ones(3), "sum", dist.group.WORLD)
    assert torch.equal(functional.wait_tensor(total), torch.full((3,), float(dist.get_world_size())))
    ok("functional collectives")
    import torch.distributed.checkpoint as checkpoint
    place = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(place)
    state = {"weights": torch.full((4,), 3.0)}
    checkpoint.save(state, checkpoint_id=place[0])
    state["weights"].zero_()
    checkpoint.load(state, checkpoint_id=place[0])
    assert state["weights"][0] == 3
    ok("distributed.checkpoint")


def beside_gloo(rank):
    """Groups come from the first of ours that all members still have, whatever the default group is."""
    dist.init_process_group("gloo")
    older = [dist.new_group(backend="ddprun") for _ in range(3)]
    dist.barrier()
    for group in older[:rank]:
        dist.destroy_process_group(group)
    for _ in range(2):  # the second time from the first's
        group = dist.new_group(backend="ddprun")
        dist.all_reduce(tensor := torch.ones(2), group=group)
        assert tensor[0] == dist.get_world_size()
    dist.barrier()
    dist.destroy_process_group()
    ok("groups beside gloo's")


def main():
    dist.init_process_group("ddprun")
    rank = dist.get_rank()
    assert os.environ["DDP_DISABLE_COMM_MEM"] == "0"
    for part in (training, sharded, messages, lists, errors, times, groups, loader, mapped, compiled_and_saved):
        part(rank)
    kept = ddprun.torch.mapped(100_000).fill_(rank)
    dist.destroy_process_group()
    assert (kept == rank).all()
    beside_gloo(rank)
    ok("the end")


if __name__ == "__main__":
    main()
