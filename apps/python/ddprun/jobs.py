"""Jobs that go on without this process: a notebook starts one, looks at it, and ends it."""

import json
import os
import signal
import subprocess
import sys
from typing import Any, Dict, Mapping, Optional, Sequence, Union

from .failures import Failure
from .places import program


class JobFailed(Failure):
    """A job has ended with another code than 0, or has never begun; the text is its report.

    `exit_code` is the launcher's. `result` has everything that is known, as `ddprun --result-file` writes it; empty if the
    job has never begun.
    """

    def __init__(self, text: str, exit_code: int, result: Optional[Dict[str, Any]] = None) -> None:
        super().__init__(text)
        self.exit_code = exit_code
        self.result = result or {}


def environment_for(given: Optional[Mapping[str, str]]) -> Dict[str, str]:
    """What a launcher gets: the same Python runs its workers as runs this process."""
    return {"PYTHON_EXEC": sys.executable, **(os.environ if given is None else given)}


def failure_of(result: Dict[str, Any], exit_code: int) -> str:
    """The report's first sentence, and the traceback where a worker has left one."""
    first = result.get("first_failure")
    if not first:
        return result.get("message") or f"the job ended with code {exit_code}"
    said = first["traceback"] or first["error_message"] or "\n".join(first["last_lines"])
    return result["sentence"] + (":\n" + said if said else "")


class Job:
    """A job on this node, by its id; `launch` makes one, and so may Job("…") with an id that `ddpctl list` shows.

    The job outlives this object and this process. Any thread may call; each call is one of the program `ddpctl`.
    """

    def __init__(self, id: str) -> None:
        self.id = id

    def __repr__(self) -> str:
        return f"Job({self.id!r})"

    def _ask(self, *words: str, timeout: Optional[float] = None) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([program("ddpctl"), *words, self.id], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, errors="replace", timeout=timeout, check=False)

    def _told(self, *words: str) -> str:
        done = self._ask(*words)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip() or f"ddpctl {words[0]} ended with code {done.returncode}")
        return done.stdout

    def status(self) -> Dict[str, Any]:
        """What `ddpctl status --json` shows: `state` is "running", "suspended", "ended" or "lost"."""
        status: Dict[str, Any] = json.loads(self._told("status", "--json"))
        return status

    def logs(self, tail: Optional[int] = None) -> str:
        """What it has printed, stdout and stderr in one; only the last `tail` lines of it."""
        if isinstance(tail, bool):
            raise ValueError(f"tail: must be a number of lines, not {tail!r}")
        return self._told("logs", *([] if tail is None else ["--tail", str(tail)]))

    def wait(self, timeout: Optional[float] = None, check: bool = False) -> int:
        """Returns the job's exit code when it has ended. With `check`, raises JobFailed for any but 0.

        Raises TimeoutError after `timeout` seconds; the job goes on then, as after Ctrl-C.
        """
        try:
            done = self._ask("attach", timeout=timeout)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"job {self.id} has not ended within {timeout} s") from None
        status = self.status()
        if status["exit_code"] is None:
            raise JobFailed(done.stderr.strip() or f"job {self.id} is {status['state']}", done.returncode)
        code = int(status["exit_code"])
        if check and code != 0:
            raise JobFailed(failure_of(status["result"] or {}, code), code, status["result"])
        return code

    def kill(self, signal_name: Union[str, signal.Signals] = "TERM", wait: bool = True) -> None:
        """Sends its launcher a signal, and returns when the job has ended; at once without `wait`."""
        name = signal_name.name if isinstance(signal_name, signal.Signals) else signal_name
        self._told("kill", "--signal", name, *([] if wait else ["--no-wait"]))


def launch(words: Sequence[Union[str, "os.PathLike[str]"]], *, env: Optional[Mapping[str, str]] = None,
           cwd: Union[str, "os.PathLike[str]", None] = None) -> Job:
    """Starts `ddprun` with these words, and returns when the workers run: launch(["--nproc-per-node", "4", "train.py"]).

    `env` replaces the environment. Raises JobFailed with what the launcher has said if the workers cannot be started.
    """
    if isinstance(words, (str, bytes)):
        raise ValueError(f"words: must be a list of words, not the text {words!r}")
    done = subprocess.run([program("ddprun"), "--detach", *(os.fspath(word) for word in words)], env=environment_for(env), cwd=cwd, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
    if done.returncode != 0:
        raise JobFailed(done.stderr.strip(), done.returncode)
    return Job(done.stdout.strip())
