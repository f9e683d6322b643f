"""One rank of the backend `ddprun` is killed in an operation; the others name it, and go on without it. Where nobody catches
the error, Python ends as after any other.

This program starts its ranks itself and has their store, as a job does that outlives a rank.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import time

import torch
import torch.distributed as dist

import ddprun.torch
from saying import ok

RANKS, VICTIM = 4, 2
NEWS = 60.0  # seconds within which a death must be known; the waits without it would take half an hour


def survivor(rank, asynchronous):
    begun = time.monotonic()
    try:
        while True:
            work = dist.all_reduce(torch.ones(4), async_op=asynchronous)
            if asynchronous:
                work.wait()
    except dist.DistBackendError as error:
        assert error.ranks == [VICTIM], (error, error.ranks)
    assert time.monotonic() - begun < NEWS
    ok("a killed rank is named")
    group = dist.shrink_group([VICTIM])
    dist.all_reduce(total := torch.ones(2), group=group)
    assert total[0] == RANKS - 1 and dist.get_world_size(group) == RANKS - 1
    ok("shrink_group")
    dist.destroy_process_group()


def main_of(rank, ports):
    store = dist.TCPStore("127.0.0.1", ports.get(), is_master=False)
    dist.init_process_group("ddprun", store=store, rank=rank, world_size=RANKS)
    dist.barrier()
    if rank == VICTIM:
        os.kill(os.getpid(), signal.SIGKILL)
    survivor(rank, asynchronous=rank == 0)


def careless(rank, port):
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("ddprun", store=dist.PrefixStore("careless", store), rank=rank, world_size=2)
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    while True:
        dist.all_reduce(torch.ones(4))


def main():
    if len(sys.argv) > 1:
        return careless(int(sys.argv[1]), int(sys.argv[2]))
    ddprun.torch.extension()
    context = multiprocessing.get_context("fork")
    ports = context.SimpleQueue()
    ranks = [context.Process(target=main_of, args=(rank, ports), daemon=True) for rank in range(RANKS)]
    for process in ranks:
        process.start()
    # Its thread may hold a lock of the C library's at any time, which a process that is forked then waits for in vain.
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    pair = [subprocess.Popen([sys.executable, __file__, str(rank), str(store.port)]) for rank in range(2)]
    assert [process.wait() for process in pair] == [1, -signal.SIGKILL], [process.returncode for process in pair]
    for _ in ranks:
        ports.put(store.port)
    for process in ranks:
        process.join()
    sys.exit(0 if [process.exitcode for process in ranks] == [0, 0, -signal.SIGKILL, 0] else 1)


if __name__ == "__main__":
    main()
