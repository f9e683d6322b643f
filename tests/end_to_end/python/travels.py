"""What python_test.py asks of exceptions and handles: whether they may be pickled, copied, and raised out of a pool."""

import concurrent.futures
import copy
import multiprocessing
import pickle

import ddprun
import numpy
from ddprun.collectives import CollectiveError, Communicator


class Own(CollectiveError):
    """A user's, with another constructor."""

    def __init__(self, step):
        super().__init__(f"step {step}", "aborted", (0,))
        self.step = step


MADE = [CollectiveError("rank 1 died", "peer_died", (1, 2)), ddprun.JobFailed("text", 3, {"ranks": [1]}), Own(7)]


def raises(number):
    error = MADE[number]
    error.noted = "by the user"
    raise error


def require_same(error, other):
    assert type(other) is type(error) and str(other) == str(error) and other.args == error.args, (error, other)
    members = {name: value for name, value in vars(other).items() if name != "noted"}
    assert members == {name: value for name, value in vars(error).items() if name != "noted"}, members


def main():
    ways = [copy.copy, copy.deepcopy]
    ways += [lambda error, protocol=each: pickle.loads(pickle.dumps(error, protocol)) for each in range(pickle.HIGHEST_PROTOCOL + 1)]
    for error in MADE:
        for way in ways:
            require_same(error, way(error))
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        for number, error in enumerate(MADE):
            raised = pool.submit(raises, number).exception()
            require_same(error, raised)
            assert raised.noted == "by the user"
    with Communicator.connect("file:///none", 0, 1) as comm:
        data = numpy.ones(1)
        for handle in (comm, comm.start.all_reduce(data)):
            for way in ways:
                try:
                    way(handle)
                except TypeError as error:
                    assert "cannot be copied" in str(error), error
                else:
                    raise AssertionError(f"{handle} was copied")
        memory = comm.allocate(4)
        memory[:] = b"1234"
        other = copy.deepcopy(memory)
        del memory
        assert bytes(other) == b"1234"
    assert repr(copy.copy(ddprun.Job("id"))) == repr(pickle.loads(pickle.dumps(ddprun.Job("id")))) == "Job('id')"
    print("travelled")
