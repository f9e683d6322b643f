// A worker for tests: uses a communicator from the environment in one of several ways, and prints what it
// saw.
//
//   check-all [ROUNDS]         every operation with checked values; "rank R of N: ok"
//   kill-me RANK SEED          all ranks loop over operations; RANK is killed by a timer at a moment drawn
//   from SEED exit-quietly RANK          RANK ends with exit code 0 in the middle, without a goodbye absent
//   RANK MILLISECONDS   RANK stays away until its standard input ends; the operation's limit is MILLISECONDS
//   absent-in-half RANK MILLISECONDS  the same where the even ranks, and the odd ones, have a communicator
//   each mismatch RANK              RANK passes one element more than the others use-for-ever all ranks loop
//   over operations exchange-for-ever RANK SEED  as kill-me, in groups of large messages to both neighbours
//   reduce-for-ever            all ranks loop over large all_reduces
//   reduce-shared-for-ever     the same, of buffers from the communicator
//
// A CollectiveError is printed as "error CODE CULPRIT…: TEXT" and ends the program with code 3.
#include <sys/time.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "collectives/group.hpp"
#include "tests/support/rank_program.hpp"

using namespace ddprun;

namespace {

void require(bool condition, const std::string& what) {
    if (!condition) throw std::runtime_error(what);
}

template <class T>
void check_sizes(Communicator& comm) {
    const int n = comm.world_size();
    const auto ranks = static_cast<std::size_t>(n);
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{1}, ranks + 1, std::size_t{1009}, std::size_t{300'007}}) {
        std::vector<T> data(count, static_cast<T>(comm.rank() + 1));
        comm.all_reduce(std::span(data), ReduceOp::sum);
        require(data == std::vector<T>(count, static_cast<T>(n * (n + 1) / 2)), "all_reduce(sum)");
        data.assign(count, static_cast<T>(comm.rank() + 1));
        comm.all_reduce(std::span(data), ReduceOp::max);
        require(data == std::vector<T>(count, static_cast<T>(n)), "all_reduce(max)");
        data.assign(count, static_cast<T>(comm.rank()));
        comm.broadcast(std::span(data), n - 1);
        require(data == std::vector<T>(count, static_cast<T>(n - 1)), "broadcast");
        std::vector<T> mine(count, static_cast<T>(comm.rank()));
        std::vector<T> all(count * ranks);
        comm.all_gather(mine, std::span(all));
        for (std::size_t i = 0; i < all.size(); ++i)
            require(all[i] == static_cast<T>(i / count), "all_gather");
        comm.reduce_scatter(all, std::span(mine), ReduceOp::avg);
        require(mine == std::vector<T>(count, static_cast<T>(comm.rank())), "reduce_scatter");
        comm.barrier();
        if (n < 2) continue;
        if (comm.rank() == 0) comm.send(std::span(mine), n - 1);
        if (comm.rank() == n - 1) comm.recv(std::span(mine), 0);
        require(comm.rank() != n - 1 || mine == std::vector<T>(count, T{0}), "recv");
    }
}

void check_all(Communicator& comm, int rounds) {
    for (int round = 0; round < rounds; ++round) {
        check_sizes<float>(comm);
        check_sizes<double>(comm);
        check_sizes<int>(comm);
        check_sizes<long>(comm);
    }
    std::printf("rank %d of %d: ok\n", comm.rank(), comm.world_size());
}

void say_ready() {
    std::printf("ready\n");
    std::fflush(stdout);
}

void use_for_ever(Communicator& comm) {
    std::vector<float> small(100);
    std::vector<float> large(400'000);
    std::vector<float> part(large.size() / static_cast<std::size_t>(comm.world_size()));
    const auto whole = std::span(large).first(part.size() * static_cast<std::size_t>(comm.world_size()));
    comm.barrier();
    say_ready();
    while (true) {
        comm.all_reduce(std::span(small), ReduceOp::sum);
        comm.all_reduce(std::span(large), ReduceOp::sum);
        comm.broadcast(std::span(large), 1);
        comm.reduce_scatter(whole, std::span(part), ReduceOp::sum);
        comm.all_gather(part, whole);
        comm.barrier();
    }
}

void reduce_for_ever(Communicator& comm) {
    std::vector<float> data(3'000'000, 1);
    comm.barrier();
    say_ready();
    while (true) comm.all_reduce(std::span(data), ReduceOp::max);
}

void reduce_shared_for_ever(Communicator& comm) {
    const std::size_t part = 3'000'000 / static_cast<std::size_t>(comm.world_size());
    const auto data = comm.allocate<float>(part * static_cast<std::size_t>(comm.world_size()));
    const auto own = comm.allocate<float>(part);
    comm.barrier();
    say_ready();
    while (true) {
        comm.all_reduce(data.span(), ReduceOp::max);
        comm.broadcast(data.span(), 1);
        comm.all_gather(own.span(), data.span());
        comm.reduce_scatter(data.span(), own.span(), ReduceOp::max);
    }
}

void exchange_for_ever(Communicator& comm) {
    const int n = comm.world_size();
    std::vector<std::vector<float>> sent(2, std::vector<float>(1'000'000));
    std::vector<std::vector<float>> received = sent;
    Group group(comm);
    while (true) {
        group.send(std::span(sent[0]), (comm.rank() + 1) % n);
        group.send(std::span(sent[1]), (comm.rank() + n - 1) % n);
        group.recv(std::span(received[0]), (comm.rank() + n - 1) % n);
        group.recv(std::span(received[1]), (comm.rank() + 1) % n);
        group.run();
    }
}

// The default action of SIGALRM kills the process as SIGKILL does: nothing of ours runs.
void die_within(unsigned seed) {
    std::mt19937 random(seed);
    itimerval timer{};
    timer.it_value.tv_usec = 1 + static_cast<long>(random() % 40'000);
    ::setitimer(ITIMER_REAL, &timer, nullptr);
}

void stay_away() {
    char byte = 0;
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
    }
}

int argument(const std::vector<std::string>& arguments, std::size_t index) {
    require(index < arguments.size(), "an argument is missing");
    return std::stoi(arguments[index]);
}

void meet_without(Communicator& comm, bool is_absent, Communicator& whole) {
    std::vector<float> data(1000);
    whole.barrier();
    say_ready();
    if (is_absent) stay_away();
    // One who comes late may find all it needs for the first call, but nobody in the second.
    comm.all_reduce(std::span(data), ReduceOp::sum);
    comm.barrier();
}

void run(const std::vector<std::string>& arguments) {
    const std::string mode = arguments.empty() ? "" : arguments[0];
    CommunicatorOptions options;
    if (mode.starts_with("absent"))
        options.operation_timeout = std::chrono::milliseconds(argument(arguments, 2));
    Communicator comm = Communicator::from_env(options);
    std::vector<float> data(1000);
    if (mode == "kill-me" || mode == "exchange-for-ever") {
        // Of two ranks that lose each other while they still join, either may be told of first.
        comm.barrier();
        if (comm.rank() == argument(arguments, 1)) die_within(static_cast<unsigned>(argument(arguments, 2)));
        mode == "kill-me" ? use_for_ever(comm) : exchange_for_ever(comm);
    } else if (mode == "check-all") {
        check_all(comm, arguments.size() > 1 ? argument(arguments, 1) : 1);
    } else if (mode == "reduce-shared-for-ever") {
        reduce_shared_for_ever(comm);
    } else if (mode == "reduce-for-ever") {
        reduce_for_ever(comm);
    } else if (mode == "use-for-ever") {
        use_for_ever(comm);
    } else if (mode == "exit-quietly") {
        comm.barrier();
        if (comm.rank() == argument(arguments, 1)) ::_exit(0);
        use_for_ever(comm);
    } else if (mode == "absent") {
        meet_without(comm, comm.rank() == argument(arguments, 1), comm);
    } else if (mode == "absent-in-half") {
        auto half = comm.split(comm.rank() % 2, comm.rank());
        meet_without(*half, comm.rank() == argument(arguments, 1), comm);
    } else if (mode == "mismatch") {
        if (comm.rank() == argument(arguments, 1)) data.push_back(0);
        comm.all_reduce(std::span(data), ReduceOp::sum);
    } else {
        throw std::runtime_error("unknown mode '" + mode + "'");
    }
}

}  // namespace

int main(int argc, char** argv) { return run_rank_program(argc, argv, run); }
