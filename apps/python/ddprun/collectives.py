"""The collectives for NumPy arrays, PyTorch tensors on the CPU, and whatever has the buffer protocol or `__dlpack__`.

    from ddprun.collectives import Communicator

    with Communicator.from_env() as comm:          # under ddprun, torchrun, mpirun or srun
        comm.all_reduce(gradients, op="avg")       # in place
        work = comm.start.all_reduce(gradients)    # goes on beside the caller
        work.wait()

All ranks call the same operations in the same order. A rank that dies, leaves or does not come becomes a CollectiveError that
names it, on every rank. Arrays are used where they lie, so they must be contiguous; counts and types are the same on all ranks.
Results are bitwise equal on all ranks. A wrong argument is a ValueError that names it, and nothing was sent.
"""

import atexit
import ctypes
import functools
import operator
import pickle
import queue
import sys
import threading
import warnings
from typing import Any, Dict, Generic, List, Optional, Sequence, Tuple, TypeVar

from . import abi
from .failures import Failure, Handle
from .memory import Memory

__all__ = ["CollectiveError", "Communicator", "Work"]

_INVALID_ARGUMENT = 1
_OPS = ("sum", "prod", "min", "max", "avg", "premul_sum", "band", "bor", "bxor")
# A truth value stays one, as with PyTorch.
_OPS_OF_TRUTH = {"sum": "bor", "max": "bor", "bor": "bor", "prod": "band", "min": "band", "band": "band", "bxor": "bxor"}
_COMPRESSIONS = (None, "f16", "bf16")
_BACKENDS = (None, "cpu", "nccl")
_OPERATIONS = {"all_reduce": 1, "broadcast": 2, "all_gather": 3, "reduce_scatter": 4, "barrier": 5, "send": 6, "recv": 7,
               "reduce": 9, "gather": 10, "scatter": 11, "all_to_all": 12}
_REQUEST_SIZE = ctypes.sizeof(abi.Request)
Result = TypeVar("Result")


@functools.lru_cache(maxsize=None)
def _library() -> Any:
    return abi.load()


class CollectiveError(Failure):
    """The communicator has ended. `code` is "timed_out", "peer_died", "peer_left", "aborted", "mismatch" or "system"; `ranks` are
    those that the error is about."""

    def __init__(self, text: str, code: str, ranks: Tuple[int, ...]) -> None:
        super().__init__(text)
        self.code = code
        self.ranks = ranks


def _check(code: int) -> None:
    """Raises what the library says of this thread's latest call."""
    if code == 0:
        return
    library = _library()
    text = library.ddprun_last_error().decode(errors="replace")
    if code == _INVALID_ARGUMENT:
        raise ValueError(text)
    ranks = (ctypes.c_int * library.ddprun_last_error_culprits(None, 0))()
    library.ddprun_last_error_culprits(ranks, len(ranks))
    raise CollectiveError(text, library.ddprun_code_name(code).decode(), tuple(ranks))


def _one_of(name: str, value: Any, choices: Sequence[Any]) -> int:
    try:
        return choices.index(value)
    except ValueError:
        raise ValueError(f"{name}: must be one of {', '.join(repr(choice) for choice in choices)}, not {value!r}") from None


def _made(function: Any, *arguments: Any) -> Optional[int]:
    """The handle that a function of the library makes."""
    handle = ctypes.c_void_p()
    _check(function(*arguments, ctypes.byref(handle)))
    return handle.value


class Work(Handle):
    """An operation that goes on beside the caller. Its arrays stay until it has ended, also if this is dropped before; do not touch
    them before the end."""

    def __init__(self, handle: Optional[int], kept: Any) -> None:
        self._handle, self._kept = handle, kept

    def wait(self) -> None:
        """Returns when it has ended; raises CollectiveError if it has failed. Any thread."""
        _check(_library().ddprun_work_wait(self._handle))

    @property
    def source(self) -> int:
        """The rank that sent what a recv_tagged() has received."""
        return int(_library().ddprun_work_source(self._handle))

    def done(self) -> bool:
        """Whether it has ended, well or not. Any thread."""
        return bool(_library().ddprun_work_test(self._handle) == 1)

    def __del__(self) -> None:
        if not self._handle:
            return
        if self.done():
            _library().ddprun_work_release(self._handle)
        else:
            _dropped.take(self._handle, self._kept)


