// A rank that makes connections of one kind, as often as it is told: crowd_program OPERATION [TIMES]
//
//   start      joins, reduces and ends
//   groups     makes groups of two ranks and of all, which reduce
//   split      splits by the ranks' parity
//   shrink     makes a communicator of all ranks anew, in the store
//   messages   sends to all others by tag, in a communicator of its own each time
//
// Each result is checked; at the end it prints "rank R: ok".
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "collectives/communicator.hpp"
#include "tests/support/rank_program.hpp"

using namespace ddprun;

namespace {

void require(bool condition, const char* what) {
    if (!condition) throw std::runtime_error(what);
}

void reduce(Communicator& comm) {
    std::vector<int> data(1000, 1);
    comm.all_reduce(std::span(data), ReduceOp::sum);
    require(data == std::vector<int>(1000, comm.world_size()), "the sum");
}

void make_group(Communicator& comm, int turn) {
    const int size = comm.world_size();
    std::vector<int> ranks(static_cast<std::size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0);
    // Rounds of all pairs, one pair for each rank, and then all.
    const int step = turn % size;
    const int other = ((step - comm.rank()) % size + size) % size;
    const bool is_pair = step != 0 && other != comm.rank();
    if (is_pair) ranks = {std::min(comm.rank(), other), std::max(comm.rank(), other)};
    if (step != 0 && !is_pair) return;
    std::string name = std::to_string(turn);
    if (is_pair) name += "/" + std::to_string(ranks[0]);
    Communicator group = comm.subgroup(ranks, name);
    reduce(group);
}

void send_to_all(Communicator& comm) {
    Communicator own = *comm.split(0, comm.rank());
    std::vector<Work> works;
    std::vector<int> heard(static_cast<std::size_t>(own.world_size()), -1);
    const int said = own.rank();
    for (int peer = 0; peer < own.world_size(); ++peer) {
        if (peer == own.rank()) continue;
        works.push_back(own.start_recv_tagged(&heard[static_cast<std::size_t>(peer)], sizeof(int), peer, 7));
        works.push_back(own.start_send_tagged(&said, sizeof(int), peer, 7));
    }
    for (Work& work : works) work.wait();
    for (int peer = 0; peer < own.world_size(); ++peer)
        require(peer == own.rank() || heard[static_cast<std::size_t>(peer)] == peer, "the message");
}

void run(const std::vector<std::string>& arguments) {
    const std::string operation = arguments.at(0);
    const int times = arguments.size() > 1 ? std::stoi(arguments[1]) : 1;
    Communicator comm = Communicator::from_env();
    for (int turn = 0; turn < times; ++turn) {
        if (operation == "groups") make_group(comm, turn);
        if (operation == "split") {
            auto half = comm.split(comm.rank() % 2);
            reduce(*half);
        }
        if (operation == "shrink") comm = comm.shrink({});
        if (operation == "messages") send_to_all(comm);
        if (operation == "start" || operation == "shrink") reduce(comm);
    }
    const int rank = comm.rank();
    comm.barrier();
    comm.finalize();
    std::printf("rank %d: ok\n", rank);
}

}  // namespace

int main(int argc, char** argv) { return ddprun::run_rank_program(argc, argv, run); }
