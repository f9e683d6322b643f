"""RPC, parameter-server style: rank 0 keeps the parameters, the others fetch them and send gradients."""

import os
import threading

import torch
import torch.distributed.rpc as rpc

from saying import ok

STEPS = 5


class Server:
    def __init__(self):
        self.lock = threading.Lock()
        self.parameters = torch.zeros(4)

    def fetch(self):
        return self.parameters.clone()

    def push(self, gradient):
        with self.lock:
            self.parameters -= gradient


SERVER = Server()


def fetch():
    return SERVER.fetch()


def push(gradient):
    SERVER.push(gradient)


def main():
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world)
    if rank != 0:
        for _ in range(STEPS):
            rpc.rpc_sync("worker0", fetch)
            rpc.rpc_async("worker0", push, args=(torch.full((4,), -float(rank)),)).wait()
        remote = rpc.remote("worker0", torch.add, args=(torch.ones(2), float(rank)))
        assert torch.equal(remote.to_here(), torch.full((2,), 1.0 + rank))
        del remote
    rpc.shutdown()  # waits for all
    if rank == 0:
        assert torch.equal(SERVER.parameters, torch.full((4,), float(STEPS * sum(range(world)))))
    ok("RPC parameter server")


main()
