// Times all_reduce of floats in the job it is started in, and prints one line for each size on rank 0:
//
//   BYTES P50 P99          both in microseconds, of this rank's calls
//
// DDPRUN_TRANSPORT chooses the transport, so two runs compare them. The input is written anew before each
// call, which is not timed, as training does; all ranks begin a call together.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "collectives/communicator.hpp"

using namespace ddprun;

namespace {

void time_size(Communicator& comm, std::size_t bytes, int calls) {
    std::vector<float> data(bytes / sizeof(float));
    std::vector<double> microseconds;
    for (int i = -calls / 10; i < calls; ++i) {
        std::fill(data.begin(), data.end(), static_cast<float>(comm.rank()));
        comm.barrier();
        const auto begin = std::chrono::steady_clock::now();
        comm.all_reduce(std::span(data), ReduceOp::sum);
        const auto end = std::chrono::steady_clock::now();
        if (i >= 0) microseconds.push_back(std::chrono::duration<double, std::micro>(end - begin).count());
    }
    std::sort(microseconds.begin(), microseconds.end());
    if (comm.rank() == 0) {
        std::printf("%zu %.3f %.3f\n", bytes, microseconds[microseconds.size() / 2],
                    microseconds[microseconds.size() * 99 / 100]);
    }
}

}  // namespace

int main(int argc, char** argv) {
    const int calls = argc > 1 ? std::atoi(argv[1]) : 1000;
    Communicator comm = Communicator::from_env();
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{32} << 10, std::size_t{1} << 20}) {
        time_size(comm, bytes, bytes > 100'000 ? std::max(calls / 10, 10) : calls);
    }
    time_size(comm, std::size_t{25} << 20, std::max(calls / 100, 10));
}
