"""spawn(): a function in several processes, as torch.multiprocessing.spawn, under ddprun.

The processes have the whole environment of ddprun's workers (RANK, WORLD_SIZE, MASTER_ADDR, …), end together, leave nothing
behind, and a failure is reported with the rank and the traceback of the first.
"""

import ctypes
import fcntl
import functools
import json
import multiprocessing.spawn
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from typing import Any, Callable, Optional, Sequence, Tuple

from .failures import Handle
from .jobs import JobFailed, environment_for, failure_of
from .places import program


def _picklable(fn: Callable[..., Any], args: Tuple[Any, ...]) -> bytes:
    """What a notebook defines has no file that another process could import: cloudpickle, if installed, takes it by value."""
    if not hasattr(sys.modules["__main__"], "__file__"):
        try:
            import cloudpickle  # type: ignore[import-not-found]
            return bytes(cloudpickle.dumps((fn, args)))
        except ImportError:
            if getattr(fn, "__module__", None) == "__main__":
                raise ValueError("fn, args: cannot be given to other processes, which import it; put it into a file, or install cloudpickle") from None
    try:
        return pickle.dumps((fn, args))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(f"fn, args: cannot be given to other processes: {error}") from None


_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def _end_with(caller: int) -> None:
    """ddprun is asked to stop when the thread that has started it ends, killed or not; as torch.multiprocessing's processes are."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != caller:
        os._exit(128 + signal.SIGTERM)


class Spawned(Handle):
    """The processes of spawn(…, join=False). Ends them when it is dropped before they have ended."""

    def __init__(self, fn: Callable[..., Any], args: Tuple[Any, ...], nprocs: int, options: Sequence[str]) -> None:
        preparation = multiprocessing.spawn.get_preparation_data("ddprun")
        del preparation["authkey"]
        payload = pickle.dumps((preparation, _picklable(fn, args)))
        self._folder = tempfile.TemporaryDirectory(prefix="ddprun-spawn-")
        # What clears old files out of /tmp leaves a locked folder alone (tmpfiles.d(5)); a restart reads it days later.
        self._held = os.open(self._folder.name, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self._held, fcntl.LOCK_SH)
        self._result = os.path.join(self._folder.name, "result.json")
        path = os.path.join(self._folder.name, "call")
        with open(path, "wb") as file:
            file.write(payload)
        worker = os.path.join(os.path.dirname(os.path.abspath(__file__)), "spawned.py")
        self.process = subprocess.Popen([program("ddprun"), "--nproc-per-node", str(nprocs), "--result-file", self._result, *options,
                                         "--run-path", worker, path], env=environment_for(None), preexec_fn=functools.partial(_end_with, os.getpid()))

    def join(self, timeout: Optional[float] = None) -> bool:
        """True when all have ended well, False if they go on after `timeout` seconds. Raises JobFailed."""
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        except KeyboardInterrupt:
            self.kill(signal.SIGINT)
            raise
        if code == 0:
            return True
        try:
            with open(self._result, encoding="utf-8") as file:
                result = json.load(file)
        except (OSError, ValueError):
            result = {}
        raise JobFailed(failure_of(result, code), code, result)

    def kill(self, number: int = signal.SIGTERM) -> None:
        """Ends them, and returns when they have ended."""
        if self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait()

    def __del__(self) -> None:
        if hasattr(self, "process"):
            self.kill()
        if hasattr(self, "_held"):
            os.close(self._held)


def spawn(fn: Callable[..., Any], args: Tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, *,
          options: Sequence[str] = ()) -> Optional[Spawned]:
    """Runs fn(i, *args) in `nprocs` processes, i = 0, 1, …: their rank.

    Returns when all have ended; raises JobFailed, with the traceback of the first that failed, when all others are ended too.
    With join=False returns a Spawned at once. `options` are more of ddprun's: ["--max-restarts", "2"]. As with
    torch.multiprocessing.spawn, fn is one that a module has at its top level, and a script calls spawn below
    `if __name__ == "__main__":`.
    """
    if not callable(fn):
        raise ValueError(f"fn: must be a function, not {type(fn).__name__}")
    if not isinstance(nprocs, int) or isinstance(nprocs, bool) or nprocs < 1:
        raise ValueError(f"nprocs: must be 1 or more, not {nprocs!r}")
    spawned = Spawned(fn, tuple(args), nprocs, options)
    if not join:
        return spawned
    spawned.join()
    return None