class _Dropped:
    """Works that nobody has any more before their end: releasing one stops nothing, so a thread waits for the end of each."""

    def __init__(self) -> None:
        self._works: "queue.SimpleQueue[Tuple[int, Any]]" = queue.SimpleQueue()
        self._begun = False
        self._comms: Dict[int, Communicator] = {}
        atexit.register(self._leave)

    def take(self, handle: int, kept: Any) -> None:
        # The library may write there until the process is gone, even when Python has ended.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
        if sys.is_finalizing():
            return
        self._comms[handle] = kept[0]
        self._works.put((handle, kept))
        if not self._begun:
            self._begun = True
            threading.Thread(target=self._wait, name="ddprun-dropped-works", daemon=True).start()
            warnings.warn("a Work was dropped before its end; it goes on, and keeps its arrays until then", RuntimeWarning, stacklevel=3)

    def _wait(self) -> None:
        while True:
            handle, kept = self._works.get()
            library = _library()
            library.ddprun_work_wait(handle)
            library.ddprun_work_release(handle)
            self._comms.pop(handle, None)
            ctypes.pythonapi.Py_DecRef(ctypes.py_object(kept))
            del kept

    def _leave(self) -> None:
        """As Python ends: what has not ended does not hold the process."""
        for comm in list(self._comms.values()):
            comm.close()


_dropped = _Dropped()


