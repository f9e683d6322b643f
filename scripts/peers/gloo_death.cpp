// Gloo's survivors of a death, for bench_failure.py: as tests/helpers/death_program.cpp does it with `large`.
//
//   gloo_death VICTIM MIB    RANK and WORLD_SIZE say who this is; the ranks meet in the folder GLOO_MEETING
//
// Prints "ready", then "at NANOSECONDS" of the monotonic clock, when a call has failed; ends with its input.
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <vector>

int main(int, char** argv) {
    const int rank = std::atoi(std::getenv("RANK"));
    gloo::rendezvous::FileStore store(std::getenv("GLOO_MEETING"));
    gloo::transport::tcp::attr attributes;
    attributes.hostname = "127.0.0.1";
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, std::atoi(std::getenv("WORLD_SIZE")));
    context->connectFullMesh(store, device);
    const std::size_t bytes = std::strtoull(argv[2], nullptr, 10) << 20;
    if (rank == std::atoi(argv[1]) && bytes > 0) {
        void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED || ::madvise(memory, bytes, MADV_POPULATE_WRITE) != 0) return 1;
    }
    gloo::BarrierOptions barrier(context);
    gloo::barrier(barrier);
    std::puts("ready");
    std::fflush(stdout);
    std::vector<float> data(400'000);
    try {
        while (true) {
            gloo::AllreduceOptions options(context);
            options.setOutput(data.data(), data.size());
            using Max = void (*)(void*, const void*, const void*, std::size_t);
            options.setReduceFunction(static_cast<Max>(&gloo::max<float>));
            gloo::allreduce(options);
        }
    } catch (const std::exception&) {
        timespec time{};
        ::clock_gettime(CLOCK_MONOTONIC, &time);
        std::printf("at %ld\n", time.tv_sec * 1'000'000'000 + time.tv_nsec);
        std::fflush(stdout);
        std::getchar();
    }
    return 3;
}
