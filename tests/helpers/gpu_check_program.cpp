// A worker of scripts/gpu_check.sh and of tests: uses the NCCL backend, on a GPU or on the stand-in, in one
// of several ways, and prints what it saw as lines of "name value".
//
//   describe             this rank's device, and what binds it
//   overhead MIB         one rank: host calls and device times of our all_reduce and of NCCL's own; an
//                        all_reduce of MIB out of place and a copy
//   compare BYTES        all ranks: an all_reduce of ours and of NCCL's own, in turn
//   die RANK SEED        all ranks reduce for ever; RANK is killed at a moment drawn from SEED
//   abort RANK           all ranks reduce for ever; RANK aborts
//
// Times are microseconds. `died_at`, `aborted_at` and `error_at` are microseconds of the machine's monotonic
// clock, the same for all processes. A CollectiveError is printed as "error CODE CULPRIT…: TEXT"; exit
// code 3.
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/nccl/cuda_driver.hpp"
#include "collectives/nccl/nccl_join.hpp"
#include "collectives/nccl/nccl_library.hpp"

using namespace ddprun;

namespace {

using Clock = std::chrono::steady_clock;

void require(bool condition, const std::string& what) {
    if (!condition) throw std::runtime_error(what);
}

std::int64_t now_us() {
    return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch()).count();
}

void say(const char* name, double value) {
    std::printf("%s %.3f\n", name, value);
    std::fflush(stdout);
}

double median(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                     values.end());
    return values[values.size() / 2];
}

// What this program needs of CUDA and NCCL beside the communicator.
struct Gpu {
    std::shared_ptr<const NcclLibrary> nccl;
    std::shared_ptr<const CudaPrimaryContext> context;
    CudaStream stream = nullptr;

    explicit Gpu(const Communicator& comm) {
        CommunicatorOptions options;
        options.backend = BackendChoice::nccl;
        options.device = comm.device();
        const auto settings = read_nccl_settings(current_environment(), options, comm.local_rank());
        nccl = NcclLibrary::open(settings->nccl_library);
        context =
            std::make_shared<CudaPrimaryContext>(CudaDriver::open(settings->cuda_library), settings->device);
        const CudaScope scope(*context);
        context->driver().require(context->driver().stream_create(&stream, kCudaStreamDefault), "a stream");
    }

    void synchronize() const {
        while (context->driver().stream_query(stream) == CudaResult::not_ready) std::this_thread::yield();
    }

    // Device time of what body() puts into the stream.
    double device_time(const std::function<void()>& body) const {
        const CudaDriver& driver = context->driver();
        CudaEvent begin = nullptr;
        CudaEvent end = nullptr;
        driver.require(driver.event_create(&begin, 0), "an event");
        driver.require(driver.event_create(&end, 0), "an event");
        driver.require(driver.event_record(begin, stream), "an event");
        body();
        driver.require(driver.event_record(end, stream), "an event");
        synchronize();
        float milliseconds = 0;
        driver.require(driver.event_elapsed(&milliseconds, begin, end), "the time of a stream");
        driver.event_destroy(begin);
        driver.event_destroy(end);
        return static_cast<double>(milliseconds) * 1000;
    }
};

// NCCL's own communicator of the same ranks, without anything of ours around it, and used as nccl-tests does:
// a blocking one, with whatever algorithms NCCL or the environment chooses, as ours.
class RawNccl {
  public:
    RawNccl(Communicator& comm, const Gpu& gpu) : gpu_(gpu) {
        NcclUniqueId id;
        if (comm.rank() == 0) accept(gpu.nccl->get_unique_id(&id));
        CudaMemory bytes(gpu.context, sizeof id);
        bytes.copy_from(&id, sizeof id);
        comm.broadcast(bytes.data(), sizeof id, DataType::u8, 0);
        bytes.copy_to(&id, sizeof id);
        NcclConfig config;
        config.blocking = 1;
        accept(gpu.nccl->init_rank_config(&handle_, comm.world_size(), id, comm.rank(), &config));
    }
    ~RawNccl() { gpu_.nccl->abort(handle_); }
    RawNccl(const RawNccl&) = delete;
    RawNccl& operator=(const RawNccl&) = delete;