class _Operations(Generic[Result]):
    """The operations, in the form that waits and in the one that returns a Work. `data` is what a rank gives, `out` what it gets."""

    _size: int
    _rank: int

    def _submit(self, request: abi.Request, kept: Tuple[Optional[Memory], ...]) -> Result:
        raise NotImplementedError

    def _run(self, name: str, given: Optional[Memory], got: Optional[Memory], count: int = 0, *, peer: int = -1, op: int = 0,
             scalar: float = 0, compression: int = 0) -> Result:
        memory = given or got
        return self._submit(abi.Request(_REQUEST_SIZE, _OPERATIONS[name], memory.type if memory else 0, op, peer, given and given.address,
                                        got and got.address, count, scalar, None, compression), (given, got))

    def all_reduce(self, data: Any, out: Any = None, *, op: str = "sum", scalar: float = 0, compression: Optional[str] = None) -> Result:
        """Combines the ranks' data, for all of them; in place without `out`. `scalar` is for op="premul_sum". With
        compression="f16" or "bf16", float32 travels between hosts in half the bytes."""
        given, got = self._pair(data, out)
        self._alike(given, got, 1, 1)
        return self._run("all_reduce", given, got, given.count, op=self._op(op, given), scalar=scalar,
                         compression=_one_of("compression", compression, _COMPRESSIONS))

    def reduce(self, data: Any, out: Any = None, *, root: int = 0, op: str = "sum", scalar: float = 0) -> Result:
        """The same for `root` alone; the others' `out` is left as it is."""
        given, got = self._pair(data, out)
        self._alike(given, got, 1, 1)
        return self._run("reduce", given, got, given.count, op=self._op(op, given), scalar=scalar, peer=self._peer("root", root))

    def reduce_scatter(self, data: Any, out: Any, *, op: str = "sum", scalar: float = 0) -> Result:
        """Combines the ranks' data; rank r gets the r-th of as many equal parts as there are ranks."""
        given, got = Memory(data, "data", False), Memory(out, "out", True)
        self._alike(given, got, 1, self._size)
        return self._run("reduce_scatter", given, got, got.count, op=self._op(op, given), scalar=scalar)

    def broadcast(self, data: Any, *, root: int = 0) -> Result:
        """The data of `root`, for all."""
        memory = Memory(data, "data", self._rank != root)
        return self._run("broadcast", None, memory, memory.count, peer=self._peer("root", root))

    def all_gather(self, data: Any, out: Any) -> Result:
        """The ranks' data one behind the other, for all."""
        given, got = Memory(data, "data", False), Memory(out, "out", True)
        self._alike(given, got, self._size, 1)
        return self._run("all_gather", given, got, given.count)

    def gather(self, data: Any, out: Any = None, *, root: int = 0) -> Result:
        """The same for `root` alone; the others need no `out`."""
        given = Memory(data, "data", False)
        got = self._at_root("out", out, root, True)
        if got:
            self._alike(given, got, self._size, 1)
        return self._run("gather", given, got, given.count, peer=self._peer("root", root))

    def scatter(self, data: Any, out: Any, *, root: int = 0) -> Result:
        """Rank r gets the r-th part of the data of `root`; the others' `data` may be None."""
        got = Memory(out, "out", True)
        given = self._at_root("data", data, root, False)
        if given:
            self._alike(given, got, 1, self._size)
        return self._run("scatter", given, got, got.count, peer=self._peer("root", root))

    def all_to_all(self, data: Any, out: Any) -> Result:
        """Rank s gets the s-th part of each rank's data, in the order of the ranks."""
        given, got = Memory(data, "data", False), Memory(out, "out", True)
        self._alike(given, got, 1, 1)
        if given.count % self._size:
            raise ValueError(f"data: has {given.count} elements, which {self._size} ranks cannot share in equal parts")
        return self._run("all_to_all", given, got, given.count // self._size)

    def barrier(self) -> Result:
        """Nobody goes on before all have come."""
        return self._run("barrier", None, None)

    def send(self, data: Any, peer: int) -> Result:
        """To the rank `peer`, which receives as many elements of this type."""
        memory = Memory(data, "data", False)
        return self._run("send", memory, None, memory.count, peer=self._peer("peer", peer))

    def recv(self, out: Any, peer: int) -> Result:
        """What the rank `peer` sends."""
        memory = Memory(out, "out", True)
        return self._run("recv", None, memory, memory.count, peer=self._peer("peer", peer))

    def send_tagged(self, data: Any, peer: int, tag: int, *, timeout: float = -1) -> Result:
        """A message to the rank `peer`, beside the order of all else: for its recv_tagged() of this tag, 0 to 2**64 - 1, and as many
        bytes. `timeout` in seconds, for this message alone; below 0 the operation_timeout."""
        return self._message("send", Memory(data, "data", False), self._peer("peer", peer), tag, timeout)

    def recv_tagged(self, out: Any, peer: Optional[int], tag: int, *, timeout: float = -1) -> Result:
        """The next message with this tag from the rank `peer`, or with None from any; a Work's `source` says from which."""
        return self._message("recv", Memory(out, "out", True), -1 if peer is None else self._peer("peer", peer), tag, timeout)

    def _message(self, way: str, memory: Memory, peer: int, tag: int, timeout: float) -> Result:
        raise NotImplementedError

    @staticmethod
    def _pair(data: Any, out: Any) -> Tuple[Memory, Memory]:
        given = Memory(data, "data", out is None)
        return given, given if out is None else Memory(out, "out", True)

    @staticmethod
    def _alike(given: Memory, got: Memory, times_given: int, times_got: int) -> None:
        if (given.type, given.truth) != (got.type, got.truth):
            raise ValueError("out: must have elements of the same type as data")
        if given.count * times_given != got.count * times_got:
            wanted = given.count * times_given if times_got == 1 else f"data's {given.count} by {times_got}"
            raise ValueError(f"out: has {got.count} elements, must have {wanted}")

    @staticmethod
    def _op(op: str, given: Memory) -> int:
        if given.truth and op in _OPS:
            if op not in _OPS_OF_TRUTH:
                raise ValueError(f"op: {op} has no meaning for truth values")
            op = _OPS_OF_TRUTH[op]
        return _one_of("op", op, _OPS)

    def _peer(self, name: str, rank: int) -> int:
        if not hasattr(rank, "__index__") or not 0 <= operator.index(rank) < self._size:
            raise ValueError(f"{name}: must be a rank from 0 to {self._size - 1}, not {rank!r}")
        return operator.index(rank)

    def _at_root(self, name: str, data: Any, root: int, writable: bool) -> Optional[Memory]:
        if self._rank != root:
            return None
        if data is None:
            raise ValueError(f"{name}: is None on the root, rank {root}")
        return Memory(data, name, writable)


class _Started(_Operations[Work]):
    def __init__(self, comm: "Communicator") -> None:
        self._comm, self._size, self._rank = comm, comm.world_size, comm.rank

    def _submit(self, request: abi.Request, kept: Tuple[Optional[Memory], ...]) -> Work:
        return Work(_made(_library().ddprun_start, self._comm._checked(), request), (self._comm, *kept))

    def _message(self, way: str, memory: Memory, peer: int, tag: int, timeout: float) -> Work:
        if not hasattr(tag, "__index__") or not 0 <= operator.index(tag) < 1 << 64:
            raise ValueError(f"tag: must be a whole number from 0 to 2**64 - 1, not {tag!r}")
        return Work(_made(getattr(_library(), f"ddprun_start_{way}_tagged"), self._comm._checked(), memory.address,
                          memory.count * memory.bytes_each, peer, tag, int(timeout * 1000)), (self._comm, memory))


class Communicator(Handle, _Operations[None]):
    """The ranks that run collectives together, seen from one of them. Made by from_env() or connect()."""

    def __init__(self, handle: Optional[int]) -> None:
        library = _library()
        self._handle = handle
        self.rank = self._rank = library.ddprun_rank(handle)
        self.world_size = self._size = library.ddprun_world_size(handle)
        self.local_rank = library.ddprun_local_rank(handle)
        self.local_world_size = library.ddprun_local_world_size(handle)

    @property
    def start(self) -> _Operations[Work]:
        """The same operations in the form that returns a Work at once, while they go on beside the caller."""
        return _Started(self)

    @classmethod
    def from_env(cls, **options: Any) -> "Communicator":
        """As the environment says: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT; alone where there is none.

        Options, in seconds: operation_timeout (300), join_timeout (300), leave_timeout (10), notice_after (never); backend "cpu"
        or "nccl".
        """
        return cls(_made(_library().ddprun_from_env, _options(options)))

    @classmethod
    def connect(cls, url: str, rank: int, world_size: int, **options: Any) -> "Communicator":
        """By `tcp://HOST:PORT` or `file://PATH`. Options as in from_env()."""
        return cls(_made(_library().ddprun_connect, url.encode(), rank, world_size, _options(options)))

    def split(self, color: int, key: int = 0) -> Optional["Communicator"]:
        """One communicator for each color, its ranks in the order of their keys; None for a negative color. All ranks call it."""
        handle = _made(_library().ddprun_split, self._checked(), color, key)
        return None if handle is None else Communicator(handle)

    def subgroup(self, ranks: Sequence[int], name: str, **options: Any) -> "Communicator":
        """One of these ranks alone, in this order, who call it with the same name, not in use by another. Options as in from_env();
        without any, this one's."""
        numbers = (ctypes.c_int * len(ranks))(*ranks)
        return Communicator(_made(_library().ddprun_subgroup, self._checked(), numbers, len(ranks), name.encode(),
                                  _options(options) if options else None))

    def shrink(self, excluded: Sequence[int] = ()) -> "Communicator":
        """Those that are not excluded, to go on after a failure: comm.shrink(error.ranks). This one stays, to be closed."""
        ranks = (ctypes.c_int * len(excluded))(*excluded)
        return Communicator(_made(_library().ddprun_shrink, self._checked(), ranks, len(ranks)))

    def allocate(self, size: int) -> Any:
        """Bytes that operations use without copying them first, in memory that all ranks of a host map. Nobody else takes part in
        that. numpy.frombuffer(comm.allocate(4000), "float32") is an array of them."""
        if size < 0:
            raise ValueError(f"size: must be 0 or more, not {size}")
        library = _library()
        handle = _made(library.ddprun_allocate, self._checked(), size)
        memory: Any = (ctypes.c_ubyte * size).from_address(library.ddprun_buffer_data(handle) or 0)
        memory._owner = _Owner(handle)
        return memory

    def broadcast_object(self, value: Any = None, root: int = 0) -> Any:
        """The root's value, pickled, for all; the others give none."""
        data = bytearray(pickle.dumps(value)) if self.rank == root else bytearray()
        size = memoryview(bytearray(8)).cast("q")
        size[0] = len(data)
        self.broadcast(size, root=root)
        data = data or bytearray(size[0])
        self.broadcast(data, root=root)
        return pickle.loads(data)

    def all_gather_object(self, value: Any) -> List[Any]:
        """The ranks' values, pickled, in their order, for all."""
        data = pickle.dumps(value)
        sizes = memoryview(bytearray(8 * self.world_size)).cast("q")
        self.all_gather(memoryview(len(data).to_bytes(8, sys.byteorder)).cast("q"), sizes)
        most = max(sizes)
        everything = bytearray(most * self.world_size)
        self.all_gather(data.ljust(most, b"\0"), everything)
        return [pickle.loads(memoryview(everything)[most * rank:][:size]) for rank, size in enumerate(sizes)]

    def check(self) -> None:
        """Raises what the communicator has ended with; never blocks, any thread."""
        _check(_library().ddprun_status(self._checked()))

    def abort(self, reason: str = "") -> None:
        """Ends it on all ranks at once, with a CollectiveError; any thread."""
        _check(_library().ddprun_abort(self._checked(), reason.encode()))

    def finalize(self, timeout: float = -1) -> None:
        """Leaves in order, and waits until all others do."""
        _check(_library().ddprun_finalize(self._checked(), int(timeout * 1000)))

    def close(self) -> None:
        """Leaves in order, without waiting for the others. A `with` block does this, and so does dropping the object."""
        handle, self._handle = self._handle, None
        if handle:
            _library().ddprun_destroy(handle)

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_handle"):
            self.close()

    def __repr__(self) -> str:
        return f"<Communicator: rank {self.rank} of {self.world_size}{'' if self._handle else ', closed'}>"

    def _checked(self) -> int:
        if self._handle is None:
            raise ValueError("the communicator is closed")
        return self._handle

    def _submit(self, request: abi.Request, kept: Tuple[Optional[Memory], ...]) -> None:
        _check(_library().ddprun_run(self._checked(), request))

    def _message(self, way: str, memory: Memory, peer: int, tag: int, timeout: float) -> None:
        self.start._message(way, memory, peer, tag, timeout).wait()


class _Owner:
    """Releases a buffer of allocate() when the last array over it is gone."""

    def __init__(self, handle: Optional[int]) -> None:
        self._handle = handle

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(None), ()  # a copy of the bytes has its own

    def __del__(self) -> None:
        _library().ddprun_buffer_release(self._handle)


def _options(given: Dict[str, Any]) -> Any:
    options = abi.Options(size=ctypes.sizeof(abi.Options), backend=_one_of("backend", given.pop("backend", None), _BACKENDS), device=-1)
    for name, seconds in given.items():
        if not hasattr(options, f"{name}_ms"):
            raise TypeError(f"there is no option {name!r}")
        if isinstance(seconds, bool):
            raise ValueError(f"{name}: must be a number of seconds, not {seconds!r}")
        setattr(options, f"{name}_ms", int(float(seconds) * 1000))
    return ctypes.byref(options)
