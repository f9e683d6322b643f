// How fast two cores of this machine answer each other: prints the nanoseconds of one exchange of a flag between two threads,
// there and back, the median of several tries. It bounds what small messages can reach, and a virtual machine's cores may move.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

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

// Two CPUs of those on which this process may run; one twice if there is just one, none if that is unknown.
std::vector<int> two_cpus() {
    cpu_set_t all;
    std::vector<int> cpus;
    if (::sched_getaffinity(0, sizeof(all), &all) != 0) return cpus;
    for (int cpu = 0; cpu < CPU_SETSIZE && cpus.size() < 2; ++cpu) {
        if (CPU_ISSET(cpu, &all)) cpus.push_back(cpu);
    }
    if (cpus.size() == 1) cpus.push_back(cpus[0]);
    return cpus;
}

// Only a wish: where it is refused, the system places the thread.
void stay_on(int cpu) {
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(cpu, &only);
    static_cast<void>(::sched_setaffinity(0, sizeof(only), &only));
}

// The median round trip between this thread and another.
double exchange_with_other(const std::vector<int>& cpus) {
    struct alignas(128) Line {
        std::atomic<int> flag{0};
    };
    Line there;
    Line back;
    std::thread other([&] {
        if (!cpus.empty()) stay_on(cpus[1]);
        for (int turn = 1; turn <= kTries * kExchanges; ++turn) {
            wait_for(there.flag, turn);
            back.flag.store(turn, std::memory_order_release);
        }
    });
    if (!cpus.empty()) stay_on(cpus[0]);
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
    std::nth_element(times.begin(), times.begin() + kTries / 2, times.end());
    return times[kTries / 2];
}

}  // namespace

int main() { std::printf("%.0f\n", exchange_with_other(two_cpus())); }
