"""jax.distributed.initialize from the launcher's variables. JAX's coordinator has a port of its own.

Usage: with_jax.py PORT
"""

import os
import sys

import jax
import jax.numpy as jnp
from jax.experimental import multihost_utils

from saying import ok


def main():
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(coordinator_address=f"{os.environ['MASTER_ADDR']}:{sys.argv[1]}", num_processes=world,
                               process_id=rank, initialization_timeout=120)
    assert (jax.process_index(), jax.process_count()) == (rank, world)
    gathered = multihost_utils.process_allgather(jnp.array([rank]))
    assert gathered.flatten().tolist() == list(range(world)), gathered
    multihost_utils.sync_global_devices("done")
    ok("JAX")
    jax.distributed.shutdown()


main()
