#include "launcher/look/pthread_ids.hpp"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <latch>
#include <thread>

#include "launcher/look/process_memory.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("the kernel's number of a pthread_t") {
    const auto self = [] { return std::pair(static_cast<std::uintptr_t>(::pthread_self()), ::gettid()); };
    std::pair<std::uintptr_t, pid_t> other;
    std::latch told(1), seen(1);
    std::thread thread([&] {
        other = self();
        told.count_down();
        seen.wait();
    });
    told.wait();
    const auto main = self();
    const ProcessMemory memory(::getpid());
    const std::vector<pid_t> threads = {main.second, other.second, 999'999'999};
    using Ids = std::vector<pid_t>;
    CHECK(pthread_ids(memory, std::vector{other.first, main.first}, threads) ==
          Ids{other.second, main.second});
    CHECK(pthread_ids(memory, std::vector{main.first}, threads) == Ids{main.second});
    CHECK(pthread_ids(memory, std::vector{std::uintptr_t{8}, main.first}, threads) == Ids{0, main.second});
    CHECK(pthread_ids(memory, std::vector{main.first, main.first}, threads) == Ids{0, 0});
    CHECK(pthread_ids(memory, std::vector{main.first}, {}) == Ids{0});
    CHECK(pthread_ids(memory, {}, threads) == Ids{});
    seen.count_down();
    thread.join();
}

}  // namespace ddprun