    void all_reduce(const CudaMemory& in, const CudaMemory& out, std::size_t count) {
        accept(gpu_.nccl->all_reduce(in.data(), out.data(), count, NcclType::float32, NcclOp::sum, handle_,
                                     gpu_.stream));
    }

  private:
    void accept(NcclResult result) {
        require(result == NcclResult::success, std::string("NCCL: ") + gpu_.nccl->get_error_string(result));
    }

    const Gpu& gpu_;
    NcclHandle handle_ = nullptr;
};

// Both ways in turn, so that whatever disturbs one disturbs the other.
struct Pair {
    std::vector<double> ours;
    std::vector<double> raw;

    double of_ours() const { return median(ours); }
    double of_raw() const { return median(raw); }
};

template <class Ours, class Raw>
Pair in_turn(int rounds, Ours ours, Raw raw) {
    Pair pair;
    for (int i = 0; i < rounds; ++i) {
        pair.ours.push_back(ours());
        pair.raw.push_back(raw());
    }
    return pair;
}

void describe(const Communicator& comm) {
    const Gpu gpu(comm);
    const char* seen = std::getenv("CUDA_VISIBLE_DEVICES");
    const char* own = std::getenv("DDPRUN_DEVICE");
    std::printf("rank %d device %d name %s nccl %s library %s CUDA_VISIBLE_DEVICES %s DDPRUN_DEVICE %s\n",
                comm.rank(), comm.device(), gpu.context->device_name().c_str(),
                nccl_version_text(gpu.nccl->version).c_str(), gpu.nccl->library.path().c_str(),
                seen != nullptr ? seen : "-", own != nullptr ? own : "-");
}

void measure_host_calls(Communicator& comm, const Gpu& gpu, RawNccl& raw) {
    constexpr int kCalls = 200;
    constexpr std::size_t kCount = 1024;
    const CudaMemory in(gpu.context, kCount * sizeof(float));
    const CudaMemory out(gpu.context, kCount * sizeof(float));
    const auto timed = [&](const std::function<void()>& call) {
        const auto begin = Clock::now();
        for (int i = 0; i < kCalls; ++i) call();
        const double time = std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / kCalls;
        gpu.synchronize();
        return time;
    };
    const auto ours = [&] {
        return timed([&] {
            comm.async(gpu.stream).all_reduce(in.data(), out.data(), kCount, DataType::f32, ReduceOp::sum);
        });
    };
    const auto theirs = [&] { return timed([&] { raw.all_reduce(in, out, kCount); }); };
    ours();
    theirs();
    const Pair host = in_turn(21, ours, theirs);
    say("host_call_ours", host.of_ours());
    say("host_call_raw", host.of_raw());
}

void measure_device_times(Communicator& comm, const Gpu& gpu, RawNccl& raw, std::size_t bytes) {
    const CudaDriver& driver = gpu.context->driver();
    const std::size_t count = bytes / sizeof(float);
    const CudaMemory in(gpu.context, bytes);
    const CudaMemory out(gpu.context, bytes);
    const auto ours = [&] {
        return gpu.device_time([&] {
            comm.async(gpu.stream).all_reduce(in.data(), out.data(), count, DataType::f32, ReduceOp::sum);
        });
    };
    const auto theirs = [&] { return gpu.device_time([&] { raw.all_reduce(in, out, count); }); };
    const auto copied = [&] {
        return gpu.device_time([&] {
            driver.require(driver.copy_on_device(out.pointer(), in.pointer(), bytes, gpu.stream), "a copy");
        });
    };
    ours();
    copied();
    const Pair device = in_turn(11, ours, theirs);
    say("device_ours", device.of_ours());
    say("device_raw", device.of_raw());
    const Pair copy = in_turn(11, ours, copied);
    say("large_bytes", static_cast<double>(bytes));
    say("large_ours", copy.of_ours());
    say("large_copy", copy.of_raw());
}

void measure_overhead(Communicator& comm, std::size_t large_bytes) {
    require(comm.world_size() == 1, "overhead is measured by one rank alone");
    const Gpu gpu(comm);
    const CudaScope scope(*gpu.context);
    RawNccl raw(comm, gpu);
    measure_host_calls(comm, gpu, raw);
    measure_device_times(comm, gpu, raw, large_bytes);
}

