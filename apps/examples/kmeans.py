"""k-means on several processes, with NumPy: each rank holds a part of the points, and the ranks add up their sums.

    ddprun --nproc-per-node 4 kmeans.py apps/data/digits.csv
"""

import sys

import numpy

from ddprun.collectives import Communicator

CLUSTERS, ROUNDS = 10, 30

with Communicator.from_env() as comm:
    table = numpy.loadtxt(sys.argv[1], delimiter=",")
    points = numpy.ascontiguousarray(table[comm.rank::comm.world_size, :-1])
    # All begin with the same centres: those of rank 0.
    centres = points[numpy.random.default_rng(0).choice(len(points), CLUSTERS, replace=False)]
    comm.broadcast(centres, root=0)

    for _ in range(ROUNDS):
        distances = ((points[:, None, :] - centres) ** 2).sum(axis=2)
        nearest = distances.argmin(axis=1)
        # Of each cluster the sum of its points, and how many there are; and the distance in all.
        sums = numpy.zeros((CLUSTERS, points.shape[1] + 1))
        numpy.add.at(sums[:, :-1], nearest, points)
        sums[:, -1] = numpy.bincount(nearest, minlength=CLUSTERS)
        loss = numpy.array([distances.min(axis=1).sum(), len(points)])
        comm.all_reduce(sums)
        comm.all_reduce(loss)
        counts = sums[:, -1:]
        centres = numpy.where(counts > 0, sums[:, :-1] / numpy.maximum(counts, 1), centres)

    same = comm.all_gather_object(centres.tobytes())
    if comm.rank == 0:
        print(f"{int(loss[1])} points on {comm.world_size} ranks, mean squared distance {loss[0] / loss[1]:.3f}, "
              f"the centres are bit-equal on {same.count(same[0])} of {comm.world_size} ranks")
