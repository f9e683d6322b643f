// What the peer programs of bench_collectives.py share: the same loop as ddpbench, over another library.
//
//   PROGRAM ITERATIONS BYTES...     rank 0 prints "BYTES MICROSECONDS" for each size: the median of the iterations
//
// Each iteration writes the input anew, lets all ranks begin together, and times one call, or fifty where one is too
// short to be timed alone.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

struct Peer {
    int rank = 0;
    std::function<void()> barrier;
    std::function<void(float* data, std::size_t count)> all_reduce;
};

inline void time_sizes(const Peer& peer, int argc, char** argv) {
    constexpr std::size_t kShort = std::size_t{64} << 10;
    const int iterations = std::atoi(argv[1]);
    for (int argument = 2; argument < argc; ++argument) {
        const std::size_t bytes = std::strtoull(argv[argument], nullptr, 10);
        const int calls = bytes <= kShort ? 50 : 1;
        std::vector<float> data(bytes / sizeof(float));
        std::vector<double> times;
        for (int i = -1; i < iterations; ++i) {
            std::fill(data.begin(), data.end(), 1.0f);
            peer.barrier();
            const auto begin = std::chrono::steady_clock::now();
            for (int call = 0; call < calls; ++call) peer.all_reduce(data.data(), data.size());
            const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
            if (i >= 0) times.push_back(time.count() / calls);
        }
        std::sort(times.begin(), times.end());
        if (peer.rank == 0) std::printf("%zu %.3f\n", bytes, times[times.size() / 2]);
    }
}
