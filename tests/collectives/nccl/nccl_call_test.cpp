// What an operation's call does besides NCCL's own, counted, since nobody can time it on machines without a
// GPU; and the works that one call after the other uses. On the stand-in.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <latch>
#include <mutex>
#include <new>
#include <thread>

#include "collectives/nccl/nccl_library.hpp"
#include "collectives/nccl/nccl_work.hpp"
#include "tests/collectives/nccl/nccl_fixture.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"
#include "tests/support/thread_ranks.hpp"

// A sanitizer has its own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
namespace {

// What the calling thread has allocated so far.
std::size_t& allocations() {
    thread_local std::size_t made = 0;
    return made;
}

}  // namespace

void* operator new(std::size_t bytes) {
    ++allocations();
    if (void* const memory = std::malloc(bytes)) return memory;
    throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif

using namespace ddprun;

namespace {

using Code = CollectiveErrorCode;

Communicator rank_alone() {
    CommunicatorOptions options;
    options.device = 0;
    return Communicator::connect("tcp://127.0.0.1:1", 0, 1, options);
}

// Runs once(), which must become true, until it has.
void await(const std::function<bool()>& once) {
    const auto end = std::chrono::steady_clock::now() + kHangGuard;
    while (!once()) {
        expect(std::chrono::steady_clock::now() < end, "what is waited for has not come");
        std::this_thread::yield();
    }
}

// What is recorded in it may then be destroyed, which the stand-in does not allow before.
void await_idle(const CudaPrimaryContext& context, CudaStream stream) {
    const CudaScope scope(context);
    await([&] { return context.driver().stream_query(stream) == CudaResult::success; });
}

// A batch that is all used, by operations in these streams in turn.
std::shared_ptr<NcclBatch> full_batch(NcclBatches& home, const std::vector<CudaStream>& streams) {
    auto batch = home.take();
    while (batch->used < batch->works.size()) {
        const CudaStream stream = streams[batch->used % streams.size()];
        NcclWork& work = batch->begin_next(stream);
        work.begin(home, {}, {}, kHangGuard);
        work.launched(stream);
        ++batch->used;
    }
    return batch;
}

}  // namespace

TEST_CASE("a call asks the driver for no more than it needs") {
    const StandIn standin;
    Communicator comm = rank_alone();
    const auto context = standin_context();
    const CudaStream stream = new_stream(*context);
    const CudaScope scope(*context);  // as a program that computes on the device has it
    DeviceVector<float> numbers({1, 2, 3});
    const auto asked = standin_function<decltype(standin_driver_calls)>("standin_driver_calls");
    // The least of many, until it is as few: an event is made anew as long as no older one is free.
    const auto calls_of = [&](int few, const std::function<Work()>& start) {
        int least = 1'000;
        const auto end = std::chrono::steady_clock::now() + kHangGuard;
        while (least > few && std::chrono::steady_clock::now() < end) {
            const int before = asked();
            Work work = start();
            least = std::min(least, asked() - before);
            work.wait();
        }
        return least;
    };
    // The context of this thread, its capture mode before and after, and an event to be recorded.
    CHECK(calls_of(4, [&] { return comm.async().all_reduce(numbers.span(), ReduceOp::sum); }) == 4);
    // And whether a stream of the program's is being captured.
    CHECK(calls_of(5, [&] { return comm.async(stream).all_reduce(numbers.span(), ReduceOp::sum); }) == 5);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("a call makes next to nothing anew") {
    const StandIn standin;
    Communicator comm = rank_alone();
    const auto context = standin_context();
    const CudaDriver& driver = context->driver();
    const CudaStream stream = new_stream(*context);
    const CudaStream other_stream = new_stream(*context);
    const CudaScope scope(*context);
    DeviceVector<float> numbers({1, 2, 3});
    DeviceVector<float> others({1, 2, 3});
    const auto nccl = NcclLibrary::open(DDPRUN_STANDIN_NCCL);
    NcclUniqueId id;
    nccl->get_unique_id(&id);
    NcclConfig config;
    NcclHandle handle = nullptr;
    REQUIRE(nccl->init_rank_config(&handle, 1, id, 0, &config) == NcclResult::success);
    CudaEvent event = nullptr;
    REQUIRE(driver.event_create(&event, kCudaEventDisableTiming) == CudaResult::success);
    constexpr std::size_t kCalls = 800;
    // The calls alone are counted, and each operation has ended when the next one comes.
    const auto made_by = [&](const std::function<Work()>& call) {
        std::size_t made = 0;
        for (std::size_t i = 0; i < kCalls; ++i) {
            const std::size_t before = allocations();
            const Work work = call();
            made += allocations() - before;
            work.wait();
        }
        return made;
    };
    const auto ours = [&] { return comm.async(stream).all_reduce(numbers.span(), ReduceOp::sum); };
    // NCCL and the driver alone, since their stand-in makes things anew, too.
    const auto theirs = [&] {
        void* const data = others.span().data();
        nccl->all_reduce(data, data, 3, NcclType::float32, NcclOp::sum, handle, other_stream);
        driver.event_record(event, other_stream);
        return Work();
    };
    made_by(ours);
    // Once for all works that are looked after together.
    CHECK(made_by(ours) <= made_by(theirs) + kCalls / 8);
    comm.finalize(kHangGuard);
    CHECK(nccl->abort(handle) == NcclResult::success);
    driver.stream_destroy(other_stream);
    driver.event_destroy(event);
}
#endif

TEST_CASE("works are used again when nobody has any of their batch") {
    const StandIn standin;
    const auto home = std::make_shared<NcclBatches>(standin_context());
    auto batch = home->take();
    const NcclBatch* const first = batch.get();
    std::shared_ptr<WorkState> held(batch, &batch->works[3]);
    batch.reset();
    CHECK(home->take().get() != first);
    held.reset();
    const auto again = home->take();
    CHECK(again.get() == first);
    CHECK(again->used == 0);
}

TEST_CASE("a batch has ended when the last of a stream has, and each of several streams") {
    const StandIn standin;
    std::latch looked(1);
    run_communicators(2, [&](Communicator& comm) {
        DeviceVector<int> data({1});
        if (comm.rank() == 1) {
            looked.wait();
            return comm.all_reduce(data.span(), ReduceOp::sum);
        }
        const CountDown at_end(looked);
        const auto context = standin_context();
        const CudaStream slow = new_stream(*context);
        const CudaStream fast = new_stream(*context);
        const CudaScope scope(*context);
        // Nothing else in its stream ends before the other rank comes.
        const Work waits = comm.async(slow).all_reduce(data.span(), ReduceOp::sum);
        const auto home = std::make_shared<NcclBatches>(context);
        const auto quick = full_batch(*home, {fast});
        const auto mixed = full_batch(*home, {slow, fast});
        const auto asked = standin_function<decltype(standin_driver_calls)>("standin_driver_calls");
        await([&] { return mixed->works.back().look(); });
        const int before = asked();
        const bool quick_ended = quick->has_ended();
        const int questions = asked() - before;
        const bool known_of_each = quick->works.front().ended() && asked() == before + questions;
        const bool mixed_ended = mixed->has_ended();
        const NcclWork* const oldest = mixed->oldest();
        looked.count_down();
        for (const CudaStream stream : {slow, fast}) await_idle(*context, stream);
        expect(quick_ended && questions == 1, "one question for all: the others were before the last");
        expect(known_of_each, "it is known of each");
        expect(!mixed_ended, "one stream says nothing about the other");
        expect(oldest == &mixed->works.front(), "the first waits for the other rank");
        expect(mixed->oldest() == nullptr, "all have ended");
        waits.wait();
    });
}

TEST_CASE("threads start operations while others wait for them, and an abort ends them all") {
    const StandIn standin;
    Communicator comm = rank_alone();
    const auto context = standin_context();
    DeviceVector<int> numbers({1});
    std::mutex mutex;
    std::vector<Work> works;
    std::atomic<int> told{0};
    const auto how_it_ended = [](const Work& work) -> std::string_view {
        try {
            return work.wait_for(kHangGuard) ? "well" : "not";
        } catch (const CollectiveError& error) {
            return name_of(error.code());
        }
    };
    std::vector<std::thread> threads;
    std::vector<CudaStream> streams;
    for (int thread = 0; thread < 3; ++thread) {
        streams.push_back(new_stream(*context));
        threads.emplace_back([&, thread, stream = streams.back()] {
            for (int i = 0; i < 300; ++i) {
                if (thread == 0 && i == 200) comm.abort("enough");
                const Work work = comm.async(stream).all_reduce(numbers.span(), ReduceOp::max);
                if (i % 7 == thread) static_cast<void>(how_it_ended(work));
                work.then([&](const Status&) { ++told; });
                const std::lock_guard lock(mutex);
                works.push_back(work);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    await([&] { return told == 900; });
    for (const CudaStream stream : streams) await_idle(*context, stream);
    for (const Work& work : works) {
        const std::string_view end = how_it_ended(work);
        CHECK((end == "well" || end == "aborted"));
    }
    CHECK(how_it_ended(works.front()) == "well");
    CHECK(how_it_ended(works.back()) == "aborted");
}
