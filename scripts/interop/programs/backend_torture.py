"""What becomes of each operation of the backend `ddprun` when one rank is killed, stands still, comes late, leaves or aborts: the others
learn who it was. After a kill they go on without it.

This program forks its ranks itself, all before there is a thread; they meet in a file.
"""

import os
import signal
import sys
import tempfile
import time
from datetime import timedelta

import torch
import torch.distributed as dist

import ddprun.torch

RANKS, VICTIM, CALLS_BEFORE = 3, 1, 3
AT_ONCE = 4  # operations
LATE = timedelta(seconds=6)  # what the others wait for a rank that does not come
LONG = timedelta(seconds=60)  # a hang guard
COUNT = 1000


def parts():
    return [torch.zeros(COUNT) for _ in range(RANKS)]


def message(rank):
    """From the victim to the others."""
    for peer in (0, 2):
        if rank == VICTIM:
            dist.send(torch.ones(COUNT), peer)
        elif rank == peer:
            dist.recv(torch.ones(COUNT), VICTIM)


OPERATIONS = {
    "all_reduce": lambda rank: dist.all_reduce(torch.ones(COUNT)),
    "all_reduce async": lambda rank: dist.all_reduce(torch.ones(COUNT), async_op=True).wait(),
    "all_reduce 4 MiB": lambda rank: dist.all_reduce(torch.ones(1 << 20)),
    "broadcast": lambda rank: dist.broadcast(torch.ones(COUNT), VICTIM),
    "reduce": lambda rank: dist.reduce(torch.ones(COUNT), 0),
    "all_gather": lambda rank: dist.all_gather(parts(), torch.ones(COUNT)),
    "all_gather_into_tensor": lambda rank: dist.all_gather_into_tensor(torch.ones(COUNT * RANKS), torch.ones(COUNT)),
    "gather": lambda rank: dist.gather(torch.ones(COUNT), parts() if rank == 0 else None, 0),
    "scatter": lambda rank: dist.scatter(torch.ones(COUNT), parts() if rank == VICTIM else None, VICTIM),
    "reduce_scatter": lambda rank: dist.reduce_scatter(torch.ones(COUNT), parts()),
    "all_to_all_single": lambda rank: dist.all_to_all_single(torch.ones(COUNT * RANKS), torch.ones(COUNT * RANKS)),
    "all_to_all": lambda rank: dist.all_to_all(parts(), parts()),
    "barrier": lambda rank: dist.barrier(),
    "objects": lambda rank: dist.all_gather_object([None] * RANKS, {"rank": rank}),
    "sparse": lambda rank: dist.all_reduce(torch.eye(4).to_sparse()),
    "message": message,
}


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


def stopped():
    os.kill(os.getpid(), signal.SIGSTOP)


def late():
    time.sleep(3 * LATE.total_seconds())  # longer than the others wait: no event tells that they have given up


def leaves():
    dist.destroy_process_group()
    os._exit(0)


def aborts():
    dist.distributed_c10d._abort_process_group()
    os._exit(0)


EVENTS = (killed, stopped, late, leaves, aborts)


def complaint_of(rank, event, operation):
    """What is wrong with what becomes of the others, or None."""
    begun = time.monotonic()
    try:
        while time.monotonic() - begun < LONG.total_seconds():
            operation(rank)
        return "no error has come"
    except dist.DistBackendError as error:
        is_time = event in (stopped, late)
        # Who is ahead in an operation with a root finds the root behind, too.
        if VICTIM not in error.ranks if is_time else error.ranks != [VICTIM]:
            return f"names {error.ranks}: {error}"
        if is_time and " Timed out " not in str(error):
            return f"does not say that time is over: {error}"
    if event is killed:
        group = dist.shrink_group([VICTIM])
        dist.all_reduce(total := torch.ones(2), group=group)
        if total[0] != RANKS - 1:
            return f"{total[0]} go on"
    return None


def run_rank(rank, event, operation, path, answers):
    limit = LATE if event in (stopped, late) else LONG
    dist.init_process_group("ddprun", store=dist.FileStore(path, RANKS), rank=rank, world_size=RANKS, timeout=limit)
    if rank == VICTIM:
        os.close(answers)  # it answers nothing, and nobody waits for it
        for _ in range(CALLS_BEFORE):
            operation(rank)
        event()
    else:
        os.write(answers, f"{complaint_of(rank, event, operation)}\n".encode())
    signal.pause()  # nobody hears of an end that is none of the case's


class Case:
    """A job in which one thing becomes of one operation."""

    def __init__(self, name, event, folder):
        self.title = f"{name}, a rank {event.__name__}"
        self.answers, given = os.pipe()
        path = os.path.join(folder, self.title)
        self.ranks = [self.fork(rank, event, OPERATIONS[name], path, given) for rank in range(RANKS)]
        os.close(given)

    @staticmethod
    def fork(rank, *arguments):
        process = os.fork()
        if process == 0:
            try:
                run_rank(rank, *arguments)
            except BaseException:
                sys.excepthook(*sys.exc_info())
            finally:
                os._exit(1)
        return process

    def end(self):
        """Waits for those that live; returns what is wrong."""
        said = []
        with os.fdopen(self.answers, encoding="utf-8") as answers:
            for line in answers:
                said.append(line.strip())
                if len(said) == RANKS - 1:
                    break
        for process in self.ranks:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        return None if said == ["None"] * (RANKS - 1) else said


def main():
    ddprun.torch.extension()
    wrong = 0
    names = sys.argv[1:] or list(OPERATIONS)
    with tempfile.TemporaryDirectory() as folder:
        for begin in range(0, len(names), AT_ONCE):
            cases = [Case(name, event, folder) for name in names[begin:begin + AT_ONCE] for event in EVENTS]
            for case in cases:
                if (complaint := case.end()) is not None:
                    print(f"{case.title}: {complaint}", flush=True)
                    wrong += 1
    print(f"{len(names) * len(EVENTS)} cases, {wrong} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
