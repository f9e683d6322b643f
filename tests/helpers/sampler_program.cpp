// Prints what DistributedSampler hands out, so that a test can hold it against PyTorch's.
//
// Reads lines "size replicas seed epoch shuffle drop_last" from stdin (the last two are 0 or 1) and prints,
// for each of them, one line for each rank: its indices, separated by spaces. Ends with 2 at a line of
// another form.
#include <cstdint>
#include <iostream>
#include <sstream>
#include <string>

#include "collectives/distributed_sampler.hpp"

int main() {
    std::string line;
    while (std::getline(std::cin, line)) {
        std::istringstream fields(line);
        std::size_t size = 0;
        int replicas = 0;
        std::uint64_t seed = 0;
        std::uint64_t epoch = 0;
        bool shuffle = false;
        bool drop_last = false;
        if (!(fields >> size >> replicas >> seed >> epoch >> shuffle >> drop_last)) {
            std::cerr << "sampler_program: malformed line '" << line << "'\n";
            return 2;
        }
        for (int rank = 0; rank < replicas; ++rank) {
            ddprun::DistributedSampler sampler(size, replicas, rank,
                                               {.shuffle = shuffle, .seed = seed, .drop_last = drop_last});
            sampler.set_epoch(epoch);
            for (const std::size_t index : sampler.indices()) std::cout << index << ' ';
            std::cout << '\n';
        }
    }
    return 0;
}
