// Open MPI's all-reduce, timed. See timing.hpp.
#include <mpi.h>

#include "timing.hpp"

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    Peer peer;
    MPI_Comm_rank(MPI_COMM_WORLD, &peer.rank);
    peer.barrier = [] { MPI_Barrier(MPI_COMM_WORLD); };
    peer.all_reduce = [](float* data, std::size_t count) {
        MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    };
    time_sizes(peer, argc, argv);
    MPI_Finalize();
}
