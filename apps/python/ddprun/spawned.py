"""What a process of spawn() runs: the call in the file that its command line names. Not for others."""

import multiprocessing.spawn
import os
import pickle
import sys

if __name__ == "__main__":
    # This file's folder has modules of the package, which are not to be found by their bare names.
    del sys.path[0]
    with open(sys.argv[1], "rb") as file:
        preparation, call = pickle.load(file)
    # As a child of multiprocessing's: the caller's search path, folder and main module.
    multiprocessing.spawn.prepare(preparation)
    fn, args = pickle.loads(call)
    fn(int(os.environ["RANK"]), *args)
