"""Called by bench_torch.sh: NumPy arrays reduced by `ddprun.collectives` and by mpi4py on Open MPI, one line for each size.

Each is its launcher's own job, since one process cannot be both; the jobs alternate, so that what else the machine does falls on both.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

import numpy

KIB, MIB = 1024, 1024 * 1024
SIZES = {"8 B": (8, 2000), "1 MiB": (MIB, 60), "25 MiB": (25 * MIB, 6)}
LIMIT = 300  # seconds for a job; a hang guard


def timed(all_reduce, barrier):
    """The microseconds of each size, in the order of SIZES."""
    found = []
    for size, count in SIZES.values():
        array = numpy.zeros(size // 4, dtype=numpy.float32)
        for _ in range(3):
            all_reduce(array)
        barrier()
        begun = time.perf_counter()
        for _ in range(count):
            all_reduce(array)
        found.append((time.perf_counter() - begun) / count * 1e6)
    return found


def mpi4py_rank():
    from mpi4py import MPI  # pylint: disable=import-outside-toplevel
    world = MPI.COMM_WORLD
    return world.Get_rank(), timed(lambda array: world.Allreduce(MPI.IN_PLACE, array), world.Barrier)


def ddprun_rank():
    from ddprun.collectives import Communicator  # pylint: disable=import-outside-toplevel
    with Communicator.from_env() as comm:
        return comm.rank, timed(comm.all_reduce, comm.barrier)


def job(launcher, side):
    done = subprocess.run([*launcher, sys.executable, "-B", os.path.abspath(__file__), "--side", side], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True, timeout=LIMIT, check=True)
    return [float(word) for word in done.stdout.split()]


def main():
    parser = argparse.ArgumentParser(description="Columns: mpi4py on Open MPI, ddprun.collectives, how many times faster.")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--side", choices=("mpi4py", "ddprun"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        rank, found = mpi4py_rank() if arguments.side == "mpi4py" else ddprun_rank()
        if rank == 0:
            print(*found)
        return
    launchers = {"mpi4py": ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", str(arguments.ranks)],
                 "ddprun": ["build/bin/ddprun", "--nproc-per-node", str(arguments.ranks), "--no-python"]}
    times = [[job(launchers[side], side) for side in launchers] for _ in range(arguments.rounds)]
    for row, name in enumerate(SIZES):
        mpi, ours = (statistics.median(pair[side][row] for pair in times) for side in (0, 1))
        print(f"{'NumPy all_reduce ' + name:36} {arguments.ranks} ranks {mpi:8.1f} us of mpi4py {ours:8.1f} us {mpi / ours:7.2f} x", flush=True)


if __name__ == "__main__":
    main()
