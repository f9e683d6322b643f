// The NCCL backend beside the capture of CUDA graphs, on the stand-in. Ranks are threads.
#include <barrier>
#include <functional>
#include <latch>

#include "collectives/group.hpp"
#include "tests/collectives/nccl/nccl_fixture.hpp"
#include "tests/helpers/standin_capture.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"
#include "tests/support/thread_ranks.hpp"

using namespace ddprun;

namespace {

using Code = CollectiveErrorCode;

void begin_capture(CudaStream stream) {
    const auto begin = standin_function<CudaResult(CudaStream, CudaCaptureMode)>("cuStreamBeginCapture_v2");
    expect(begin(stream, CudaCaptureMode::global) == CudaResult::success, "the capture begins");
}

// Whether nothing came in the way of the capture.
CudaResult end_capture(CudaStream stream) {
    void* graph = nullptr;
    return standin_function<CudaResult(CudaStream, void**)>("cuStreamEndCapture")(stream, &graph);
}

}  // namespace

TEST_CASE("the stand-in forbids beside a capture what CUDA does") {
    const StandIn standin;
    const auto context = standin_context();
    const CudaDriver& driver = context->driver();
    const CudaStream stream = new_stream(*context);
    const auto asked_in = [&](CudaCaptureMode mode) {
        begin_capture(stream);
        driver.exchange_capture_mode(&mode);
        const CudaResult asked = driver.stream_query(stream);
        driver.exchange_capture_mode(&mode);
        return std::pair(asked, end_capture(stream));
    };
    CHECK(asked_in(CudaCaptureMode::global) ==
          std::pair(standin::kCaptureUnsupported, standin::kCaptureInvalidated));
    CHECK(asked_in(CudaCaptureMode::relaxed) == std::pair(CudaResult::success, CudaResult::success));
    driver.stream_destroy(stream);
}

TEST_CASE("operations in progress do not spoil what a thread captures meanwhile") {
    const StandIn standin;
    std::latch captured(1);
    run_communicators(2, [&](Communicator& comm) {
        const auto context = standin_context();
        DeviceVector<int> data({1});
        if (comm.rank() == 1) {
            captured.wait();
            return comm.all_reduce(data.span(), ReduceOp::sum);
        }
        const CountDown at_end(captured);
        const CudaStream stream = new_stream(*context);
        const Work work = comm.async().all_reduce(data.span(), ReduceOp::sum);
        begin_capture(stream);
        // The watch thread's, there being nobody else who asks.
        standin_function<decltype(standin_await_queries)>("standin_await_queries")(1);
        expect(!work.test(), "the other rank waits");
        expect(end_capture(stream) == CudaResult::success, "the watch thread spoiled the capture");
        captured.count_down();
        work.wait();
        expect(data.host()[0] == 2, "the sum");
        context->driver().stream_destroy(stream);
    });
}

TEST_CASE("operations in streams that are not captured go on beside a capture") {
    const StandIn standin;
    std::barrier captures(2);
    run_communicators(2, [&](Communicator& comm) {
        const auto context = standin_context();
        const CudaStream stream = new_stream(*context);
        DeviceVector<int> data({1, 2});
        begin_capture(stream);
        captures.arrive_and_wait();
        comm.all_reduce(data.span(), ReduceOp::sum);
        comm.all_to_all(data.span(), data.span());  // allocates memory
        captures.arrive_and_wait();
        expect(end_capture(stream) == CudaResult::success, "an operation spoiled the capture");
        expect(data.host() == (comm.rank() == 0 ? std::vector{2, 2} : std::vector{4, 4}), "exchanged sums");
        context->driver().stream_destroy(stream);
    });
}

TEST_CASE("operations in a stream that is captured are refused, and the communicator goes on") {
    const StandIn standin;
    run_communicators(2, [&](Communicator& comm) {
        const auto context = standin_context();
        const CudaStream stream = new_stream(*context);
        DeviceVector<int> data({1});
        begin_capture(stream);
        const auto refused = [&](const char* who, const std::function<void()>& body) {
            const std::string text = expect_error(Code::invalid_argument, {}, body).what();
            expect(text == std::string(who) +
                               ": the stream is being captured into a CUDA graph, whose runs could not be "
                               "watched: call it before or after the capture",
                   text);
        };
        refused("all_reduce", [&] { comm.async(stream).all_reduce(data.span(), ReduceOp::sum); });
        refused("group", [&] {
            Group group(comm);
            group.send(data.span(), 1 - comm.rank());
            group.start(stream);
        });
        expect(end_capture(stream) == CudaResult::success, "the capture is as it was");
        comm.async(stream).all_reduce(data.span(), ReduceOp::sum).wait();
        expect(data.host()[0] == 2, "the sum");
        context->driver().stream_destroy(stream);
    });
}
