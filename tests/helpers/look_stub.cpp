// A program with calls that have names, for the tests of the reader of native stacks: waits, or computes, in
// the innermost.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <thread>

namespace stub {

using Rounds = std::atomic<unsigned>;

// Each call is one of its own, with something behind it: else the compiler joins them.
struct Innermost {
    [[gnu::noinline]] static void wait(Rounds& rounds) {
        const timespec time{1000, 0};
        ::nanosleep(&time, nullptr);  // to wait is what it is for: there is no event
        ++rounds;
    }
    [[gnu::noinline]] static void compute(Rounds& rounds) {
        while (++rounds != 0 || ::getppid() != 0) {
        }
    }
    // In the page of code that is the kernel's.
    [[gnu::noinline]] static void tick(Rounds& rounds) {
        for (timespec time{}; time.tv_nsec >= 0;) {
            ::clock_gettime(CLOCK_MONOTONIC, &time);
            ++rounds;
        }
    }
};

namespace {
template <class Way>
[[gnu::noinline]] void middle(Way way, Rounds& rounds) {
    way(rounds);
    ++rounds;
}
}  // namespace

[[gnu::noinline]] void outer(std::string_view how, Rounds& rounds) {
    if (how == "wait") middle([](Rounds& all) { Innermost::wait(all); }, rounds);
    if (how == "compute") middle([](Rounds& all) { Innermost::compute(all); }, rounds);
    if (how == "tick") middle([](Rounds& all) { Innermost::tick(all); }, rounds);
    ++rounds;
}

}  // namespace stub

int main(int count, char** words) {
    stub::Rounds rounds{0};
    const std::string_view how = count > 1 ? words[1] : "wait";
    const int threads = count > 2 ? std::atoi(words[2]) : 0;
    for (int i = 0; i < threads; ++i) std::thread([&] { stub::outer(how, rounds); }).detach();
    std::puts("ready");
    std::fflush(stdout);
    stub::outer(how, rounds);
}