// Each operation with the host waiting for it, as a program that needs the result does.
void compare(Communicator& comm, std::size_t bytes) {
    const Gpu gpu(comm);
    const CudaScope scope(*gpu.context);
    RawNccl raw(comm, gpu);
    const std::size_t count = bytes / sizeof(float);
    const CudaMemory in(gpu.context, bytes);
    const CudaMemory out(gpu.context, bytes);
    const auto timed = [&](const std::function<void()>& body) {
        const auto begin = Clock::now();
        body();
        return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    };
    const auto ours = [&] {
        return timed([&] {
            comm.async(gpu.stream)
                .all_reduce(in.data(), out.data(), count, DataType::f32, ReduceOp::sum)
                .wait();
        });
    };
    const auto theirs = [&] {
        return timed([&] {
            raw.all_reduce(in, out, count);
            gpu.synchronize();
        });
    };
    for (int i = 0; i < 3; ++i) ours(), theirs();
    const Pair pair = in_turn(41, ours, theirs);
    comm.barrier();
    if (comm.rank() != 0) return;
    say("compare_ours", pair.of_ours());
    say("compare_raw", pair.of_raw());
}

void reduce_for_ever(Communicator& comm, const std::function<void()>& once) {
    const Gpu gpu(comm);
    constexpr std::size_t kCount = 1 << 18;
    const CudaMemory data(gpu.context, kCount * sizeof(float));
    const auto reduce = [&] {
        comm.all_reduce(data.data(), data.data(), kCount, DataType::f32, ReduceOp::max);
    };
    reduce();
    std::printf("ready\n");
    std::fflush(stdout);
    // Who comes through a second one knows that all others are in it, and in nothing else.
    reduce();
    once();
    while (true) reduce();
}

void die(std::mt19937& random) {
    // A thread of its own says when and kills, whatever the others are in.
    std::thread([delay = std::chrono::microseconds(1 + random() % 300'000)] {
        std::this_thread::sleep_for(delay);  // the moment of death is by chance: there is no event for it
        std::printf("died_at %lld\n", static_cast<long long>(now_us()));
        std::fflush(stdout);
        ::kill(::getpid(), SIGKILL);
    }).detach();
}

int argument(const std::vector<std::string>& arguments, std::size_t index) {
    require(index < arguments.size(), "an argument is missing");
    return std::stoi(arguments[index]);
}

void run(const std::vector<std::string>& arguments) {
    const std::string mode = arguments.empty() ? "" : arguments[0];
    CommunicatorOptions options;
    options.backend = BackendChoice::nccl;
    Communicator comm = Communicator::from_env(options);
    if (mode == "describe") {
        describe(comm);
    } else if (mode == "overhead") {
        measure_overhead(comm, static_cast<std::size_t>(argument(arguments, 1)) << 20);
    } else if (mode == "compare") {
        compare(comm, static_cast<std::size_t>(argument(arguments, 1)));
    } else if (mode == "die") {
        std::mt19937 random(static_cast<unsigned>(argument(arguments, 2)));
        const bool victim = comm.rank() == argument(arguments, 1);
        reduce_for_ever(comm, [&] {
            if (victim) die(random);
        });
    } else if (mode == "abort") {
        const bool aborts = comm.rank() == argument(arguments, 1);
        reduce_for_ever(comm, [&] {
            if (!aborts) return;
            std::printf("aborted_at %lld\n", static_cast<long long>(now_us()));
            comm.abort("asked to");
        });
    } else {
        throw std::runtime_error("unknown mode '" + mode + "'");
    }
}

}  // namespace

int main(int argc, char** argv) {
    try {
        run({argv + 1, argv + argc});
        return 0;
    } catch (const CollectiveError& error) {
        std::printf("error_at %lld\nerror %s", static_cast<long long>(now_us()),
                    std::string(name_of(error.code())).c_str());
        for (const int rank : error.culprits()) std::printf(" %d", rank);
        std::printf(": %s\n", error.what());
        std::fflush(stdout);
        // The device may be stuck: nothing waits for it, as exit() could.
        std::_Exit(3);
    } catch (const std::exception& error) {
        std::printf("failed: %s\n", error.what());
        return 1;
    }
}
