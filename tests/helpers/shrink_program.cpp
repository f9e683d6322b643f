// A rank that goes on after others have died: shrink_program VICTIM…
//
// Runs all_reduces until it loses a rank, shrinks, and goes on; the n-th victim (its rank in the communicator
// of that time) kills itself at a random moment. At the end prints "N ranks left, rank R: ok".
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <random>
#include <stdexcept>
#include <vector>

#include "collectives/communicator.hpp"
#include "tests/support/rank_program.hpp"

using namespace ddprun;

namespace {

void require(bool condition, const char* what) {
    if (!condition) throw std::runtime_error(what);
}

// One all_reduce of each kind of size, checked.
void reduce(Communicator& comm) {
    const int n = comm.world_size();
    for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{300'000}}) {
        std::vector<float> data(count, static_cast<float>(comm.rank() + 1));
        comm.all_reduce(std::span(data), ReduceOp::sum);
        require(data.front() == static_cast<float>(n * (n + 1) / 2), "the first sum");
        require(data.back() == data.front(), "the last sum");
    }
}

void lose(Communicator& comm, int victim) {
    const bool dies = comm.rank() == victim;
    std::random_device random;
    const auto last = static_cast<int>(random() % 20);
    try {
        // Not while the others join.
        comm.barrier();
        for (int i = 0;; ++i) {
            if (dies && i == last) ::kill(::getpid(), SIGKILL);
            reduce(comm);
        }
    } catch (const CollectiveError& error) {
        if (error.code() != CollectiveErrorCode::peer_died) throw;
        require(error.culprits() == std::vector{victim}, "the victim is the culprit");
        comm = comm.shrink(error.culprits());
    }
}

void run(const std::vector<std::string>& arguments) {
    Communicator comm = Communicator::from_env();
    for (const std::string& victim : arguments) lose(comm, std::stoi(victim));
    reduce(comm);
    const int n = comm.world_size();
    const int rank = comm.rank();
    comm.finalize();
    std::printf("%d ranks left, rank %d: ok\n", n, rank);
}

}  // namespace

int main(int argc, char** argv) { return run_rank_program(argc, argv, run); }
