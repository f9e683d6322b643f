// Open MPI's all-reduce, timed; or with `pingpong` before the rest, a message there and back. See timing.hpp.
#include <mpi.h>

#include <cstring>
#include <vector>

#include "timing.hpp"

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    Peer peer;
    MPI_Comm_rank(MPI_COMM_WORLD, &peer.rank);
    peer.barrier = [] { MPI_Barrier(MPI_COMM_WORLD); };
    peer.all_reduce = [](float* data, std::size_t count) {
        MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    };
    const bool pings = argc > 1 && std::strcmp(argv[1], "pingpong") == 0;
    std::vector<float> received;
    if (pings) {
        peer.all_reduce = [&](float* data, std::size_t count) {
            received.resize(count);
            const int bytes = static_cast<int>(count * sizeof(float));
            const auto send = [&] { MPI_Send(data, bytes, MPI_BYTE, 1 - peer.rank, 0, MPI_COMM_WORLD); };
            if (peer.rank == 0) send();
            MPI_Recv(received.data(), bytes, MPI_BYTE, 1 - peer.rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (peer.rank > 0) send();
        };
    }
    time_sizes(peer, argc - pings, argv + pings);
    MPI_Finalize();
}
