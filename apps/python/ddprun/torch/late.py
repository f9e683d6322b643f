"""Ranks that still make their extension: the others say so and wait, where their meeting would run out of time without a reason."""

import contextlib
import datetime
import time

from . import build, kept

NOTICE = 3.0  # seconds; what is there is loaded in a hundredth of them
_LONGEST_PAUSE = 0.05
_NAMING = datetime.timedelta(seconds=1)  # of a meeting that only finds out who is missing
_PLACE = "ddprun/extension"


@contextlib.contextmanager
def making(store, rank):
    """While this rank makes its extension, or loads it."""
    store.set(f"{_PLACE}/begun/{rank}", "1")
    try:
        yield
    finally:
        store.set(f"{_PLACE}/done/{rank}", "1")


def _makers(store, size):
    return [rank for rank in range(size) if store.check([f"{_PLACE}/begun/{rank}"]) and not store.check([f"{_PLACE}/done/{rank}"])]


def meeting_limit(store, rank, size, limit):
    """Waits until all ranks of the group have their extension, this one having it: for those that make theirs as long as that may take, for
    others up to `limit`. Returns how long the meeting may take then."""
    if store.add(f"{_PLACE}/loaded", 1) >= size:
        store.set(f"{_PLACE}/all", "1")
    most = limit.total_seconds()
    began, pause, look, told = time.monotonic(), 0.001, min(NOTICE, most), set()
    while not store.check([f"{_PLACE}/all"]):
        waited = time.monotonic() - began
        if waited >= look:
            makers = _makers(store, size)
            if waited >= (build.COMPILE_LIMIT if makers else most):
                return min(limit, _NAMING)
            look = waited + NOTICE if makers else min(waited + NOTICE, most)
            if not told.issuperset(makers):
                kept.say(f"rank {rank} waits for {'rank' if len(makers) == 1 else 'ranks'} {', '.join(map(str, makers))}: there the extension "
                         "for torch is being made (half a minute); `python -m ddprun.torch build` makes it before a job")
                told.update(makers)
        time.sleep(pause)  # A key that comes is no event: a wait of the store prints warnings when it ends.
        pause = min(2 * pause, _LONGEST_PAUSE)
    return limit
