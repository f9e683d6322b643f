"""What runs when a group ends by an error, from torch 2.15 on: the peers are told first, then torch's hooks run, whether abort() was
called, a peer was killed or one did not come.

This program starts its ranks itself.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

import ddprun.torch
from saying import ok

HOOK = 5.0  # seconds
TOLD = HOOK / 2
LATE = timedelta(seconds=6)  # what rank 0 waits for one that does not come


def main_of(rank, port, end, times):
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("ddprun", store=store, rank=rank, world_size=2, timeout=LATE if end == "time-out" else None)
    backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
    ran = threading.Event()

    def hook():
        if rank == 0 and end == "abort":
            threading.Event().wait(HOOK)  # as long as the flight recorder takes where a machine is loaded
        ran.set()
    backend.register_abort_hook(1, hook)
    dist.barrier()
    if rank == 1 and end == "death":
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 0 and end == "abort":
        times["abort"] = time.monotonic()
        backend.abort()
    elif rank == 0 or end == "abort":
        try:
            dist.all_reduce(torch.ones(1))
        except dist.DistBackendError:
            times["told"] = time.monotonic()
        else:
            raise AssertionError("nobody was told")
    assert ran.wait(60), "the hook did not run"
    times[f"ran {rank}"] = True


def job(end):
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with multiprocessing.Manager() as manager:
        times = manager.dict()
        ranks = [multiprocessing.Process(target=main_of, args=(rank, store.port, end, times)) for rank in range(2)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
        return dict(times)


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    if not hasattr(dist.ProcessGroup, "register_abort_hook"):
        print("skipped: this torch has no abort hooks")
        sys.exit(0)
    told = job("abort")
    assert told["told"] - told["abort"] < TOLD and told["ran 0"] and told["ran 1"], told
    print(f"told after {1000 * (told['told'] - told['abort']):.0f} ms")
    ok("abort() tells the peers first")
    assert job("death")["ran 0"]
    ok("a death runs the hooks")
    late = job("time-out")
    assert late["ran 0"] and late["ran 1"], late
    ok("a time-out runs the hooks")
