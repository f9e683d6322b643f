"""What the ranks of python_test.py do, by the words of the command line or by ddprun.spawn()."""

import array
import os
import re
import resource
import sys
import time

import numpy

from ddprun.collectives import CollectiveError, Communicator, _library


def refusals(comm):
    """Calls that are wrong, with the words of their ValueErrors."""
    ones = numpy.ones(4, "float32")
    return [
        ("data: .*elements one behind the other", lambda: comm.all_reduce(ones[::2])),
        ("data: elements of type 'Zf'", lambda: comm.all_reduce(numpy.zeros(2, "complex64"))),
        ("data: elements of type '>f'", lambda: comm.all_reduce(numpy.zeros(2, ">f4"))),
        ("data: must be an array that can be written", lambda: comm.all_reduce(b"bytes")),
        ("data: must be an array", lambda: comm.send([1, 2], 0)),
        ("root: must be a rank from 0 to 2, not 3", lambda: comm.broadcast(ones, root=3)),
        ("peer: must be a rank from 0 to 2, not -1", lambda: comm.recv(ones, -1)),
        ("op: must be one of 'sum', .*, not 'mean'", lambda: comm.all_reduce(ones, op="mean")),
        ("compression: must be one of None, 'f16', 'bf16'", lambda: comm.all_reduce(ones, compression="f8")),
        ("out: has 4 elements, must have 12", lambda: comm.all_gather(ones, ones.copy())),
        ("out: has 4 elements, must have data's 4 by 3", lambda: comm.reduce_scatter(ones, ones.copy())),
        ("out: must have elements of the same type", lambda: comm.all_reduce(ones, numpy.ones(4))),
        ("data: has 4 elements, which 3 ranks cannot share", lambda: comm.all_to_all(ones, ones.copy())),
        ("peer: must be a rank from 0 to 2, not 3", lambda: comm.send_tagged(ones, 3, 0)),
        ("tag: must be a whole number from 0 to .*, not -1", lambda: comm.start.send_tagged(ones, 0, -1)),
        ("tag: must be .*, not 18446744073709551616", lambda: comm.recv_tagged(ones, None, 1 << 64)),
        ("band is not defined for f32", lambda: comm.all_reduce(ones, op="band")),
        ("f64 cannot travel as bf16", lambda: comm.start.all_reduce(numpy.ones(4), compression="bf16")),
    ]


