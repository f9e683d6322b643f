#!/usr/bin/python3
"""Holds ddprun's DistributedSampler against PyTorch's own, index by index.

Usage: sampler_vs_pytorch_test.py SAMPLER_PROGRAM   (ends with 77, "skipped", where PyTorch is not installed)
"""
import itertools
import subprocess
import sys

try:
    import torch.utils.data.distributed
except ImportError as error:
    print(f"skipped: PyTorch cannot be imported by {sys.executable}: {error}")
    sys.exit(77)

SIZES = (1, 2, 3, 7, 10, 64, 625, 1438, 1797)
REPLICAS = (1, 2, 3, 4, 8, 16)
SEEDS_AND_EPOCHS = ((0, 0), (0, 1), (7, 3), (42, 0), (41, 1), (2**32 - 1, 1), (123456789012, 5))
LARGE = ((200000, 3, 1, 2, 1, 0),)


def cases():
    for size, replicas, (seed, epoch) in itertools.product(SIZES, REPLICAS, SEEDS_AND_EPOCHS):
        for shuffle, drop_last in itertools.product((0, 1), (0, 1)):
            yield size, replicas, seed, epoch, shuffle, drop_last
    yield from LARGE


def expected(case, rank):
    size, replicas, seed, epoch, shuffle, drop_last = case
    sampler = torch.utils.data.distributed.DistributedSampler(
        range(size), num_replicas=replicas, rank=rank, shuffle=bool(shuffle), seed=seed, drop_last=bool(drop_last))
    sampler.set_epoch(epoch)
    return list(sampler)


def main():
    table = list(cases())
    text = "".join(" ".join(map(str, case)) + "\n" for case in table)
    result = subprocess.run([sys.argv[1]], input=text, capture_output=True, text=True, timeout=120, check=True)
    lines = iter(result.stdout.splitlines())
    compared = 0
    for case in table:
        for rank in range(case[1]):
            ours = [int(field) for field in next(lines).split()]
            theirs = expected(case, rank)
            if ours != theirs:
                print("size replicas seed epoch shuffle drop_last =", *case, "rank", rank)
                print("  ours   ", ours[:20], f"({len(ours)})")
                print("  PyTorch", theirs[:20], f"({len(theirs)})")
                return 1
            compared += 1
    if next(lines, None) is not None:
        print("sampler_program printed more lines than asked for")
        return 1
    print(f"{compared} lists of {len(table)} samplers equal those of PyTorch {torch.__version__}")
    return 0


sys.exit(main())
