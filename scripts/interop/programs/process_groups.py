"""Gloo by file:// and env://, the collectives named on the command line, groups in the group, the monitored barrier.

Usage: process_groups.py FILE COLLECTIVE...     (FILE: for file://, the same path on all ranks, not there yet)
"""

import datetime
import os
import re
import sys

import torch
import torch.distributed as dist

from saying import ok

LIMIT = datetime.timedelta(seconds=120)
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
NEXT, LAST = (RANK + 1) % WORLD, (RANK - 1) % WORLD
SUM = float(sum(range(WORLD)))


def mine(value=RANK):
    return torch.full((3,), float(value))


def same(tensor, value):
    return torch.equal(tensor, torch.full_like(tensor, float(value)))


def all_reduce():
    for operation, expected in ((dist.ReduceOp.SUM, SUM), (dist.ReduceOp.MAX, WORLD - 1), (dist.ReduceOp.MIN, 0)):
        tensor = mine()
        dist.all_reduce(tensor, operation)
        assert same(tensor, expected)
    work = dist.all_reduce(tensor := mine(), async_op=True)
    work.wait()
    assert same(tensor, SUM)


def broadcast():
    dist.broadcast(tensor := mine(), src=1)
    assert same(tensor, 1)


def reduce():
    dist.reduce(tensor := mine(), dst=0)
    assert RANK != 0 or same(tensor, SUM)


def all_gather():
    dist.all_gather(parts := [torch.empty(3) for _ in range(WORLD)], mine())
    assert all(same(part, rank) for rank, part in enumerate(parts))


def gather():
    parts = [torch.empty(3) for _ in range(WORLD)] if RANK == 0 else None
    dist.gather(mine(), parts, dst=0)
    assert RANK != 0 or all(same(part, rank) for rank, part in enumerate(parts))


def scatter():
    dist.scatter(tensor := torch.empty(3), [mine(rank) for rank in range(WORLD)] if RANK == 0 else None, src=0)
    assert same(tensor, RANK)


def all_to_all_single():
    dist.all_to_all_single(result := torch.empty(WORLD), torch.arange(WORLD) + 10.0 * RANK)
    assert torch.equal(result, 10.0 * torch.arange(WORLD) + RANK)


def reduce_scatter_tensor():
    dist.reduce_scatter_tensor(result := torch.empty(1), torch.arange(WORLD) + 0.0)
    assert same(result, WORLD * RANK)


def reduce_scatter():
    dist.reduce_scatter(result := torch.empty(3), [mine(part) for part in range(WORLD)])
    assert same(result, WORLD * RANK)


def all_to_all():
    parts = [torch.empty(3) for _ in range(WORLD)]
    dist.all_to_all(parts, [mine(10 * RANK + to) for to in range(WORLD)])
    assert all(same(part, 10 * rank + RANK) for rank, part in enumerate(parts))


def all_gather_into_tensor():
    dist.all_gather_into_tensor(result := torch.empty(3 * WORLD), mine())
    assert all(same(part, rank) for rank, part in enumerate(result.chunk(WORLD)))


def send_recv():
    tensor = torch.empty(3)
    if RANK % 2 == 0:
        dist.send(mine(), NEXT)
        dist.recv(tensor, LAST)
    else:
        dist.recv(tensor, LAST)
        dist.send(mine(), NEXT)
    assert same(tensor, LAST)


def isend_irecv():
    sent, received = dist.isend(mine(), NEXT), dist.irecv(tensor := torch.empty(3), LAST)
    sent.wait()
    received.wait()
    assert same(tensor, LAST)


def batch_isend_irecv():
    operations = [dist.P2POp(dist.isend, mine(), NEXT), dist.P2POp(dist.irecv, tensor := torch.empty(3), LAST)]
    for request in dist.batch_isend_irecv(operations):
        request.wait()
    assert same(tensor, LAST)


def barrier():
    for _ in range(3):
        dist.barrier()


def objects():
    dist.all_gather_object(gathered := [None] * WORLD, {"rank": RANK})
    assert gathered == [{"rank": rank} for rank in range(WORLD)]
    dist.broadcast_object_list(told := [("from", RANK)], src=1)
    assert told == [("from", 1)]
    dist.gather_object(RANK, all_ranks := [None] * WORLD if RANK == 0 else None)
    assert RANK != 0 or all_ranks == list(range(WORLD))
    dist.scatter_object_list(given := [None], [f"for {rank}" for rank in range(WORLD)] if RANK == 0 else None, src=0)
    assert given == [f"for {RANK}"]


def new_group():
    """Every rank makes all groups, in one order; only members use them."""
    lower, upper = range(WORLD // 2), range(WORLD // 2, WORLD)
    groups = [(members, dist.new_group(list(members), timeout=LIMIT)) for members in (lower, upper, range(WORLD))]
    for members, group in groups:
        if RANK in members:
            dist.all_reduce(tensor := mine(), group=group)
            assert same(tensor, sum(members))


def monitored_barrier():
    dist.monitored_barrier(timeout=LIMIT)
    # One rank stays away: rank 0 names it.
    if RANK == 0:
        try:
            dist.monitored_barrier(timeout=datetime.timedelta(seconds=1), wait_all_ranks=True)
        except RuntimeError as error:
            assert re.search(rf"\bRanks? (\d+, )*{WORLD - 1}\b", str(error)), error  # others may be late
        else:
            raise AssertionError("nobody was missed")
    elif RANK != WORLD - 1:
        try:
            dist.monitored_barrier(timeout=LIMIT)
        except RuntimeError:
            pass  # Rank 0 has given up; whether the others hear of it is PyTorch's affair.


def main():
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=RANK, world_size=WORLD, timeout=LIMIT)
    all_reduce()
    dist.barrier()  # Or Gloo's thread may still have a tensor, see training.py.
    dist.destroy_process_group()
    ok("file://")
    dist.init_process_group("gloo", timeout=LIMIT)
    assert (dist.get_rank(), dist.get_world_size()) == (RANK, WORLD)
    ok("env://")
    for name in sys.argv[2:]:
        globals()[name]()
        ok(name)


main()
