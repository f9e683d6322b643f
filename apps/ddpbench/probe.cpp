#include "apps/ddpbench/probe.hpp"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "apps/ddpbench/statistics.hpp"

namespace ddprun {
namespace {

constexpr int kTries = 15;
constexpr int kExchanges = 64;
// A single core would otherwise spin until its time slice ends.
constexpr int kSpins = 20'000;

void wait_for(const std::atomic<int>& flag, int value) {
    for (int spins = 0; flag.load(std::memory_order_acquire) != value; ++spins) {
        if (spins > kSpins) std::this_thread::yield();
    }
}

}  // namespace

double probe_round_trip() {
    struct alignas(128) Line {
        std::atomic<int> flag{0};
    };
    Line there;
    Line back;
    std::thread other([&] {
        for (int turn = 1; turn <= kTries * kExchanges; ++turn) {
            wait_for(there.flag, turn);
            back.flag.store(turn, std::memory_order_release);
        }
    });
    std::vector<double> times;
    for (int turn = 1; turn <= kTries * kExchanges;) {
        const auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < kExchanges; ++i, ++turn) {
            there.flag.store(turn, std::memory_order_release);
            wait_for(back.flag, turn);
        }
        const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
        times.push_back(time.count() / kExchanges);
    }
    other.join();
    return statistics_of(times).median;
}

}  // namespace ddprun