def operations(rank, types):
    with Communicator.from_env(operation_timeout=60) as comm:
        size = comm.world_size
        assert (comm.rank, comm.local_rank, comm.local_world_size) == (rank, rank, size)
        for name in types:
            data = numpy.arange(6, dtype=name) + rank
            total = sum(numpy.arange(6, dtype=name) + other for other in range(size))
            for form in (comm, comm.start):
                def done(work):
                    return work and work.wait()
                got = data.copy()
                done(form.all_reduce(got))
                assert (got == total).all(), (name, got)
                done(form.all_reduce(data, got, op="max"))
                assert (got == numpy.arange(6, dtype=name) + size - 1).all()
                if name.startswith("float"):
                    done(form.all_reduce(data, got, op="premul_sum", scalar=2))
                    assert (got == 2 * total).all()
                done(form.reduce(data, got, root=1))
                assert rank != 1 or (got == total).all()
                part = numpy.zeros(6 // size, name)
                done(form.reduce_scatter(data, part))
                assert (part == total[rank * 2:rank * 2 + 2]).all()
                done(form.scatter(data if rank == 0 else None, part))
                assert (part == numpy.arange(6, dtype=name)[rank * 2:rank * 2 + 2]).all()
                everything = numpy.zeros(6 * size, name)
                done(form.all_gather(data, everything))
                assert (everything.reshape(size, 6)[2] == numpy.arange(6, dtype=name) + 2).all()
                gathered = numpy.zeros(6 * size, name) if rank == 0 else None
                done(form.gather(data, gathered))
                assert rank != 0 or (gathered == everything).all()
                done(form.all_to_all(data, got))
                assert (got.reshape(size, 2)[2] == data.reshape(size, 2)[rank] - rank + 2).all()
                got = data.copy()
                done(form.broadcast(got, root=2))
                assert (got == numpy.arange(6, dtype=name) + 2).all()
                if rank == 0:
                    done(form.send(data, 1))
                elif rank == 1:
                    done(form.recv(got, 0))
                    assert (got == numpy.arange(6, dtype=name)).all()
                done(form.barrier())
        plain = array.array("d", [rank, 1])
        comm.all_reduce(plain)
        assert list(plain) == [3, 3], plain
        assert comm.all_gather_object({"rank": rank, "pad": "x" * rank * 100})[2] == {"rank": 2, "pad": "x" * 200}
        assert comm.broadcast_object("from 1" if rank == 1 else None, root=1) == "from 1"
        mapped = numpy.frombuffer(comm.allocate(4000), "float32")
        mapped[:] = 1
        comm.all_reduce(mapped)
        assert (mapped == size).all()
        for words, call in refusals(comm):
            try:
                call()
            except ValueError as error:
                assert re.search(words, str(error)), (words, str(error))
            else:
                raise AssertionError(f"not refused: {words}")
        part = comm.split(rank % 2)
        comm.barrier()
        assert part.world_size == (2, 1)[rank % 2]
        assert comm.split(-1) is None
        part.close()
        tensors(comm)
        messages(comm)


def tensors(comm):
    try:
        import torch
    except ImportError:
        return
    tensor = torch.ones(5, requires_grad=True)
    comm.all_reduce(tensor)
    assert tensor.tolist() == [3] * 5
    half = torch.ones(2, 3, dtype=torch.bfloat16)
    comm.all_reduce(half, op="avg")
    assert half.tolist() == [[1] * 3] * 2
    for wrong in (torch.ones(4, 4)[:, 1], torch.ones(2, device="meta")):
        try:
            comm.all_reduce(wrong)
        except ValueError as error:
            assert str(error).startswith("data: "), error
        else:
            raise AssertionError("not refused")


def survivors():
    """Rank 1 dies; the others name it, and go on without it."""
    comm = Communicator.from_env()
    data = numpy.ones(8)
    comm.all_reduce(data)
    if comm.rank == 1:
        os._exit(0)
    try:
        comm.all_reduce(data)
    except CollectiveError as error:
        assert (error.code, error.ranks) == ("peer_died", (1,)), (error.code, error.ranks)
        rest = comm.shrink(error.ranks)
    else:
        raise AssertionError("nobody noticed")
    data[:] = 1
    rest.all_reduce(data)
    assert data[0] == rest.world_size == 2
    print("went on")


def messages(comm):
    """By tag, from any rank, in another order than they were sent; of a subgroup that its members make."""
    rank, size = comm.rank, comm.world_size
    works = [comm.start.send_tagged(numpy.full(1000, 10 * rank + tag), (rank + 1) % size, tag) for tag in (1, 2)]
    got = numpy.zeros(1000, "int64")
    comm.recv_tagged(got, None, 2)
    left = (rank - 1) % size
    assert (got == 10 * left + 2).all()
    work = comm.start.recv_tagged(got, left, 1)
    work.wait()
    assert (got == 10 * left + 1).all() and work.source == left
    for each in works:
        each.wait()
    try:
        comm.recv_tagged(got, left, 3, timeout=0.05)
    except CollectiveError as error:
        assert error.code == "timed_out", error
    else:
        raise AssertionError("a message came that nobody has sent")
    comm.barrier()  # it ended that call only, and nobody leaves before
    if rank != 1:
        with comm.subgroup([size - 1, 0], "ends") as ends:
            assert (ends.rank, ends.world_size) == (int(rank == 0), 2)
            data = numpy.full(3, float(rank))
            ends.all_reduce(data)
            assert (data == size - 1).all()


def dropped():
    """What rank 0 starts and drops goes on; what nobody answers does not hold its end."""
    comm = Communicator.from_env()
    if comm.rank == 0:
        begin = time.monotonic()
        comm.start.send_tagged(numpy.full(1 << 20, 7.0), 1, 1)
        comm.start.recv_tagged(numpy.zeros(1 << 20), 1, 2)
        assert time.monotonic() - begin < 60
        comm.barrier()
        print("dropped", flush=True)
        comm.barrier()
        return
    comm.barrier()
    got = numpy.zeros(1 << 20)
    comm.recv_tagged(got, 0, 1)
    assert (got == 7).all()
    print("got what was dropped", flush=True)
    comm.barrier()


def truths(rank):
    with Communicator.from_env(operation_timeout=60) as comm:
        for op, expected in (("sum", [1, 1, 0]), ("max", [1, 1, 0]), ("bor", [1, 1, 0]), ("prod", [1, 0, 0]), ("min", [1, 0, 0]),
                             ("band", [1, 0, 0]), ("bxor", [0, 1, 0])):
            data = numpy.array([True, rank == 0, False])
            comm.all_reduce(data, op=op)
            assert data.view("uint8").tolist() == expected, (op, data.view("uint8"))
        for words, call in (("op: avg has no meaning for truth values", lambda: comm.all_reduce(numpy.ones(2, bool), op="avg")),
                            ("out: must have elements of the same type", lambda: comm.all_reduce(numpy.ones(2, "uint8"), numpy.ones(2, bool))),
                            ("join_timeout: must be a number of seconds, not True",
                             lambda: Communicator.connect("file:///none", 0, 1, join_timeout=True))):
            try:
                call()
            except ValueError as error:
                assert words in str(error), error
            else:
                raise AssertionError(f"not refused: {words}")


def pools(limited):
    """One rank may have few addresses: then all ranks share memory nevertheless, and nobody has a pool."""
    rank = int(os.environ["RANK"])
    if str(rank) == limited:
        with open("/proc/self/statm", encoding="ascii") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (512 << 20),) * 2)
    with Communicator.from_env(operation_timeout=60) as comm:
        with open("/proc/self/maps", encoding="ascii") as file:
            assert "memfd:ddprun-collectives" in file.read()
        data = numpy.frombuffer(comm.allocate((rank + 1) << 20), "float32")
        assert _library().ddprun_owns(comm._handle, data.ctypes.data) == (limited == "none")
        data[:] = 1
        comm.all_reduce(data[:200_000])
        assert (data[:200_000] == comm.world_size).all()
    print("reduced")


def late(path):
    """The numbers that ddprun has given, said by the program: rank 1 does not come to the second barrier."""
    rank = int(os.environ["RANK"])
    with Communicator.connect(f"file://{path}", rank, int(os.environ["WORLD_SIZE"]), operation_timeout=5) as comm:
        comm.barrier()
        if rank == 1:
            waits(rank)
        comm.barrier()


def waits(_):
    print("ready", flush=True)
    while True: time.sleep(1)  # until the event that is tried


def fails(rank, which):
    if rank == which:
        raise KeyError("rank's own words")
    with Communicator.from_env() as comm:
        comm.barrier()


if __name__ == "__main__" and sys.argv[1:]:
    globals()[sys.argv[1]](*sys.argv[2:])
