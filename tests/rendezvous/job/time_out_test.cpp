#include "rendezvous/job/time_out.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("time-outs: the words by which programs say that they did not want to wait any longer") {
    for (
        const char* words :
        {"RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting "
         "2000ms for recv operation to complete",
         "torch.distributed.DistStoreError: Timed out after 2 seconds waiting for clients. 1/4 clients joined.",
         "RuntimeError: Socket Timeout", "torch.distributed.DistStoreError: Socket Timeout",
         "torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /default_pg/0//cpu//0",
         "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=6, OpType=ALLREDUCE) ran for "
         "10000 milliseconds before timing out.",
         "what():  [PG ID 0] Process group watchdog thread terminated with exception: [Rank 3]",
         "[rank1]: NCCL watchdog thread terminated with exception", "TimeoutError: timed out", "TimeoutError",
         "RuntimeError: [Rank 0]: Rank 2 failed to pass monitoredBarrier in 2000 ms: timed out",
         "all_reduce: Timed out after 2000 ms: rank 2 has not come", "grpc: Deadline Exceeded"}) {
        INFO(words);
        CHECK(is_time_out(words));
    }
    for (const char* words :
         {"ValueError: loss is not finite", "", "timeout=30", "ConnectionResetError: reset",
          "RuntimeError: Connection closed by peer [127.0.0.1]:4711"}) {
        INFO(words);
        CHECK_FALSE(is_time_out(words));
    }
}

TEST_CASE("time-outs: the failed worker's words are those of its error file or its last lines") {
    Failure failure;
    CHECK_FALSE(names_time_out(failure));
    failure.last_lines = {"Traceback (most recent call last):", "TimeoutError: timed out", ""};
    CHECK(names_time_out(failure));
    failure.last_lines.clear();
    failure.error_message = "Socket Timeout";
    CHECK(names_time_out(failure));
    failure.error_message.clear();
    failure.traceback = "TimeoutError: timed out";
    CHECK(names_time_out(failure));
}

}  // namespace ddprun
