"""Called by bench_torch.sh: the backend `ddprun` paired with Gloo in the same processes, one line for each row.

The pairs alternate, so that what else the machine does falls on both. Ranks start by fork, with one thread each for computing.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "apps", "python"))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing  # noqa: E402

import ddprun.torch  # noqa: E402

KIB, MIB = 1024, 1024 * 1024
ROUNDS = 7
BUSY = "import time\nend = time.monotonic() + 300\nwhile time.monotonic() < end: pass"
LAYERS = {"0.4 M": (256, 2, 512, 64), "25 M": (2048, 6, 2048, 24)}  # inputs, layers, width, batch


def floats(size):
    return torch.ones(size // 4)


def is_ours(group):
    return isinstance(group._get_backend(torch.device("cpu")), ddprun.torch.extension().Group)


def reducing(size, asynchronous=False, mapped=False):
    def make(group):
        tensor = ddprun.torch.mapped(size // 4, group=group) if mapped and is_ours(group) else torch.zeros(size // 4)

        def step():
            work = dist.all_reduce(tensor, group=group, async_op=asynchronous)
            if asynchronous:
                work.wait()
        return step
    return make


def coalesced(group):
    tensors = [torch.zeros(MIB // 4) for _ in range(20)]
    return lambda: dist.all_reduce_coalesced(tensors, group=group)


def gathering(lists):
    def make(group):
        tensor, ranks = floats(MIB), dist.get_world_size()
        if lists:
            parts = [torch.empty_like(tensor) for _ in range(ranks)]
            return lambda: dist.all_gather(parts, tensor, group=group)
        whole = torch.empty(ranks * tensor.numel())
        return lambda: dist.all_gather_into_tensor(whole, tensor, group=group)
    return make


def reduce_scatter(group):
    whole = floats(MIB * dist.get_world_size())
    part = floats(MIB)
    return lambda: dist.reduce_scatter_tensor(part, whole, group=group)


def broadcast(group):
    tensor = floats(MIB)
    return lambda: dist.broadcast(tensor, 0, group=group)


def all_to_all(group):
    whole = floats(MIB * dist.get_world_size())
    other = torch.empty_like(whole)
    return lambda: dist.all_to_all_single(other, whole, group=group)


def ping(group):
    tensor, rank = floats(8), dist.get_rank()

    def step():
        if rank == 0:
            dist.send(tensor, 1, group=group)
            dist.recv(tensor, 1, group=group)
        elif rank == 1:
            dist.recv(tensor, 0, group=group)
            dist.send(tensor, 0, group=group)
    return step


def objects(group):
    found = [None] * dist.get_world_size()
    return lambda: dist.all_gather_object(found, {"loss": 0.5, "step": 7}, group=group)


def new_group(group):
    backend = "ddprun" if is_ours(group) else "gloo"
    tensor = floats(8)

    def step():
        made = dist.new_group(backend=backend)
        dist.all_reduce(tensor, group=made)
        dist.destroy_process_group(made)
    return step


def training(size):
    def make(group):
        inputs, layers, width, batch = LAYERS[size]
        torch.manual_seed(1)
        sizes = [inputs] + [width] * layers
        model = torch.nn.Sequential(*[layer for a, b in zip(sizes, sizes[1:]) for layer in (torch.nn.Linear(a, b), torch.nn.ReLU())])
        parallel = torch.nn.parallel.DistributedDataParallel(model, process_group=group, gradient_as_bucket_view=True)
        optimizer = torch.optim.SGD(parallel.parameters(), lr=0.01)
        data = torch.randn(batch, inputs)

        def step():
            optimizer.zero_grad()
            parallel(data).sum().backward()
            optimizer.step()
        return step
    return make


# Name, what makes a step of a group, steps in a round, bar: how many times faster than Gloo.
ROWS = [
    ("all_reduce 8 B", reducing(8), 300, 15),
    ("all_reduce 8 B, async_op and wait", reducing(8, True), 300, 10),
    ("all_reduce 1 KiB", reducing(KIB), 100, 25),
    ("all_reduce 64 KiB", reducing(64 * KIB), 100, 25),
    ("all_reduce 1 MiB", reducing(MIB), 30, 8),
    ("all_reduce 25 MiB", reducing(25 * MIB), 5, 3.5),
    ("all_reduce 25 MiB, mapped", reducing(25 * MIB, mapped=True), 5, 4.3),
    ("all_reduce_coalesced 20 x 1 MiB", coalesced, 3, 5),
    ("barrier", lambda group: lambda: dist.barrier(group=group), 300, 15),
    ("all_gather_into_tensor 1 MiB", gathering(False), 30, 5),
    ("all_gather of lists 1 MiB", gathering(True), 30, 4),
    ("reduce_scatter_tensor 1 MiB", reduce_scatter, 20, 7),
    ("broadcast 1 MiB", broadcast, 30, 5),
    ("all_to_all_single 1 MiB", all_to_all, 20, 3),
    ("send + recv 8 B", ping, 200, 5),
    ("all_gather_object", objects, 50, 8),
    ("new_group + all_reduce + destroy", new_group, 5, 3),
    ("DDP step, MLP of 0.4 M", training("0.4 M"), 10, 1.9),
    ("DDP step, 25 M parameters", training("25 M"), 2, 1.5),
    ("DDP step, 25 M, CPUs loaded", training("25 M"), 2, 1),
]


def timed(step, count):
    dist.barrier()
    begun = time.perf_counter()
    for _ in range(count):
        step()
    return (time.perf_counter() - begun) / count * 1e6


def rank_main(rank, ranks, store, wanted, rounds):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    groups = [dist.group.WORLD, dist.new_group(backend="ddprun")]
    for name, make, count, bar in ROWS:
        if wanted and not any(word in name for word in wanted):
            continue
        others = os.cpu_count() if "loaded" in name and rank == 0 else 0
        load = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(others)]
        steps = [make(group) for group in groups]
        for step in steps * 3:
            step()
        times = [[timed(step, count) for step in steps] for _ in range(rounds)]
        for process in load:
            process.kill()
            process.wait()
        if rank == 0:
            gloo, ours = (statistics.median(column) for column in zip(*times))
            verdict = "ok" if gloo / ours >= bar else "below its bar" if gloo >= ours else "SLOWER"
            print(f"{name:36} {ranks} ranks {gloo:11.1f} us {ours:11.1f} us {gloo / ours:7.2f} x  bar {bar:5} x  {verdict}", flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description="The backend ddprun paired with Gloo; columns: Gloo, ddprun, how many times faster.")
    parser.add_argument("--ranks", type=int, action="append", help="how many; may be repeated (default: 2 and 4)")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("words", nargs="*", help="parts of the names of rows; none: all rows")
    arguments = parser.parse_args()
    ddprun.torch.extension()
    for ranks in arguments.ranks or [2, 4]:
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.start_processes(rank_main, args=(ranks, os.path.join(folder, "store"), arguments.words, arguments.rounds),
                                                  nprocs=ranks, start_method="fork")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
